"""Typed Sudokus, mazes and sums: what is drawn is read again, and every reader reads alike or refuses."""

import json

import numpy as np
import pytest
from typed_texts import Case, read, reading_test
from typed_texts import page as page

from datasets_gen.extensions.addition.puzzles import Addition
from datasets_gen.importers.tables import read_table
from datasets_gen.layout import DatasetError
from datasets_gen.maze import FREE, GOAL, PATH, START, WALL, Maze
from datasets_gen.parallel import seeded
from datasets_gen.sudoku import Sudoku
from reason.cli.solve import _puzzles, _text


def sudoku(size):
    shift = {4: 2, 6: 3, 9: 3}[size]
    row = np.arange(size)
    answer = ((shift * (row % (size // shift)) + row // (size // shift))[:, None] + row).ravel() % size + 2
    return Case(Sudoku(size), np.where(np.arange(size * size) % 3, 1, answer).astype(np.uint8), answer.astype(np.uint8))


def maze(size):
    question = np.where(seeded(1, size).random(size * size) < 0.3, WALL, FREE).astype(np.uint8)
    question[[0, -1]] = START, GOAL
    return Case(Maze(size), question, np.where(np.arange(size * size) == 1, PATH, question))


def addition(**facts):
    puzzle = Addition(**facts)
    return Case(puzzle, *puzzle.example([10**puzzle.digits - 1, *[7] * (puzzle.operands - 1)]))


CASES = {
    **{f"sudoku-{size}": lambda size=size: sudoku(size) for size in (4, 6, 9)},
    **{f"maze-{size}": lambda size=size: maze(size) for size in (3, 8)},
    "sum": lambda: addition(digits=3, zero_pad=True, reverse=False, causal=False),
    "reversed sum": lambda: addition(digits=2, causal=False, operands=3),
    "causal sum": lambda: addition(digits=4),
}
test_every_reader_reads_alike_or_refuses = reading_test(CASES)


BOARD = "53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79"
SOLVED = "534678912672195348198342567859761423426853791713924856961537284287419635345286179"
ROWS = [BOARD[start : start + 9] for start in range(0, 81, 9)]
ZEROS, LINES = BOARD.replace(".", "0"), "\n".join(ROWS)


def lists(of_open):
    return [[of_open if cell == "." else int(cell) for cell in row] for row in ROWS]


def framed(top, row, rule, bottom, apart="", of_open="."):
    """The board in a frame; `row` holds three boxes, their cells `apart`."""
    boxes = [[apart.join(row[at : at + 3]).replace(".", of_open) for at in (0, 3, 6)] for row in ROWS]
    drawn = [row.format(*three) for three in boxes]
    return "\n".join([top, *drawn[:3], rule, *drawn[3:6], rule, *drawn[6:], bottom])


FORMS = {  # as programs, newspapers and web pages write the same board
    "line": BOARD,
    "nine lines": LINES,
    "spaced, with a title": "Sudoku No. 1234, hard\n\n" + "\n".join(map(" ".join, ROWS)),
    "Project Euler": f"Grid 01\n{LINES.replace('.', '0')}\n",
    "Simple Sudoku .ss": framed(" *-----------*", " |{}|{}|{}|", " |---+---+---|", " *-----------*"),
    "SadMan .sdk": f"#A name\n#B01-01-2006\n[Puzzle]\n{LINES}\n[State]\n{SOLVED}\n",
    "SadMan .sdk, old": f"#A name 12\n{LINES}\n",
    ".sdm with comments": f"# 1 puzzle of 2006\n{BOARD}  # easy\n",
    "HoDoKu library": f":0003:1:{BOARD.replace('5', '+5')}:315 319:r4c1::",
    "HoDoKu candidates": framed(
        ".------------.------------.------------.", "| {} | {} | {} |", ":------------+------------+------------:",
        "'------------'------------'------------'", "  ", "124",
    ),
    "JSON": json.dumps(lists(0)),
    "JSON of a web service": json.dumps({"newboard": {"grids": [{"value": lists(0), "solution": [[1] * 9] * 9}]}}),
    "JSON, a cell a line": json.dumps(lists(None), indent=1),
    "NumPy with -1": str(np.array(lists(-1))),
    "no-break spaces": framed("", "{} | {} | {}", "------+-------+------", "", " ").replace(" ", "\xa0"),
    "Arabic digits": LINES.translate({ord("0") + n: 0x660 + n for n in range(10)}),
    "JSON object": json.dumps({"puzzle": BOARD, "solution": SOLVED}),
    "Python lists": str(lists(None)),
    "Python characters": str([["" if cell == "." else cell for cell in row] for row in ROWS]).replace("],", "],\n"),
    "boxes": framed("┌─────┬─────┬─────┐", "│ {} │ {} │ {} │", "├─────┼─────┼─────┤", "└─────┴─────┴─────┘", " "),
    "a frame for each cell": "\n╟───┼───╢\n".join(f"║ {' │ '.join(row).replace('.', ' ')} ║" for row in ROWS),
    "middle dots": BOARD.replace(".", "·"),
    "dashes": LINES.replace(".", "-"),
    "spaces": LINES.replace(".", " "),
    "Sudoku exchange bank": f"0000183b305c {ZEROS}   1.2",
    "semicolons, any case": f"ID;Puzzle;Solution\n1;{BOARD};{SOLVED}\n",
    "Kaggle": f"quizzes,solutions\n{ZEROS},{SOLVED}\n",
    "OpenSudoku": f'<?xml version="1.0"?>\n<opensudoku>\n<created>2009</created><game data="{ZEROS}" />\n</opensudoku>',
    "a table of a web page": "".join("\t".join(row).replace(".", "") + "\r\n" for row in ROWS),
    "rows as CSV": "\n".join(",".join(row).replace(".", "") for row in ROWS),
    "what show prints": Sudoku(9).draw(Sudoku(9).parse(BOARD)),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_sudokus_in_the_forms_that_people_have(form, page, tmp_path):
    """Command, file, file of puzzles and importer read the same board; the page reads it or refuses."""
    text, file, question = FORMS[form], tmp_path / "sudoku.txt", Sudoku(9).parse(BOARD)
    assert read(Sudoku(4), text) == (Sudoku(9), question.tolist(), [])
    file.write_text(text, encoding="utf-8", newline="")
    assert read(Sudoku(9), _text(str(file))) == (Sudoku(9), question.tolist(), [])
    assert [puzzle.replace("0", ".") for puzzle in _puzzles(file, Sudoku(9))] == [BOARD]
    split = read_table(file, "sudoku").split
    assert (split.inputs == question).all()
    assert (split.labels == Sudoku(9).parse(SOLVED)).all()
    told = page(Sudoku(9), text)
    assert told.get("tokens", question.tolist()) == question.tolist()


@pytest.mark.parametrize("text", [
    f"{LINES}\n\n{LINES.replace('5', '.')}\n",
    f"Grid 01\n{LINES}\nGrid 02\n{LINES.replace('5', '.')}\n",
    f"# all\n{BOARD} easy\n{BOARD.replace('5', '.')} hard\n",
])  # fmt: skip
def test_a_file_of_several_sudokus(text, tmp_path):
    file = tmp_path / "all.txt"
    file.write_text(text)
    assert _puzzles(file, Sudoku(9)) == [BOARD, BOARD.replace("5", ".")]
    file.write_text(f"# three\n{BOARD}\n{BOARD[1:]}\n{BOARD}\n")  # a broken line does not affect the others
    assert _puzzles(file, Sudoku(9)) == [BOARD, BOARD[1:], BOARD]
    with pytest.raises(DatasetError, match="2 puzzles; solve a file of several with --output"):
        Sudoku(9).parse(text)


@pytest.mark.parametrize(("text", "told"), [
    (BOARD[1:], "80 cells"),
    (f"{BOARD} {BOARD[1:]}", "161 cells"),  # the second lost a cell
    (LINES.replace("6..195...", "6..195.."), "80 cells"),
    (LINES + "\n123456789", "90 cells"),
    (LINES.replace("7", "x"), "'x' in line 1 is not a cell"),
    ("12... .... .... ....", "17 cells"),  # no candidates: the cells are not apart
    ("12\n34\n21\n43", "8 cells"),  # no board of spaces: its lines are short
])  # fmt: skip
def test_what_is_no_sudoku_is_refused(text, told):
    with pytest.raises(DatasetError, match=told):
        Sudoku(9).sized(text).parse(text)
