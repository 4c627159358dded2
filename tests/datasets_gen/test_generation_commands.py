"""The command line: bytes, exit codes, and nothing half-written."""

import os
import subprocess
import sys

import numpy as np
import pytest

from datasets_gen import parallel
from datasets_gen.__main__ import main
from datasets_gen.layout import read_metadata, read_split
from datasets_gen.maze.paths import solve


def make(directory, *more, size=4, train=40, test=20, seed=0):
    words = f"sudoku --size {size} --train {train} --test {test} --seed {seed} --output-dir {directory}".split()
    return main([*words, *more])


def bytes_of(directory):
    return {str(p.relative_to(directory)): p.read_bytes() for p in sorted(directory.rglob("*")) if p.is_file()}


def test_a_set_is_made_verified_and_shown(tmp_path, capsys):
    assert make(tmp_path / "set", "--validation", "10") == 0
    metadata, split = read_split(tmp_path / "set", "validation")
    assert split.inputs.shape == (10, 16)
    assert split.inputs.dtype == np.uint8
    assert metadata.task == {"name": "sudoku", "size": 4}
    assert main(["verify", str(tmp_path / "set")]) == 0
    assert "no puzzle is in two splits" in capsys.readouterr().out
    assert main(["show", str(tmp_path / "set"), "--split", "test", "--index", "3"]) == 0
    shown = capsys.readouterr().out
    assert all(
        words in shown for words in ("test 3", "'", "clues", "made by: python -m datasets_gen sudoku --train 40")
    )


def test_the_recorded_command_makes_the_same_bytes(made, tmp_path):
    made("maze --size 6 --min-path 8 --unique --wall-density 0.4 --train 30 --test 5", name="maze")
    for name in ("train", "test"):
        assert (solve(read_split(tmp_path / "maze", name)[1].inputs)[2] == 1).all()
    made("sudoku --size 6 --clues 12 --train 40 --test 20", name="sudoku")
    for name in ("maze", "sudoku"):
        words = read_metadata(tmp_path / name, "train").provenance["command"].split()
        assert words[:4] == ["python", "-m", "datasets_gen", name]
        assert main([*words[3:], "--output-dir", str(tmp_path / "again" / name)]) == 0
        assert bytes_of(tmp_path / name) == bytes_of(tmp_path / "again" / name)
    directory = made("maze --size 6 --min-path 4 --wall-density 0 --train 4 --test 0", name="open")
    assert (read_split(directory, "train")[1].inputs != 1).all()


def test_same_seed_same_bytes_other_seed_other_set(tmp_path, monkeypatch):
    make(tmp_path / "one", "--processes", "1", size=6)
    monkeypatch.setattr(parallel, "ALONE_SECONDS", 0.0)
    make(tmp_path / "two", "--processes", "2", size=6)
    make(tmp_path / "three", size=6, seed=1)
    assert bytes_of(tmp_path / "one") == bytes_of(tmp_path / "two")
    assert (read_split(tmp_path / "one", "train")[1].inputs != read_split(tmp_path / "three", "train")[1].inputs).any()


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ("--train -1", 2, "--train: invalid whole_number value: '-1'"),
        ("--train 0 --test 0", 1, "nothing to make"),
        *((f"--clues {clues}", 1, "choose 4 to 15") for clues in (3, 16)),
        ("--clues 8 --mix extreme", 2, "--mix: not allowed with argument --clues"),
        ("--mix extreme", 1, "--mix extreme is a mix of 9x9 puzzles; drop it, or --size 4"),
        ("--size 5", 2, "invalid choice"),
    ],
)
def test_bad_calls_say_what_is_wrong_and_write_nothing(tmp_path, capsys, words, code, message):
    assert main(["sudoku", "--size", "4", "--output-dir", str(tmp_path / "set"), *words.split()]) == code
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_an_occupied_folder_is_left_alone(tmp_path, capsys):
    (tmp_path / "mine").write_text("precious")
    assert make(tmp_path) == 1
    assert "not empty" in capsys.readouterr().err
    assert (tmp_path / "mine").read_text() == "precious"


def test_a_full_disk_leaves_nothing(tmp_path, capsys, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "save", full)
    assert make(tmp_path / "set") == 1
    assert "No space left on device" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_terminal_without_the_letters(made):
    words = [sys.executable, "-m", "datasets_gen", "show", str(made("addition --digits 1 --train 2 --test 0"))]
    shown = subprocess.run(words, env=os.environ | {"PYTHONIOENCODING": "ascii"}, capture_output=True, check=True)
    assert b"\\xa7" in shown.stdout


def test_sets_are_compared(tmp_path, capsys):
    make(tmp_path / "one", size=6, train=100)
    make(tmp_path / "two", "--clues", "20", size=6, train=100)
    make(tmp_path / "small", size=4)
    capsys.readouterr()
    assert main(["show", str(tmp_path / "one"), "--against", str(tmp_path / "two")]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if "clues: train" in line and "two/train" in line]
    assert len(lines) == 1
    assert f"against {tmp_path / 'two'}/train (mean 20, n 100): D 1.000" in lines[0]
    assert main(["show", str(tmp_path / "one"), "--against", str(tmp_path / "small")]) == 1
    assert "another puzzle" in capsys.readouterr().err
