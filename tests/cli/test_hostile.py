"""Words, files and folders that are not what they should be: one line on stderr, status 1, nothing touched."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import NARROW, output, refusal
from survivors import change_json, snapshot

from reason.cli import guarded, main
from reason.errors import printable

ROOT = Path(__file__).parents[2]
BOARD = "1..............."


def one_line(words: str | list[str]) -> str:
    """The one line with which a command line is refused."""
    (line,) = refusal(words).splitlines()
    assert line.startswith("error: ")
    assert printable(line) == line
    return line


@pytest.mark.parametrize("pair", ["name=../../x", "evaluation.split=../s/test"])
def test_names_are_no_paths_in_training(pair: str, sudoku_4x4: Path, here: Path) -> None:
    assert pair in one_line(["train", "sudoku-4x4", f"data={sudoku_4x4}", *NARROW, pair])
    assert list(here.iterdir()) == []


@pytest.mark.parametrize("pair", ["name=../../x", "name=", "name=.", "evaluation.split=../train"])
def test_names_are_no_paths_in_evaluation(pair: str, half: Path) -> None:
    before = snapshot(half.parent)
    assert pair in one_line(["evaluate", "half", "steps=1", pair])
    assert snapshot(half.parent) == before


def test_a_run_is_evaluated_from_inside(half: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(half)
    assert main(["evaluate", ".", "steps=1", "evaluation.boards=0", "name=in"]) == 0
    assert json.loads((half / "evaluation/in/results.json").read_text())["run"] == "half"


DEEP = '{"config":' * 5000


@pytest.mark.parametrize("text", [DEEP, "\0", '{"config": {"training": {"steps": 1' + "0" * 5000 + "}}}", "[]", "3"])
def test_a_config_that_is_none(text: str, half: Path) -> None:
    (half / "config.json").write_text(text)
    for words in (["train", "run=half", "--resume"], ["evaluate", "half"], ["solve", "half", BOARD], ["pack", "half"]):
        assert "half/config.json" in one_line(words)


NO_TEXT: dict[str, Callable[[Path], object]] = {
    "a pipe": os.mkfifo,
    "a folder": Path.mkdir,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "bytes": lambda path: path.write_bytes(b"\xff\xfe\x00"),
}


@pytest.mark.parametrize("kind", NO_TEXT)
def test_no_file_of_text_blocks_or_breaks(kind: str, half: Path, here: Path) -> None:
    """A FIFO where a file should be would be waited for for ever."""

    def damage(path: Path) -> None:
        path.unlink()
        NO_TEXT[kind](path)

    assert main(["evaluate", "half", "steps=1", "evaluation.boards=0", "name=e"]) == 0
    damage(half / "evaluation/e/results.json")
    assert "results.json" in one_line("compare half")
    assert main(["presets", "--table", "cmm-1"]) == 0
    damage(half / "config.json")
    for words in (["train", "run=half", "--resume"], ["evaluate", "half"], ["solve", "half", BOARD]):
        assert "half/config.json" in one_line(words)


def test_results_that_are_none(half: Path) -> None:
    assert main(["evaluate", "half", "steps=2", "evaluation.boards=0", "name=e"]) == 0
    file = half / "evaluation/e/results.json"
    whole = file.read_text()
    for key, value in (
        ("exact_by_step", [[1]]), ("exact_by_step", [0.5]), ("exact_by_step", ["a", "b"]), ("puzzles", 0),
        ("puzzles", "many"), ("steps", 3), ("trained_steps", None), ("trained_steps", 0), ("run", ["x"]),
        ("parameters", "x"), ("dataset", 3), ("cell_by_step", []), ("exact_by_step", [2.0, -1.0]), ("split", None),
    ):  # fmt: skip
        file.write_text(json.dumps(json.loads(whole) | {key: value}))
        error = one_line("compare half")
        assert "e/results.json holds no results (" in error, (key, value)
        assert key in error, (key, value)
    file.write_text(json.dumps(json.loads(whole) | {"run": "[b]\x1b"}))
    out = output("compare half")
    assert "\x1b" not in out
    assert r"[b]\x1b" in out


def test_a_picture_of_another_kind(half: Path, here: Path) -> None:
    assert "ends in .gif" in one_line(["solve", "half", BOARD, "--gif", "x.foo"])
    assert not (here / "x.foo").exists()


@pytest.mark.parametrize("variables", [
    {"WORLD_SIZE": "2"}, {"WORLD_SIZE": "two"}, {"WORLD_SIZE": "2", "RANK": "0", "LOCAL_RANK": "0"},
    {"WORLD_SIZE": "2", "RANK": "2", "LOCAL_RANK": "0", "MASTER_PORT": "1", "MASTER_ADDR": "x"},
])  # fmt: skip
def test_a_world_that_torchrun_did_not_make(
    variables: dict[str, str], half: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    for words in (["train", "run=half", "--resume"], ["evaluate", "half"]):
        error = one_line(words)
        assert f"WORLD_SIZE={variables['WORLD_SIZE']} in the environment, and " in error
        assert "with torchrun" in error


def test_an_error_that_nobody_foresaw_is_one_line_and_a_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def fails(_: list[str]) -> int:
        raise ZeroDivisionError("by \x1b[31mzero\nand more")

    assert guarded(fails, []) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(r"error: ZeroDivisionError: by \x1b[31mzero; this is a fault of the program")
    (file,) = tmp_path.iterdir()
    assert str(file) in line
    assert "in fails" in file.read_text()


@pytest.mark.parametrize(("error", "said"), [
    (MemoryError(), "out of memory"),
    (RuntimeError("[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory"), "out of memory"),
    (RuntimeError("CUDA out of memory. Tried to allocate 2 GB"), "out of memory"),
    (FileNotFoundError(2, "No such file", "x\ny"), r"No such file (x\ny)"),
])  # fmt: skip
def test_errors_of_the_machine_are_one_line(error: Exception, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    def fails(_: list[str]) -> int:
        raise error

    assert guarded(fails, []) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line


def test_ctrl_c_behind_another_error_is_ctrl_c(capsys: pytest.CaptureFixture[str]) -> None:
    """numba, and imports, make errors of their own of it."""

    def fails(_: list[str]) -> int:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            raise SystemError("returned a result with an exception set")  # noqa: B904

    assert guarded(fails, []) == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_output_that_nobody_reads_is_no_error() -> None:
    command = f"set -o pipefail; {sys.executable} -m reason presets | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("command", ["--help", "presets"])
def test_a_full_disk_is_one_line(command: str) -> None:
    command = f"{sys.executable} -m reason {command} > /dev/full"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stderr) == (1, "error: No space left on device\n")


@pytest.mark.skipif(os.name == "nt", reason="a folder in use cannot be removed")
def test_a_removed_working_folder_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    command = f"cd gone && rmdir ../gone && {sys.executable} -m reason evaluate"
    ended = {"capture_output": True, "text": True, "cwd": tmp_path, "env": {**os.environ, "PYTHONPATH": str(ROOT)}}
    done = subprocess.run(["bash", "-c", command], **ended)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "error: the working folder was removed; change to one that exists"


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [("seq_len", 10**9, "less than or equal to 16777216"), ("vocab_size", 2**63 - 1, "less than or equal to 1048576"),
     ("seq_len", 17, "grid 4x4 does not hold the 17 cells")],
)  # fmt: skip
def test_sizes_that_no_tensor_has_are_refused(half: Path, key: str, value: int, said: str) -> None:
    change_json(half / "config.json", lambda record: record["shape"].update({key: value}))
    assert said in one_line("evaluate half")


@pytest.mark.parametrize("imports", [3, "x.py", [1], {"a": 1}])
def test_imports_that_are_no_list_of_files_are_refused(half: Path, imports: object) -> None:
    change_json(half / "config.json", lambda record: record.update(imports=imports))
    assert "imports is no list of files" in one_line("evaluate half")
    assert "imports is no list of files" in one_line("train run=half --resume")


def test_settings_with_control_characters_are_refused(half: Path) -> None:
    """In config.json, as an archive may bring it, and typed."""
    change_json(half / "config.json", lambda record: record["config"].update(init_from="\x1b]0;title\x07"))
    assert r"init_from: \x1b]0;title\x07 holds control characters" in one_line("evaluate half")
    assert "holds control characters" in one_line(["evaluate", "half", "data=\x1b[31m"])


def test_the_lock_of_a_run_is_no_way_out(half: Path, here: Path) -> None:
    """A link in its place would be emptied."""
    (here / "precious.txt").write_text("mine")
    (half / ".lock").unlink(missing_ok=True)
    (half / ".lock").symlink_to(here / "precious.txt")
    main(["train", "run=half", "--resume"])
    assert (here / "precious.txt").read_text() == "mine"
    shutil.rmtree(half)
