"""Folders are replaced whole or not at all, and nothing is removed that this project did not write."""

import contextlib
from pathlib import Path

import pytest
from conftest import refusal
from survivors import snapshot

from datasets_gen.locks import directory_lock
from reason.cli import main
from reason.errors import ConfigError
from reason.runs.folders import LISTING, plain_name, replaced_folder, scratch_beside


def write(folder: Path, **files: str) -> None:
    with replaced_folder(folder, "a report") as scratch:
        for name, text in files.items():
            (scratch / f"{name}.txt").write_text(text)
        (scratch / "deep").mkdir()
        (scratch / "deep/er.txt").write_text("within")


def test_a_folder_is_replaced_whole(tmp_path: Path) -> None:
    write(tmp_path / "out", a="1", b="2")
    write(tmp_path / "out", a="3")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"a.txt", "deep", LISTING}
    assert (tmp_path / "out/a.txt").read_text() == "3"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("foreign", ["notes.txt", "deep/notes.txt", ".hidden", "link"])
def test_what_is_not_ours_is_not_replaced(foreign: str, tmp_path: Path) -> None:
    write(tmp_path / "out", a="1")
    if foreign == "link":
        (tmp_path / "out/link").symlink_to(tmp_path)
    else:
        (tmp_path / "out" / foreign).write_text("mine")
    before = snapshot(tmp_path)
    with pytest.raises(ConfigError, match=f"out holds {foreign}, which is no part of a report"):
        write(tmp_path / "out", a="2")
    assert snapshot(tmp_path) == before


def test_a_file_that_comes_meanwhile_is_seen_too(tmp_path: Path) -> None:
    write(tmp_path / "out", a="1")
    with pytest.raises(ConfigError, match=r"holds notes\.txt"), replaced_folder(tmp_path / "out", "a report"):
        (tmp_path / "out/notes.txt").write_text("mine")
    assert (tmp_path / "out/a.txt").read_text() == "1"


def test_a_folder_of_other_things_and_a_file(tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    (tmp_path / "set/results.json").write_text("{}")  # not every file of that name is ours
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to("set")
    for name in ("set", "file", "link"):
        with pytest.raises(ConfigError, match=r"no part of a report|is no folder; name another for"):
            write(tmp_path / name, a="1")
    (tmp_path / "empty").mkdir()
    write(tmp_path / "empty", a="1")
    assert (tmp_path / "empty/a.txt").exists()


def test_a_failure_leaves_what_was_there(tmp_path: Path) -> None:
    write(tmp_path / "out", a="1")
    before = snapshot(tmp_path)
    with contextlib.suppress(RuntimeError), replaced_folder(tmp_path / "out", "a report") as scratch:
        (scratch / "a.txt").write_text("half")
        raise RuntimeError
    assert snapshot(tmp_path) == before


def killed_between_the_renames(folder: Path) -> None:
    """The old one moved away, the new one not yet in its place."""
    folder.rename(folder.with_name(f".{folder.name}.0123abcd.old"))
    scratch = folder.with_name(f".{folder.name}.0123abcd.partial")
    scratch.mkdir()
    (scratch / "half.txt").write_text("half")


def test_what_a_killed_process_left_is_cleared(tmp_path: Path) -> None:
    """The name stays usable, and the old folder comes back where the new one fails too."""
    write(tmp_path / "out", a="1")
    killed_between_the_renames(tmp_path / "out")
    with contextlib.suppress(RuntimeError), replaced_folder(tmp_path / "out", "a report"):
        raise RuntimeError
    assert (tmp_path / "out/a.txt").read_text() == "1"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    killed_between_the_renames(tmp_path / "out")
    write(tmp_path / "out", a="2")
    assert (tmp_path / "out/a.txt").read_text() == "2"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_leftovers_of_other_folders_stay(tmp_path: Path) -> None:
    others = (".out.partial", ".out.0123abcd.partial.txt", ".other.0123abcd.partial")
    for name in others:
        (tmp_path / name).mkdir()
    write(tmp_path / "out", a="1")
    assert {path.name for path in tmp_path.iterdir()} == {"out", *others}


def test_what_is_being_written_is_not_cleared(tmp_path: Path) -> None:
    """Two at once: each has a folder of its own, and the later one stays."""
    with replaced_folder(tmp_path / "out", "a report") as scratch:
        (scratch / "a.txt").write_text("late")
        write(tmp_path / "out", a="early")
        assert scratch.is_dir()
    assert (tmp_path / "out/a.txt").read_text() == "late"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_folder_is_locked_by_itself(tmp_path: Path) -> None:
    with scratch_beside(tmp_path / "x") as scratch, pytest.raises(BlockingIOError), directory_lock(scratch):
        pass
    with directory_lock(tmp_path), pytest.raises(BlockingIOError), directory_lock(tmp_path):
        pass
    with directory_lock(tmp_path):
        pass


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "/", ".hidden", "a\x1b[0m", "a\nb", "x" * 300])
def test_names_are_names(name: str) -> None:
    with pytest.raises(ConfigError, match="is no plain folder name"):
        plain_name(name, "name")


def test_commands_keep_what_is_not_theirs(half: Path, here: Path) -> None:
    """`reason compare --out` and `evaluate name=`, into folders that hold other things as well."""
    evaluate = ["evaluate", "half", "steps=1", "evaluation.boards=0", "name=mine"]
    assert main(evaluate) == 0
    (half / "evaluation/mine/notes.txt").write_text("mine")
    compare = ["compare", "half", "--out", "table"]
    assert main(compare) == 0
    (here / "table/notes.txt").write_text("mine")
    before = snapshot(here)
    refusal(evaluate, "evaluation/mine holds notes.txt, which is no part of an evaluation")
    refusal(compare, "table holds notes.txt, which is no part of a comparison")
    assert main(["compare", "half", "--out", "."]) == 1
    assert snapshot(here) == before
    (half / "evaluation/mine/notes.txt").unlink()
    assert main(evaluate) == 0


def test_a_refused_training_leaves_no_folder(sudoku_4x4: Path, here: Path) -> None:
    refusal(
        ["train", "sudoku-4x4", f"data={sudoku_4x4}", "data.hints=2", "training.batch_size=1000000000"],
        "training.batch_size=1000000000",
    )
    assert not list((here / "runs").iterdir())
