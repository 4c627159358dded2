"""`reason new-puzzle`, and docs/own-puzzle.md, block by block: the page's file, set, training, evaluation, answer."""

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from conftest import output, refusal

from datasets_gen.extensions.declared import Declared, Drawn, WithSigns, cp
from datasets_gen.extensions.declared.generate import make
from datasets_gen.extensions.declared.puzzle import USER_PUZZLES
from datasets_gen.extensions.declared.relations import gather, rows
from datasets_gen.layout import read_split
from datasets_gen.parallel import seeded
from datasets_gen.puzzles import family_of
from reason.cli import main
from reason.extensions.gif.picture import board_picture
from reason.report.drawing import board

PAGE = (Path(__file__).parents[3] / "docs/own-puzzle.md").read_text()
FEW = {"1500": "8", "100": "2", "500": "2"}  # puzzles of each split in the fast test
BRIEF = {"train": ["training.steps=2", "model.hidden_size=8", "init_from=none"], "solve": ["--restarts", "2"]}


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def follow(brief):
    """Do what the page says; returns the exit status of its last command, which solves the typed puzzle."""
    assert main(["new-puzzle", "sums"]) == 0
    (python,) = blocks("python")
    Path("sums.py").write_text(python)
    (puzzle,) = blocks("text")
    Path("puzzle.txt").write_text(puzzle)
    lines = [line for block in blocks("bash") for line in block.splitlines()]
    assert len(lines) == 6
    status = 0
    for line in lines:
        assert status == 0, line
        line = re.sub(r"^python (train|evaluate)\.py", r"reason \1", line)
        words = shlex.split(line)[1:]
        if brief:
            words = [FEW.get(word, word) for word in words] + BRIEF.get(words[0], [])
        status = main(words)
    return status


def test_the_page_runs(here, capsys):
    assert follow(brief=True) in (0, 1)  # two steps of training solve nothing
    assert "sum_eq 5: 5 6" in capsys.readouterr().out.rpartition("question\n")[2]  # as solve draws it


@pytest.mark.slow
def test_the_page_trains_a_network_that_solves_its_puzzle(here):
    assert follow(brief=False) == 0
    (results,) = Path("runs/sums/evaluation").glob("*/results.json")
    assert json.loads(results.read_text())["exact_by_step"][7] > 0.9


def test_the_starting_file_makes_a_set_that_is_right(here, made):
    assert main(["new-puzzle", "my-hills"]) == 0
    metadata, _ = read_split(made("my_hills.py --train 2 --test 1 --processes 1"), "train")
    assert metadata.task["name"] == "my-hills"
    assert list(metadata.structure.groups) == ["row", "column"]
    assert any(relation.places == 2 for relation in metadata.structure.relations)


class Board(Declared):
    """A row of three cells in each of two lines, and a hidden line."""

    name = "mine"
    grid, values, lowest = (2, 3), "-*", 0


class Regions(Board):
    """Stars, one in each region."""

    name = "regions"
    box_shape = 2, 1

    def puzzle(self, x, rng, fill):
        left, right, (a, b) = x.flat[[0, 1, 3]], x.flat[[2, 4, 5]], x[0, :2]
        return Drawn([[1, 0, 0], [0, 1, 0]], [cp.sum(left) == 1, cp.sum(right) == 1, a > b, x[1, 1] == 1])


class Sums(Regions):
    """Regions with their numbers."""

    name = "sums"

    def puzzle(self, x, rng, fill):
        clues = [cp.sum(x.flat[[0, 1, 3]]) == 2, cp.sum(x.flat[[4, 5]]) == 0, x[0, 2] == 1, x[0, 1] == 1]
        return Drawn([[1, 1, 1], [0, 0, 0]], [*clues, x[0, 0] >= x[1, 0], x[0, 0] != x[1, 0]])


class Hidden(Board):
    """The third column is auxiliary."""

    name = "hidden"
    board = 2, 2

    def puzzle(self, x, rng, fill):
        return Drawn([[1, 0, 1], [0, 1, 1]], [x[0, 0] == 1, x[1, 1] == 1, cp.sum(x.flat[[3, 1, 0]]) == 1])

    def always(self, x):
        return [a + b == c for a, b, c in x]


class Blacks(Declared):
    """Different digits in a line; two are black."""

    name = "blacks"
    grid, values, black = (1, 3), "123", "❶❷❸"

    def always(self, x):
        return [cp.AllDifferent(x[0])]

    def puzzle(self, x, rng, fill):
        return Drawn([2, 1, 3], [x[0, 0] == 2, x[0, 1] == 1], black=np.array([True, False, False]))


class Gaps(WithSigns):
    """The last cell is absent."""

    name = "gaps"
    grid, values = (1, 3), "12"

    def puzzle(self, x, rng, fill):
        a, b, c = x[0]
        return Drawn([1, 2, 1], [a < b, a <= 1, c != b], absent=np.array([False, False, True]))


REGIONS, SUMS = "\n\nAAB\nABB\n\nsum_eq_1: A B\nlt: 1 0", "\n\nAA.\nABB\n\nsum_eq: A=2 B=0\nle: 3 0\nalldifferent: 0 3"
DRAWN = {  # the boards of question and answer, and what stands below
    Regions: ("...\n.*.", "*--\n-*-", REGIONS),
    Sums: (".**\n...", "***\n---", SUMS),
    Hidden: ("*.\n.*", "*-\n-*", "\n\nAA\nA.\n\nsum_eq_1: A"),
    Blacks: ("❷1.", "❷13", ""),
    Gaps: (".<. _", "1<2 _", "\nle_1: 0\nalldifferent: 1 2"),
}


@pytest.mark.parametrize("page", DRAWN)
def test_regions_hidden_cells_and_black_cells_are_drawn_and_typed(page):
    mine, (asked, answered, below) = page(), DRAWN[page]
    made = make(mine, seeded(1, 0))
    relations = gather(mine.always_instances, [made.instances])
    mine = mine.of(mine.structure.model_copy(update={"relations": relations}))
    table = rows(relations, [made.instances])
    own, task = None if table is None else table[0], json.loads(json.dumps(mine.task)) | {"name": "another"}
    for each in (mine, family_of(task, mine.seq_len, mine.vocab_size, mine.structure)):
        assert each.draw(made.question, None, own) == asked + below
        assert each.draw(made.answers[0], made.question, own) == answered + below
        tokens, typed = each.typed(asked + below)
        assert (tokens == made.question).all()
        assert each.draw(tokens, None, typed) == asked + below
        assert each.fault(made.question, made.answers[0], own) is None
        wrong = np.full_like(made.answers, 2)
        assert (each.frames(made.question, wrong)[1] == np.where(made.answers[0] == 0, 0, 2)).all()
        assert each.draws_constraints == (page is Gaps)
        assert each.box_shape == page.box_shape
    in_terminal = board(mine, made.answers[0], made.question, made.question < 0).plain
    assert re.sub("[ |]", "", in_terminal) == re.sub("[ <]", "", answered)
    assert board_picture(mine, made.answers[0], made.question).height == 48 * len(answered.splitlines()) + 16


def test_turned_boards_are_told_beside_hidden_cells():
    assert Hidden().notes({"train": np.array([[2, 3, 3, 2, 2, 3]]), "test": np.array([[3, 2, 2, 2, 2, 2]])})


def test_a_drawing_of_ones_own_needs_the_file(here, made, capsys):
    assert main(["new-puzzle", "hills"]) == 0
    own = '\n    def draw(self, tokens, question=None, relations=None):\n        return "as I draw it"\n'
    Path("hills.py").write_text(Path("hills.py").read_text() + own)
    made("hills.py --train 2 --test 0 --processes 1")
    USER_PUZZLES.clear()  # as in another process
    capsys.readouterr()
    assert main(["generate", "show", "set"]) == 0
    out, err = capsys.readouterr()
    assert "note: hills.py has another text form of this puzzle: add --import hills.py" in err
    assert "as I draw it" not in out
    output("generate show set --import hills.py", "as I draw it")


def test_names_and_files_that_are_refused(here):
    for name in ("../up", "2hills", "Hills", "a b"):
        refusal(["new-puzzle", name], "is no name of a puzzle")
    for name in ("random", "class", "numpy", "drawn"):
        refusal(["new-puzzle", name], f"{name}.py would hide {name} of Python or a package; type another name")
    refusal("new-puzzle sudoku", "sudoku is a puzzle of the package; type another name, as in my-sudoku")
    assert list(here.iterdir()) == []
    Path("hills.py").write_text("mine")
    refusal("new-puzzle hills", "is there already")
    assert Path("hills.py").read_text() == "mine"
