"""The animated picture of an answer."""

import numpy as np
import pytest
from conftest import NARROW, make_set, output
from PIL import Image, ImageColor

from datasets_gen.sudoku import Sudoku
from reason.cli import main
from reason.extensions.gif.picture import EDGE, WRONG, board_picture

SETS = {
    "sudoku": ("sudoku --size 4 --train 20 --test 5", "sudoku-4x4", "1... .... .... ...2"),
    "maze": ("maze --size 4 --min-path 4 --train 20 --test 5", "maze-10x10", "S....##....###.G"),
    "sum": ("addition --digits 2 --train 20 --test 5 --blank-answer", "addition-3", "12+34"),
}


@pytest.mark.parametrize(("words", "preset", "puzzle"), SETS.values(), ids=SETS)
def test_a_picture_has_a_frame_of_every_step(words, preset, puzzle, here):
    data = make_set(words, here / "set")
    assert main(["train", preset, f"data={data}", "run=run", *NARROW, "model.h_cycles=1"]) == 0
    output(["solve", "run", puzzle, "steps=3", "--restarts", "1", "--gif", "p.gif"], "picture p.gif", status=None)
    with Image.open("p.gif") as picture:
        assert picture.size[0] >= 100
        assert picture.n_frames > 1


def test_a_clue_that_is_not_kept_has_a_line_across():
    puzzle = Sudoku(4)
    question, answer = puzzle.parse("1... .... .... ...."), puzzle.parse("2134 3412 2143 4321")
    pictures = (np.asarray(board_picture(puzzle, tokens, question)) for tokens in (question, answer))
    kept, struck = (np.argwhere((picture == ImageColor.getrgb(WRONG)).all(-1)) - EDGE for picture in pictures)
    assert len(kept) == 0
    assert (np.abs(struck.sum(1) - 48) <= 3).sum() >= 40  # a line of 46 pixels, some under the box's edge
