"""What `python -m datasets_gen show` prints and draws."""

import re

from conftest import make_set

from datasets_gen.__main__ import main


def test_sets_are_compared(tmp_path, capsys):
    make_set("sudoku --size 6 --train 100 --test 0", tmp_path / "one")
    make_set("sudoku --size 6 --train 100 --test 0 --clues 20", tmp_path / "two")
    make_set("sudoku --size 4 --train 8 --test 0", tmp_path / "small")
    capsys.readouterr()
    assert main(["show", str(tmp_path / "one"), "--against", str(tmp_path / "two")]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if "clues: train" in line and "two/train" in line]
    assert len(lines) == 1
    assert f"against {tmp_path / 'two'}/train (mean 20, n 100): D 1.000" in lines[0]
    assert main(["show", str(tmp_path / "one"), "--against", str(tmp_path / "small")]) == 1
    assert "another puzzle" in capsys.readouterr().err
    assert main(["show", str(tmp_path / "one"), "--against", str(tmp_path / "none")]) == 1
    assert "none" in capsys.readouterr().err


def test_a_puzzle_and_its_set_are_drawn(sudoku_4x4, capsys):
    assert main(["show", str(sudoku_4x4)]) == 0
    said = capsys.readouterr().out
    assert "train: 24 examples of 16 cells" in said
    assert re.search(r"^ +\d+ +\d+ #+$", said, re.MULTILINE)
