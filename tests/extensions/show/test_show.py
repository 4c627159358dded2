"""What `reason generate show` prints and draws."""

import re

from conftest import make_set, output, refusal


def test_sets_are_compared(tmp_path):
    make_set("sudoku --size 6 --train 100 --test 0", tmp_path / "one")
    make_set("sudoku --size 6 --train 100 --test 0 --clues 20", tmp_path / "two")
    make_set("sudoku --size 4 --train 8 --test 0", tmp_path / "small")
    words = ["generate", "show", str(tmp_path / "one"), "--against"]
    said = output([*words, str(tmp_path / "two")]).splitlines()
    (line,) = (line for line in said if "clues: train" in line and "two/train" in line)
    assert f"against {tmp_path / 'two'}/train (mean 20, n 100): D 1.000" in line
    refusal([*words, str(tmp_path / "small")], "another puzzle")
    refusal([*words, str(tmp_path / "none")], "none")


def test_a_puzzle_and_its_set_are_drawn(sudoku_4x4):
    said = output(["generate", "show", str(sudoku_4x4)], "train: 24 examples of 16 cells")
    assert re.search(r"^ +\d+ +\d+ #+$", said, re.MULTILINE)
