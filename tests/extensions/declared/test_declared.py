"""Puzzles that a CPMpy model declares: every page, the generator, text, and errors."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from datasets_gen.__main__ import main
from datasets_gen.extensions.declared import FORMS, Declared
from datasets_gen.extensions.declared.generate import ANSWERS, Chunk, declared_chunk, make
from datasets_gen.extensions.declared.pages import pages
from datasets_gen.extensions.declared.relations import gather, rows
from datasets_gen.layout import DatasetError, read_metadata, read_split
from datasets_gen.parallel import ORDER, seeded
from datasets_gen.puzzles import family_of, puzzle_of
from datasets_gen.structure import Relation, Structure

pytest.importorskip("cpmpy")
NAMES = [
    "colouring", "futoshiki", "kakuro", "killer", "latin-10", "light-up", "nonogram", "queens", "sudoku-16",
    "sudoku-diagonal", "sudoku-jigsaw", "takuzu",
]  # fmt: skip
DRAWN = {}  # by name: the puzzle with its set's structure, questions, answers and relations of a draw


def drawn(name):
    if name not in DRAWN:
        puzzle, rng, made = pages()[name](), seeded(1, 0), None
        while made is None:
            made = make(puzzle, rng)
        relations = gather(puzzle.always_instances, [made.own])
        puzzle = puzzle.of(puzzle.structure.model_copy(update={"relations": relations}))
        DRAWN[name] = puzzle, made.question[None], made.answers, rows(relations, [made.own])
    return DRAWN[name]


def row(relations):
    return None if relations is None else relations[0]


def test_the_pages_are_short():
    assert sorted(pages()) == NAMES
    for page in pages().values():
        assert len(Path(sys.modules[page.__module__].__file__).read_text(encoding="utf-8").splitlines()) <= 60


@pytest.mark.parametrize("name", ["queens", "colouring"])
def test_training_puzzles_with_several_solutions_have_several_answers(name, tmp_path, capsys):
    """In one group, of which an epoch draws one; the questions are those of a set with one answer each."""
    assert main([name, "--train", "6", "--test", "3", "--output-dir", str(tmp_path / "set")]) == 0
    assert "6 train, 3 test puzzles" in capsys.readouterr().out
    assert main(["verify", str(tmp_path / "set")]) == 0
    metadata, train = read_split(tmp_path / "set", "train")
    sizes = np.diff(train.puzzle_indices)
    assert (len(sizes), len(train.group_indices), metadata.total_groups) == (6, 7, 6)
    assert 1 < sizes.max() <= ANSWERS
    for first, size in zip(train.puzzle_indices, sizes, strict=False):
        own = slice(first, first + size)
        assert len(np.unique(train.inputs[own], axis=0)) == 1
        assert len(np.unique(train.labels[own], axis=0)) == size
    found, _ = declared_chunk(Chunk(name, None, 0, ORDER.index("test"), 0))
    alone, _ = declared_chunk(Chunk(name, None, 0, ORDER.index("train"), 0))
    assert {len(made.answers) for _, made in found} == {1}
    assert (train.inputs[train.puzzle_indices[:4]] == np.array([made.question for _, made in alone])).all()
    puzzle = puzzle_of(metadata)
    assert puzzle.valid(train.inputs, train.labels, train.relations).all()


@pytest.mark.parametrize("name", NAMES)
def test_a_page_draws_a_puzzle_that_is_judged_drawn_and_typed(name):
    puzzle, questions, answers, relations = drawn(name)
    own = row(relations)
    assert puzzle.structure.fault(puzzle.seq_len, puzzle.vocab_size) is None
    assert puzzle.valid(questions, answers, relations).all()
    assert puzzle.fault(questions[0], answers[0], own) is None
    assert puzzle.contradiction(questions[0], own) is None
    for cell in np.flatnonzero(questions[0] == 1)[:3]:
        spoilt = answers.copy()
        spoilt[0, cell] ^= 1
        told = puzzle.mistake(questions[0], spoilt[0], own)
        assert (told is None) == puzzle.solved(questions, spoilt, relations)[0]
        assert told or not puzzle.unique
    clues = np.flatnonzero((questions[0] > 1) & np.isin(answers[0] - 2 + puzzle.lowest, puzzle.open_values))
    if puzzle.unique and len(clues) > puzzle.fewest:  # no clue is superfluous
        fewer = questions[0].copy()
        fewer[clues[0]] = 1
        assert puzzle.fault(fewer, answers[0], own) == "the question has more than one solution"
    tokens, table = puzzle.typed(puzzle.draw(questions[0], None, own))
    assert (tokens == questions[0]).all()
    typed = puzzle.signatures(tokens[None], answers, None if table is None else table[None])
    assert typed == puzzle.signatures(questions, answers, relations)
    assert puzzle.draw(answers[0], questions[0], own).count("\n") == puzzle.draw(questions[0], None, own).count("\n")
    task = json.loads(json.dumps(puzzle.task)) | {"name": "mine"}  # the set judges without its page
    alone = family_of(task, puzzle.seq_len, puzzle.vocab_size, puzzle.structure)
    assert type(alone) is FORMS.get(puzzle.form, Declared)
    if puzzle.form:  # as a person types it, too
        text = alone.draw(questions[0], None, own)
        assert text == puzzle.draw(questions[0], None, own)
        assert (alone.typed(text)[0] == questions[0]).all()
    assert alone.valid(questions, answers, relations).all()
    assert alone.task["name"] == "mine"


@pytest.mark.parametrize("name", ["sudoku-diagonal", "sudoku-jigsaw", "sudoku-16"])
def test_another_solver_finds_one_solution(name):
    """Exact cover by bits: the cell with the fewest candidates first."""
    puzzle, questions, answers, relations = drawn(name)
    units = [cells for _, _, cells in puzzle.constraints_of(row(relations))]
    assert solutions(questions[0].astype(int) - 1, units, puzzle.grid[0]) == [(answers[0] - 1).tolist()]


def solutions(board, units, size):
    """All grids (digits from 1, 0 open) in which no unit holds a digit twice."""
    peers = [sorted({p for unit in units if cell in unit for p in unit} - {cell}) for cell in range(len(board))]
    found, stack = [], [[(1 << size) - 1] * len(board)]
    for cell, digit in enumerate(board.tolist()):
        if digit and not _fix(stack[0], cell, 1 << (digit - 1), peers):
            return []
    while stack:
        masks = stack.pop()
        if not _hidden(masks, units, peers, size):
            continue
        open_cells = [cell for cell, mask in enumerate(masks) if mask & (mask - 1)]
        if not open_cells:
            found.append([mask.bit_length() for mask in masks])
            continue
        cell = min(open_cells, key=lambda cell: masks[cell].bit_count())
        for digit in range(size):
            if masks[cell] >> digit & 1:
                copy = list(masks)
                if _fix(copy, cell, 1 << digit, peers):
                    stack.append(copy)
    return found


def _fix(masks, cell, bit, peers):
    masks[cell] = bit
    for peer in peers[cell]:
        if masks[peer] & bit:
            masks[peer] &= ~bit
            left = masks[peer]
            if not left or (not left & (left - 1) and not _fix(masks, peer, left, peers)):
                return False
    return True


def _hidden(masks, units, peers, size):
    """Fix the digits that have one place in a unit, until none is left."""
    again = True
    while again:
        again = False
        for unit in (unit for unit in units if len(unit) == size):
            for digit in range(size):
                places = [cell for cell in unit if masks[cell] >> digit & 1]
                if not places:
                    return False
                if len(places) == 1 and masks[places[0]] & (masks[places[0]] - 1):
                    again = True
                    if not _fix(masks, places[0], 1 << digit, peers):
                        return False
    return True


def test_the_other_solver_counts():
    """Latin squares of order 4: 576."""
    cells = np.arange(16).reshape(4, 4)
    assert len(solutions(np.zeros(16, int), [unit.tolist() for unit in (*cells, *cells.T)], 4)) == 576


def test_a_set_is_the_same_in_any_number_of_processes_and_verified(tmp_path, capsys):
    words = ["--train", "5", "--validation", "2", "--test", "3", "--seed", "4"]
    for folder in "ab":
        assert main(["killer", *words, "--processes", "1", "--output-dir", str(tmp_path / folder)]) == 0
    files = sorted(path.relative_to(tmp_path / "a") for path in (tmp_path / "a").glob("**/*.*"))
    assert all((tmp_path / "a" / f).read_bytes() == (tmp_path / "b" / f).read_bytes() for f in files)
    capsys.readouterr()
    assert main(["verify", str(tmp_path / "a")]) == 0
    assert "every question has one solution, and every label is it" in capsys.readouterr().out
    assert main(["show", str(tmp_path / "a"), "--index", "1"]) == 0
    assert "A=" in capsys.readouterr().out
    metadata, split = read_split(tmp_path / "a", "train")
    assert puzzle_of(metadata).structure == metadata.structure
    assert split.relations.dtype == np.int16
    answers = [set(map(bytes, read_split(tmp_path / "a", name)[1].labels)) for name in ("train", "test")]
    assert not answers[0] & answers[1]
    labels = tmp_path / "a" / "train" / "all__labels.npy"
    spoilt = np.load(labels)
    spoilt[2, [0, 6]] = spoilt[2, [6, 0]]
    np.save(labels, spoilt)
    assert main(["verify", str(tmp_path / "a")]) == 1
    assert "example 2: " in capsys.readouterr().err


def test_a_draw_depends_on_its_numbers_alone():
    one, other = (declared_chunk(Chunk("queens", None, 3, 0, number))[0] for number in (5, 5))
    assert [signature for signature, _ in one] == [signature for signature, _ in other]
    assert {signature for signature, _ in one}.isdisjoint(
        s for s, _ in declared_chunk(Chunk("queens", None, 3, 1, 5))[0]
    )


OWN = '''
from datasets_gen.extensions.declared import Declared, Drawn, cp, unseen

class Mine(Declared):
    """A row of three different digits."""

    name = "mine"
    grid, values = (1, 3), "123"

    def always(self, x):
        return [cp.AllDifferent(x[0]), {always}]

    def puzzle(self, x, rng, fill):
        answer = fill()
        return Drawn(answer, {shown})
'''
SHOWN = "optional=[a == b for a, b in zip(x.flat, answer.flat)]"
FAULTS = {
    "unsatisfiable": (
        "x[0, 0] + x[0, 1] == 9",
        SHOWN,
        "of 100 draws in a row none is new (0 were found before); 100 have no solution",
    ),
    "ambiguous": (
        "x[0, 0] < x[0, 1]",
        "optional=[x[0, 0] == answer[0, 0]]",
        "have several solutions even with every clue",
    ),
    "few": ("x[0, 0] < x[0, 1]", SHOWN, "were made before: ask for fewer"),
    "alphabet": ("x[0, 0] < x[0, 1]", "shown=[x[0, 0] == 7]", "clue 7 of cell 0 is no value of mine: 123"),
    "untrue": ("x[0, 0] < x[0, 1]", "shown=[x[0, 1] < x[0, 0]]", "the answer breaks lt of cells (1, 0)"),
    "no relation": ("cp.Circuit(x[0])", SHOWN, "no relation for circuit; write AllDifferent"),
    "another cell": ("cp.intvar(1, 3, name='y') < x[0, 0]", SHOWN, "y is no cell of the puzzle"),
}


def refused(page, count, tmp_path, capsys):
    """The line that refuses `count` puzzles a split of a page; nothing is written."""
    path = tmp_path / "an_own_page.py"
    path.write_text(page, encoding="utf-8")
    counts = ["--train", str(count), "--test", str(count), "--processes", "1"]
    assert main([str(path), *counts, "--output-dir", str(tmp_path / "set")]) == 1
    told = capsys.readouterr().err.splitlines()[-1]
    assert told.startswith("error: ")
    assert not (tmp_path / "set").exists()
    return told


@pytest.mark.parametrize("case", FAULTS)
def test_a_faulty_page_is_refused_in_one_line_and_writes_nothing(case, tmp_path, capsys):
    always, shown, words = FAULTS[case]
    assert words in refused(OWN.format(always=always, shown=shown), 30, tmp_path, capsys)


SLIPS = {  # what is typed in place of something else, and what is said
    "no board": ('    grid, values = (1, 3), "123"', '    values = "123"', "grid = (1, 1); state (rows, columns)"),
    "one side": ("(1, 3)", "(3,)", "grid = (3,); state (rows, columns)"),
    "equal values": ('"123"', '"122"', "state a different character for each value"),
    "a dot": ('"123"', '"12."', "state a different character for each value"),
    "a colon": ('"123"', '"12:"', "no space and none of .:"),
    "no values": (', values = (1, 3), "123"', " = (1, 3)", "values = ''; state a different character"),
    "a taken name": ('name = "mine"', 'name = "sudoku"', "name = 'sudoku' belongs to a puzzle of the package"),
    "no rules": ("return [cp", "[cp", "`always` returns None; return a list of constraints"),
    "no Drawn": ("return Drawn(answer, ", "return dict(answer=answer, ", "`puzzle` returns dict; return Drawn(answer"),
    "a misspelt word": ("fill()", "fil()", "an_own_page.py, line 14: NameError: name 'fil' is not defined"),
    "and": ("cp.AllDifferent(x[0])", "1 < x[0, 0] < 3", "an_own_page.py, line 11: ValueError: "),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_in_a_page_is_one_line_with_its_place(slip, tmp_path, capsys):
    written, typed, words = SLIPS[slip]
    page = OWN.format(always="unseen(x[0, 0] < 9)", shown=SHOWN)
    assert page.count(written) == 1
    assert words in refused(page.replace(written, typed), 1, tmp_path, capsys)


def test_a_file_that_is_no_page_is_refused(tmp_path, capsys):
    (tmp_path / "broken.py").write_text("1 / 0", encoding="utf-8")
    (tmp_path / "empty.py").write_text("", encoding="utf-8")
    for name, words in [("broken", "ZeroDivisionError"), ("empty", "has 0 classes on Declared"), ("none", "no page")]:
        assert main([str(tmp_path / f"{name}.py"), "--output-dir", str(tmp_path / "set")]) == 1
        assert words in capsys.readouterr().err


def test_a_page_of_ones_own_makes_a_set_that_says_how(tmp_path, capsys):
    path = tmp_path / "mine.py"
    path.write_text(OWN.format(always="unseen(x[0, 0] + 2 * x[0, 1] < 9)", shown=SHOWN), encoding="utf-8")
    words = ["--train", "2", "--test", "1", "--clues", "2", "--output-dir", str(tmp_path / "set")]
    assert main([str(path), *words]) == 0
    assert ((read_split(tmp_path / "set", "train")[1].inputs > 1).sum(1) >= 2).all()
    metadata = read_metadata(tmp_path / "set", "train")
    assert metadata.provenance["command"].startswith(f"python -m datasets_gen {path} --train 2")
    assert list(metadata.structure.groups) == ["row"]  # all three cells
    assert not any(relation.seen for relation in metadata.structure.relations)
    assert main(["verify", str(tmp_path / "set")]) == 0


def test_without_cpmpy_there_is_one_clear_line(tmp_path, monkeypatch, capsys):
    puzzle, questions, answers, relations = drawn("futoshiki")
    monkeypatch.setitem(sys.modules, "cpmpy", None)
    assert main(["futoshiki", "--train", "1", "--output-dir", str(tmp_path / "set")]) == 1
    told = capsys.readouterr().err
    assert "declared puzzles need CPMpy and OR-Tools" in told
    assert "pip install 'recursive-reasoners[puzzles]'" in told
    assert puzzle.solved(questions, answers, relations).all()  # numpy alone


ROWS = 7 * ".......\n"
CAGED, LINES = 6 * "AAABBB\n", 10 * "1\n" + "columns: "
TYPED = {
    "futoshiki": [
        ("1<2", "2 cells; a board of futoshiki has 7x7 = 49"),
        ("<......\n", "< stands between no two cells"),
        (".......<\n", "< stands between no two cells"),
        (".......\n        ^\n" + 6 * ".......\n", "stands under no cell"),
        ("^\n" + ROWS, "stands under no cell"),
        (ROWS + "^\n", "a sign stands below the last row"),
        ("8......\n" + 6 * ".......\n", "'8' in line 1 is no cell of futoshiki"),
        ("......\n........\n" + 5 * ".......\n", "row 1 of the board has 6 cells; type 7"),
        (".<>......\n" + 6 * ".......\n", "> is the second sign between two cells"),
        (".......\n^\nv\n" + 6 * ".......\n", "v is the second sign between two cells"),
        (".<" + 48 * ".", "1 lines of cells; with signs, type 7 lines"),
        (".\t......\n" + 6 * ".......\n", "a tab"),
    ],
    "killer": [
        ("AAB", "1 lines; type 6 of the board, and as many of a map"),
        (CAGED + "A=3", "cage B has no sum"),
        (CAGED + "A=3 B=9 C=4", "cage C has no cell"),
        (CAGED + "A=3 B=9 A=4", "cage A has two sums, 3 and 4"),
        (CAGED + "A=3 AB=9", "'AB=9': type LETTER=SUM"),
        (CAGED + "A=3\n=9", "'=9': type LETTER=SUM"),
        (CAGED + "A=3.5 B=9", "'3.5' is no sum of cage A"),
        (CAGED + "A=3 B=-9", "'-9' is no sum of cage B"),
        (CAGED + "A=3 B=", "'' is no sum of cage B"),
        (CAGED + "A=3 B=9 sums", "'sums': type LETTER=SUM"),
        (CAGED + "A=3 B=" + "9" * 5000, "is no sum of cage B"),
        ("AAAAABB\n" + 5 * "AAABBB\n", "'AAAAABB' in the map of the cages has 7 cells; type 6"),
        (5 * "AAABBB\n" + "BAABBB\nA=3 B=9", "cage B is in two places"),
        (". ....\n" + 5 * "......\n" + CAGED, "row 1 of the board has 5 cells"),
    ],
    "nonogram": [
        ("1\n2", "no line begins with `columns:`"),
        ("1\n2\ncolumns: 1", "2 rows and 1 columns of runs"),
        (LINES + 9 * "1, " + "z", "'z' is no length"),
        (LINES + 9 * "1, " + "²", "'²' is no length"),
        (LINES + 9 * "1, " + "٣", "'٣' is no length"),
        (LINES + 9 * "1, ", "column 10 has the runs []"),
        (LINES + 9 * "1, " + "1 0 2", "column 10 has the runs [1, 0, 2]"),
        (".......... \n" + LINES.replace("1\n", "", 1) + 9 * "1, " + "1", "'..........' is no length of a run"),
        ("......... 1\n" + LINES.replace("1\n", "", 1) + 9 * "1, " + "1", "row 1 of the board has 9 cells"),
        (LINES.replace("columns", "rows") + 9 * "1, " + "1", "lines with a colon begin with columns"),
        (2 * (LINES + 9 * "1, " + "1\n"), "and each stands once"),
    ],
    "colouring": [
        ("0-1 1-100", "'1-100': type NODE=R|G|B or NODE-NODE, nodes from 0 to 99"),
        ("0=X", "'0=X'"),
        ("0-0", "'0-0'"),
        ("0=R 0=.", "'0=.': this node stands twice"),
        ("0-1 1-0", "'1-0': this edge stands twice"),
        ("0-1-2", "'0-1-2'"),
        ("0-٣", "'0-٣'"),
        (" \n", "the text names no node"),
    ],
    "kakuro": [
        (8 * "........\n" + "rows: 3 4\ncolumns:", "2 sums of rows; the board has 8 runs in rows"),
        (8 * "........\n" + "rows: 8*9\ncolumns: 8*9", "'8*9' is no sum"),
        (8 * "........\n" + "rows: 1\nrows: 2", "and each stands once"),
        (8 * "........\n" + "rows: 1", "no line begins with `columns:`"),
        (8 * "........\n" + "sums: 1", "'sums: 1': lines with a colon begin with rows or columns"),
        ("....... \n" + 7 * "........\n" + "rows: 1\ncolumns: 1", "row 1 of the board has 7 cells"),
    ],
    "light-up": [("5" + 99 * ".", "'5' in line 1 is no cell of light-up")],
    "queens": [
        (8 * "........\n" + "foo 3: 1 2", "no relation foo"),
        (8 * "........\n" + "sum_eq_1: 1 99", "no cell 99"),
        (8 * "........\n" + "sum_eq_1 1 2", "'sum_eq_1 1 2': a colon is missing before the cells"),
        (8 * "........\n" + "sum_eq_1 5: 1 2", "sum_eq_1 takes no number before the colon"),
        (8 * "........\n" + "sum_eq_1: a b", "'a' is no number; type a whole number, as `sum_eq_1: CELL CELL…`"),
        (8 * "........\n" + "sum_eq_1: 1_0 2", "'1_0' is no number"),
    ],
}


@pytest.mark.parametrize("name", TYPED)
def test_text_that_is_no_puzzle_is_refused_in_one_line(name):
    puzzle = drawn(name)[0]
    for text, words in TYPED[name]:
        with pytest.raises(DatasetError) as raised:
            puzzle.typed(text)
        assert words in str(raised.value)
        assert "\n" not in str(raised.value)


def test_the_sum_of_a_cage_of_one_cell_is_a_clue():
    puzzle, text = drawn("killer")[0], 6 * "AAABBB\n"
    tokens, relations = puzzle.typed(text.replace("A", "C", 1) + "A=12 B=12 C=4")
    assert (tokens[0], (tokens[1:] == 1).all()) == (5, True)
    again = puzzle.draw(tokens, None, relations)
    assert again.split("\n")[7] == ".AABBB"
    assert (puzzle.typed(again)[0] == tokens).all()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("sum_eq: 0 1", "takes 1 number"),
        ("sum_eq 5 6: 0 1", "takes 1 number"),
        ("sum_eq -5: 0 1", "'-5' is no number"),
        ("sum_eq 5: 0 0", "a cell stands once"),
    ],
)
def test_a_typed_relation_needs_its_number_and_different_cells(line, words):
    puzzle = drawn("queens")[0]
    sums = Structure(relations=(Relation(name="sum_eq", rule=["==", ["sum", "x"], "n"], clues=1, highest=9),))
    puzzle = family_of(puzzle.task, puzzle.seq_len, puzzle.vocab_size, sums)
    board = 8 * "........\n"
    assert puzzle.typed(board + "sum_eq 5: 0 1")[1].tolist() == [[0, 5, 0, 1]]
    with pytest.raises(DatasetError, match=words):
        puzzle.typed(board + line)


@pytest.mark.parametrize("change", [{"values": 5}, {"lowest": "1"}, {"unique": None}])
def test_an_edited_task_is_refused(change):
    puzzle = drawn("queens")[0]
    with pytest.raises(DatasetError, match="describes no puzzle"):
        family_of(puzzle.task | change, puzzle.seq_len, puzzle.vocab_size, puzzle.structure)


def test_a_page_that_ends_the_program_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "page.py").write_text("\nraise SystemExit(0)\n")
    assert main([str(tmp_path / "page.py"), "--output-dir", str(tmp_path / "set")]) == 1
    assert "page.py cannot be imported (line 2): SystemExit: 0" in capsys.readouterr().err
