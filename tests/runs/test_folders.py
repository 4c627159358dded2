"""Folders are replaced whole or not at all, and nothing is removed that this project did not write."""

import contextlib
import os

import pytest
from conftest import make_set, refusal
from survivors import snapshot

from datasets_gen.layout import DatasetError, atomic_directory
from reason.cli import main
from reason.errors import ConfigError
from reason.runs.folders import LISTING, plain_name, replaced_folder


def write(folder, **files):
    with replaced_folder(folder, "a report") as scratch:
        for name, text in files.items():
            (scratch / f"{name}.txt").write_text(text)
        (scratch / "deep").mkdir()
        (scratch / "deep/er.txt").write_text("within")


def test_a_folder_is_replaced_whole_or_not_at_all(tmp_path):
    """What a killed process left is removed an hour later; hidden folders of other names stay."""
    others = {".out.partial", ".out.0123abcd.partial.txt", ".other.0123abcd.partial", ".out.worksnow.partial"}
    for name in (".out.0123abcd.partial", *others):
        (tmp_path / name).mkdir()
        if "now" not in name:
            os.utime(tmp_path / name, (0, 0))
    write(tmp_path / "out", a="1", b="2")
    write(tmp_path / "out", a="3")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"a.txt", "deep", LISTING}
    before = snapshot(tmp_path)
    with contextlib.suppress(RuntimeError), replaced_folder(tmp_path / "out", "a report") as scratch:
        (scratch / "a.txt").write_text("half")
        raise RuntimeError
    assert snapshot(tmp_path) == before
    assert {path.name for path in tmp_path.iterdir()} == {"out", *others}


def test_of_two_writers_at_once_one_is_whole(tmp_path):
    """Each has a folder of its own: the later report replaces the earlier one, the later set is refused."""
    with replaced_folder(tmp_path / "out", "a report") as scratch:
        write(tmp_path / "out", a="early")
        (scratch / "b.txt").write_text("late")
    with contextlib.suppress(OSError), atomic_directory(tmp_path / "set") as scratch:
        with atomic_directory(tmp_path / "set") as other:
            (other / "a.txt").write_text("early")
        (scratch / "b.txt").write_text("late")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"b.txt", LISTING}
    assert [path.name for path in (tmp_path / "set").iterdir()] == ["a.txt"]
    assert {path.name for path in tmp_path.iterdir()} == {"out", "set"}
    with pytest.raises(DatasetError, match="is not empty"), atomic_directory(tmp_path / "set"):
        pass


@pytest.mark.parametrize("foreign", ["notes.txt", "deep/notes.txt", ".hidden"])
def test_what_is_not_ours_is_not_replaced(foreign, tmp_path):
    write(tmp_path / "out", a="1")
    (tmp_path / "out" / foreign).write_text("mine")
    before = snapshot(tmp_path / "out")
    with pytest.raises(ConfigError, match=f"out holds {foreign}, which is not a part of a report"):
        write(tmp_path / "out", a="2")
    assert snapshot(tmp_path / "out") == before


def test_a_folder_of_other_things_and_a_file(tmp_path):
    (tmp_path / "set").mkdir()
    (tmp_path / "set/results.json").write_text("{}")  # not every file of that name is ours
    (tmp_path / "file").write_text("mine")
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to("empty")
    before = snapshot(tmp_path)
    for name in ("set", "file", "link"):
        with pytest.raises(ConfigError, match=r"not a part of a report|is not a folder; name another for"):
            write(tmp_path / name, a="2")
    with pytest.raises(DatasetError, match="is not empty"), atomic_directory(tmp_path / "set"):
        pass
    assert snapshot(tmp_path) == before
    write(tmp_path / "empty", a="1")


def test_names_are_names_and_a_set_that_gives_none_asks_for_one(half, here):
    for name in ("", ".", "..", "../x", "a/b", ".hidden", "a\x1b[0m", "x" * 300):
        with pytest.raises(ConfigError, match="is not a plain folder name"):
            plain_name(name, "name")
    make_set("sudoku --size 4 --train 0 --test 4 --seed 1", here / ".set")
    told = ".set-test-T1 is not a plain folder name for this evaluation; type name=NAME"
    refusal("evaluate half data=.set steps=1", told)


def test_commands_keep_what_is_not_theirs(half, here):
    evaluate = ["evaluate", "half", "steps=1", "name=mine"]
    compare = ["compare", "half", "--out", "table"]
    assert main(evaluate) == main(compare) == 0
    (half / "evaluation/mine/notes.txt").write_text("mine")
    (here / "table/notes.txt").write_text("mine")
    before = snapshot(here)
    refusal(evaluate, "evaluation/mine holds notes.txt, which is not a part of an evaluation")
    refusal(compare, "table holds notes.txt, which is not a part of a comparison")
    assert main(["compare", "half", "--out", "."]) == 1
    assert snapshot(here) == before


def test_a_model_of_the_package_writes_below_no_run_of_that_name(half, here):
    make_set("sudoku --size 6 --train 0 --test 4 --seed 1", here / "data/sudoku-6x6")
    (here / "runs").mkdir()
    half.rename(here / "runs/sudoku-6x6")
    before = sorted(here.rglob("*"))
    refusal("evaluate sudoku-6x6 steps=1", "are written to runs/sudoku-6x6, which is a run: move it away")
    assert sorted(here.rglob("*")) == before
    assert main(["evaluate", "runs/sudoku-6x6", "steps=1", "name=mine"]) == 0
    refusal("compare sudoku-6x6", "sudoku-6x6 holds no evaluation")
