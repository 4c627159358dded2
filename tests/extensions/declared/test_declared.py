"""Puzzles that a CPMpy model declares: every page, the generator, text, errors, presets, and files of suites."""

import contextlib
import json
import re
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import make_set
from survivors import array, snapshot
from test_presets import NARROW, two_steps
from typed_texts import Case, reading_test
from typed_texts import page as page

from datasets_gen.__main__ import main
from datasets_gen.extensions.declared import FORMS, Declared
from datasets_gen.extensions.declared.generate import ANSWERS, declared_chunk, make
from datasets_gen.extensions.declared.importers import bench_board
from datasets_gen.extensions.declared.pages import pages
from datasets_gen.extensions.declared.relations import gather, rows
from datasets_gen.extensions.declared.solver import NoPuzzle
from datasets_gen.layout import DatasetError, read_metadata, read_split, write_dataset
from datasets_gen.parallel import ORDER, Chunk, seeded
from datasets_gen.puzzles import family_of, puzzle_named, puzzle_of
from reason.config.overrides import override
from reason.data.puzzles import PuzzleData
from reason.extensions.declared.presets import PAGES, sample
from reason.models import build_model
from reason.models.base import IGNORE
from reason.models.layout import IMPOSSIBLE
from reason.presets import preset

pytest.importorskip("cpmpy")
NAMES = [
    "colouring", "futoshiki", "hitori", "kakuro", "killer", "latin-10", "light-up", "nonogram", "queens",
    "random-binary", "random-mixed", "random-values", "random-walls", "slitherlink", "sudoku-16", "sudoku-diagonal",
    "sudoku-jigsaw", "takuzu",
]  # fmt: skip


@cache
def drawn(name):
    """The puzzle with its set's structure, questions, answers and relations of a draw."""
    puzzle, rng, made = pages()[name](), seeded(1, 0), None
    while made is None:
        with contextlib.suppress(NoPuzzle):
            made = make(puzzle, rng)
    relations = gather(puzzle.always_instances, [made.instances])
    puzzle = puzzle.of(puzzle.structure.model_copy(update={"relations": relations}))
    return puzzle, made.question[None], made.answers, rows(relations, [made.instances])


def row(relations):
    return None if relations is None else relations[0]


def test_the_pages_are_short():
    assert sorted(pages()) == NAMES
    for each in pages().values():
        assert len(Path(sys.modules[each.__module__].__file__).read_text(encoding="utf-8").splitlines()) <= 60


@pytest.mark.parametrize("name", ["queens", "colouring"])
def test_training_puzzles_with_several_solutions_have_several_answers(name, made, capsys):
    """In one group, of which an epoch draws one; the questions are those of a set with one answer each."""
    metadata, train = read_split(made(f"{name} --train 6 --test 3"), "train")
    assert "6 train, 3 test puzzles" in capsys.readouterr().out
    sizes = np.diff(train.puzzle_indices)
    assert (len(sizes), len(train.group_indices), metadata.total_groups) == (6, 7, 6)
    assert 1 < sizes.max() <= ANSWERS
    for first, size in zip(train.puzzle_indices, sizes, strict=False):
        own = slice(first, first + size)
        assert len(np.unique(train.inputs[own], axis=0)) == 1
        assert len(np.unique(train.labels[own], axis=0)) == size
    found, alone = (declared_chunk(Chunk((name, None), 0, ORDER.index(part), 0)) for part in ("test", "train"))
    assert {len(made.answers) for _, made in found} == {1}
    assert (train.inputs[train.puzzle_indices[:4]] == np.array([made.question for _, made in alone])).all()
    puzzle = puzzle_of(metadata)
    assert puzzle.valid(train.inputs, train.labels, train.relations).all()


@pytest.mark.parametrize("name", NAMES)
def test_a_page_draws_a_puzzle_that_is_judged_drawn_and_typed(name):
    puzzle, questions, answers, relations = drawn(name)
    own = row(relations)
    assert puzzle.structure.fault(puzzle.seq_len, puzzle.vocab_size) is None
    assert not puzzle.structure.unread
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
        fewer = np.where(np.arange(puzzle.seq_len) == clues[0], 1, questions[0])
        assert puzzle.fault(fewer, answers[0], own) == "the question has more than one solution"
    tokens, table = puzzle.typed(puzzle.draw(questions[0], None, own))
    assert (tokens == questions[0]).all()
    typed = puzzle.signatures(tokens[None], answers, None if table is None else table[None])
    assert typed == puzzle.signatures(questions, answers, relations)
    assert puzzle.draw(answers[0], questions[0], own).count("\n") == puzzle.draw(questions[0], None, own).count("\n")
    task = json.loads(json.dumps(puzzle.task)) | {"name": "alone"}  # the set judges without its page
    alone = family_of(task, puzzle.seq_len, puzzle.vocab_size, puzzle.structure)
    assert type(alone) is FORMS.get(puzzle.form, Declared)
    if puzzle.form:  # as a person types it, too
        text = alone.draw(questions[0], None, own)
        assert text == puzzle.draw(questions[0], None, own)
        assert (alone.typed(text)[0] == questions[0]).all()
    assert alone.valid(questions, answers, relations).all()
    assert alone.task["name"] == "alone"


def test_a_set_is_the_same_each_time_and_verified(made, refused, capsys):
    words = "killer --train 5 --validation 2 --test 3 --seed 4 --processes 1"
    directory = made(words)
    assert snapshot(directory) == snapshot(made(words, name="again"))
    assert "every question has one solution, and every label is it" in capsys.readouterr().out
    assert main(["show", str(directory), "--index", "1"]) == 0
    assert "A=" in capsys.readouterr().out
    metadata, split = read_split(directory, "train")
    assert puzzle_of(metadata).structure == metadata.structure
    assert split.relations.dtype == np.int16
    assert not {*map(bytes, split.labels)} & {*map(bytes, read_split(directory, "test")[1].labels)}
    array("labels", lambda labels: labels.__setitem__((2, [0, 6]), labels[2, [6, 0]]))(directory)
    refused(["verify", directory], "example 2: ")


OWN = '''from datasets_gen.structure import GridSymmetry
from datasets_gen.extensions.declared import Declared, Drawn, Runs, cp, unseen

class Mine(Declared):
    """A row of three different digits."""

    name = "mine"
    grid, values = (1, 3), "123"

    def always(self, x):
        return [cp.AllDifferent(x[0]), ALWAYS]

    def puzzle(self, x, rng, fill):
        answer = fill(FILL)
        return Drawn(ANSWER, SHOWN)
'''
SHOWN = "optional=[a == b for a, b in zip(x.flat, answer.flat)]"
WORDS = {"ALWAYS": "x[0, 0] < x[0, 1]", "SHOWN": SHOWN, "FILL": "", "ANSWER": "answer"}
A, B = "x[0, 0] == x[0, 1]", "x[0, 1] == 2"
RETURN, TYPED_BY = "return Drawn(ANSWER, SHOWN)", "\n\n    def typed(self, text):\n        return super().typed"
HIDDEN = "x[0] == answer[0])\n\n    board = (1, 2"
FAULTS = [  # what is typed in place of something else, and what is said
    ("ALWAYS", "x[0, 0] + x[0, 1] == 9", "no grid satisfies `always`: sum_eq_9 of cells (0, 1) excludes the last ones"),
    ("FILL", "[x[0, 1] == 1]", "0 of 100 draws gave a new puzzle; 100 gave fill(…) clues that contradict `always`"),
    ("SHOWN", "", "0 of 100 draws gave a new puzzle; 100 have several solutions even with every clue"),
    ("SHOWN", "shown=[x[0, 1] == 7]", "the clue 7 of cell 1 is not a value of mine; its values are 123"),
    ("SHOWN", "shown=[x[0, 1] == 1]", "the answer violates the clue 1 of cell 1"),
    ("SHOWN", "shown=[x[0, 1] + cp.intvar(0, 3) == 3]", "a further variable, which is not a cell of the puzzle"),
    ("SHOWN", "black=answer > 2", "black cells need clues in `shown`, and the class needs `black`"),
    ("ANSWER", "answer[0, 1:]", "`answer` of Drawn has shape (2,); the grid is (1, 3)"),
    ("ALWAYS", "Runs(x[0], [1])", "Runs needs cells with the values 0 and 1; mine has [1, 2, 3]"),
    ("SHOWN", f"{SHOWN}, absent=answer == 1", "is absent and has a clue"),
    (RETURN, "self.unique = False; return Drawn(answer + 7)", "where a cell may have [1, 2, 3]; a value"),
    (RETURN, "return answer", "`puzzle` returns ndarray; return Drawn(answer, …)"),
    ("ANSWER", "answer.T", "`answer` of Drawn has shape (3, 1); the grid is (1, 3)"),
    ("ANSWER", "None", "`answer` of Drawn has shape (); the grid is (1, 3)"),
    ("ALWAYS", "cp.InDomain(x[0, 0], [])", "x[0,0] in [] never holds, because it lists no values"),
    ("SHOWN", HIDDEN, "cell 2 has a clue, and `board` hides the cell; offer clues in"),
    (RETURN, f"{RETURN}{TYPED_BY}('...')", "puzzle; correct `typed`"),
    ("ANSWER", "answer / nothing", "line 15: NameError: name 'nothing' is not defined"),
    *(
        ("ALWAYS", each, "line 11: TypeError: Python evaluates `or`, `and`, `not`, `if`")
        for each in (f"({A}) or ({B})", f"({A}) and ({B})", f"not {A}", f"1 if {A} else {B}", "x[0, 0] < x[0, 1] < 3")
    ),
    ('"123"', '"122"', "values = '122'; a shape is (rows, columns), values are a text with a different character"),
    ('"123"', "5", "values = 5; a shape is"),
    ("(1, 3)", "3", "grid = 3; a shape is"),
    ('"123"', '"123"; board = (2, 3)', "board = (2, 3); a shape is"),
    ('"123"', '"123"; black = lambda self: 0', "black is an attribute of Declared; give your method another name"),
    ('"123"', '"123"; black = "AB"', "black = 'AB'; a shape is"),
    ('"123"', '"123"; interchangeable = True', "interchangeable = True, but lt distinguishes values; leave it out"),
    ('"123"', '"123"; moves = GridSymmetry(1, 1, 1, 3, False, (2, 2))', "an answer after `moves` breaks the rules"),
    ('"123"', '"123"; moves = GridSymmetry(1, 1, 1, 2, False, (2, 2))', "does not fit a grid of (1, 3)"),
    ('name = "mine"', 'name = "sudoku"', "name = 'sudoku' belongs to a puzzle of the package"),
    ('name = "mine"', 'name = "na me/x"', "name = 'na me/x'; type small letters, digits and -, as in name = "),
    ('name = "mine"', "", "the class Mine has no name; type small letters"),
    ('"123"', '"123"; lowest = "0"', "lowest = '0'; type a whole number"),
    ('"123"', '"123"; shown_only = "123"', "shown_only = '123'; type some of the values"),
    ('"123"', '"".join(map(chr, range(300, 555)))', "both have at most 254 together"),
    (OWN, "", "has 0 subclasses of Declared; write one"),
    (OWN, "x = (", "line 1: SyntaxError: '(' was never closed"),
]


def own_file(folder, written="", typed="", **words):
    path, text = folder / "mine.py", OWN.replace(written, typed) if written else OWN
    for name, code in (WORDS | words).items():
        text = text.replace(name, code)
    path.write_text(text, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(("written", "typed", "words"), FAULTS)
def test_a_faulty_file_is_refused_in_one_line_and_writes_nothing(written, typed, words, tmp_path, capsys):
    path, out = own_file(tmp_path, written, typed), tmp_path / "set"
    assert main([path, "--train", "30", "--test", "30", "--processes", "1", "--output-dir", str(out)]) == 1
    told = capsys.readouterr().err.splitlines()[-1]
    assert told.startswith("error: ")
    assert words in told
    assert not out.exists()


def test_values_that_constraints_only_compare_are_interchangeable(made, tmp_path):
    """Constraints over cells may be looked up in a list."""
    path = own_file(tmp_path, ALWAYS="[c != x[0, 1] for c in x[0] if c in [x[0, 0]] and list(x[0]).index(c) == 0]")
    metadata = read_metadata(made(f"{path} --train 2 --test 1"), "train")
    assert (metadata.task["interchangeable"], metadata.structure.symbols) == (True, (2, 3, 4))


def test_what_was_found_is_kept_in_proportion_where_more_is_not_there(tmp_path, capsys):
    """Three grids obey the rules, with six minimal puzzles; a low rate is said early."""
    path, out = own_file(tmp_path), tmp_path / "set"
    assert main([path, "--train", "30", "--test", "20", "--processes", "1", "--output-dir", str(out)]) == 0
    told = capsys.readouterr().err
    assert re.search(r"note: .*mine.py: 6 of 40 draws gave a new puzzle; 34 equal earlier puzzles", told)
    assert re.search(r"warning: .*: 6 of 1\d\d draws gave a new puzzle; .*; the set contains only these puzzles", told)
    assert re.search(r"note: 2 of 2 answers of test are also answers of train, which has 3 different", told)
    counts = [len(read_split(out, name)[1].inputs) for name in ("train", "test")]
    assert counts == [4, 2]
    assert main(["verify", str(out)]) == 0
    assert "answers of test are also answers of train" in capsys.readouterr().err


@pytest.mark.parametrize(("name", "moves"), [("slitherlink", " up to rotation, reflection"), ("colouring", "")])
def test_turned_answers_of_a_board_are_also_those_of_train(name, moves):
    puzzle, _, answers, _ = drawn(name)
    mirrored = answers.reshape(-1, *puzzle.grid)[:, :, ::-1].reshape(answers.shape)
    (told,) = puzzle.notes({"train": answers, "test": answers})
    assert told.endswith(f"different ones{moves}")
    assert bool(puzzle.notes({"train": answers, "test": mirrored})) == (name == "slitherlink")


def test_a_file_of_ones_own_makes_a_set_that_says_how(made, tmp_path, capsys):
    path = own_file(tmp_path, ALWAYS="unseen(x[0, 0] + 2 * x[0, 1] < 9)")
    metadata, split = read_split(made(f"{path} --train 2 --test 1 --clues 2"), "train")
    assert ((split.inputs > 1).sum(1) >= 2).all()
    assert metadata.provenance["command"].startswith(f"python -m datasets_gen {path} --train 2")
    assert list(metadata.structure.groups) == ["row"]  # all three cells
    assert not any(relation.seen for relation in metadata.structure.relations)
    assert "note: networks do not see" not in capsys.readouterr().err  # a rule of all, and no clue


def test_an_optional_clue_may_be_several_constraints(made, tmp_path):
    sums = "[x[0, i] + x[0, i + 1] == int(answer[0, i : i + 2].sum()) for i in (0, 1)]"
    path = own_file(tmp_path, SHOWN=f"optional=[{sums}]")
    _, split = read_split(made(f"{path} --train 2 --test 1"), "train")
    assert (split.relations[:, :, 0] > 0).sum(1).tolist() == [2, 2]


@pytest.mark.parametrize(("written", "typed", "told"), [
    ("SHOWN", "shown=[unseen(x[0, 0] + x[0, 1] == int(answer[0, :2].sum()))], optional=[x[0, 0] == answer[0, 0]]",
     "note: networks do not see the clues sum_eq, because of unseen(…)"),
    ("SHOWN", f"[x[0, 0] < 3, x[0, 2] == answer[0, 2]]){TYPED_BY}(text[:3]",
     "loses or changes `lt_3: 0`; the answer stays the only one"),
    ("ALWAYS", "cp.sum([cp.max(x[0, :n]) for n in (1, 2, 3)]) >= 0",
     "hidden booleans for the constraints of a puzzle, most of them for sum_max"),
])  # fmt: skip
def test_what_networks_or_texts_lose_and_what_is_costly_is_noted(written, typed, told, made, tmp_path, capsys):
    made(f"{own_file(tmp_path, written, typed)} --train 2 --test 0 --processes 1")
    assert told in capsys.readouterr().err


def test_a_faulty_file_is_refused_in_place_of_a_set(tmp_path):
    with pytest.raises(DatasetError, match="belongs to a puzzle of the package"):
        puzzle_named(own_file(tmp_path, 'name = "mine"', 'name = "sudoku"'))


def test_without_cpmpy_there_is_one_clear_line(tmp_path, monkeypatch, refused):
    puzzle, questions, answers, relations = drawn("futoshiki")
    monkeypatch.setitem(sys.modules, "cpmpy", None)
    told = "declared puzzles need CPMpy and OR-Tools", "pip install 'recursive-reasoners[puzzles]'"
    refused(["futoshiki", "--train", "1", "--output-dir", tmp_path / "set"], *told)
    assert puzzle.solved(questions, answers, relations).all()  # numpy alone


CAGED, LINES = 6 * "AAABBB\n", 10 * ".......... 1\n" + "columns: "
SIGNED = "\n\n".join(7 * [". . . . . . ."])
OPEN = 8 * "........\n"
TYPED = [
    ("futoshiki", "1<2", "type 13 lines of at most 13 characters"),
    ("futoshiki", SIGNED.replace("\n\n", "\n ^\n", 1), "^ in line 2, column 2 is not between two cells"),
    ("killer", "AAB", "type a board and a map of its regions, each of 6 lines of 6 cells"),
    ("killer", CAGED + "A=3 B=9 A=4", "type LETTER=SUM, once for each cage"),
    ("killer", CAGED + "A=3 B=9.5", "'9.5' is not a sum of cage B; type a whole number"),
    ("killer", 5 * "AAABBB\n" + "BAABBB\nA=3 B=9", "region B is in two places"),
    ("nonogram", ".......... 1\n.......... 2\ncolumns: 1", "2 rows and 1 columns; type 10 and 10"),
    ("nonogram", LINES + 9 * "1, " + "1 0 2", "or 0 with others"),
    ("colouring", "0-1 1-100", "'1-100': type NODE=R|G|B or NODE-NODE, nodes from 0 to 99"),
    ("colouring", "0=R 0=G", "cell 0 has two clues"),
    ("kakuro", OPEN + "rows: 3 4\ncolumns:", "8 runs in rows and 8 in columns; type their sums"),
    ("light-up", "5" + 99 * ".", "'5' in line 1 is not a cell of light-up"),
    ("queens", OPEN + "foo 3: 1 2", "there is no relation foo"),
    ("queens", OPEN + "sum_eq_1: 1 99", "type `sum_eq_1: CELL CELL…`, different cells from 0 to 63"),
]


@pytest.mark.parametrize(("name", "text", "words"), TYPED)
def test_text_that_is_no_puzzle_is_refused_in_one_line(name, text, words):
    with pytest.raises(DatasetError) as raised:
        drawn(name)[0].typed(text)
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_line_without_a_clue_is_drawn_and_typed():
    puzzle, questions, _, relations = drawn("nonogram")
    text = puzzle.draw(questions[0], None, relations[0, 1:])
    assert text.split("\n")[0].endswith("  ?")
    assert puzzle.typed(text)[1].tolist() == relations[0, 1:].tolist()


@pytest.mark.parametrize("name", ["declared-puzzle", "any", *PAGES])
def test_two_steps(name, tmp_path):
    two_steps(name, sample(name if name in PAGES else "killer")[1], tmp_path)


@pytest.mark.parametrize("name", PAGES)
def test_the_network_of_a_page_can_give_every_label(name, tmp_path):
    """Walls too, which are no values of an open cell."""
    shape = preset(name).shape
    write_dataset(tmp_path / "set", sample(name)[1], task={}, vocab_size=shape.vocab_size, structure=shape.structure)
    data = PuzzleData(tmp_path / "set", "train")
    model = build_model(override(preset(name).config(), NARROW).model, data.shape, torch.float32, None)
    batch = data.take(torch.arange(len(data)))
    context = model.encode(batch)
    logits = model.readout(model.initial_state(context), context).logits
    scored = batch.labels != IGNORE
    assert (logits[scored].gather(-1, batch.labels[scored][:, None]) > IMPOSSIBLE).all()


def declared(name):
    puzzle, questions, answers, relations = drawn(name)
    return Case(puzzle, questions[0], answers[0], row(relations))


CASES = {name: lambda name=name: declared(name) for name in NAMES}
test_every_reader_reads_alike_or_refuses = reading_test(CASES)


MINI = [[0, 0, 2, 0], [0, 4, 0, 1], [4, 3, 0, 0], [0, 0, 0, 0]]
SOLVED = [[3, 1, 2, 4], [2, 4, 3, 1], [4, 3, 1, 2], [1, 2, 4, 3]]
NINE = "530070000600195000098000060800060003400803001700020006060000280000419005000080079"
LATIN = (np.arange(7)[:, None] + np.arange(7)) % 7 + 1


def gym(kind, puzzle, **more):
    return {"metadata": {"source_dataset": kind, "puzzle": puzzle, **more}}


def bench(kind, code, columns, rows):
    address = f"http://puzz.link/p?{kind}/{columns}/{rows}/{code}"
    return {"pid": kind, "width": columns, "height": rows, "puzzlink_url": address}


def written(folder, *entries, name="test"):
    (folder / f"{name}.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    return folder / f"{name}.jsonl"


ENTRY = gym("mini_sudoku", MINI)


@pytest.mark.parametrize(("text", "more"), [
    (json.dumps(ENTRY) + "\n", ()),
    (json.dumps({"metadata": json.dumps(ENTRY["metadata"])}), ()),
    (json.dumps({"metadata": {"puzzle": MINI}}), ("--tasks", "mini_sudoku")),
])  # fmt: skip
def test_a_sudoku_of_reasoning_gym(made, tmp_path, text, more):
    (tmp_path / "test.json").write_text(text)
    _, split = read_split(made("import reasoning-gym", tmp_path / "test.json", *more), "test")
    assert (split.inputs - 1 == np.ravel(MINI)).all()
    assert (split.labels - 1 == np.ravel(SOLVED)).all()


def test_files_of_two_puzzles_are_refused(tmp_path, refused):
    nine = gym("sudoku", np.reshape([*map(int, NINE)], (9, 9)).tolist())
    files = written(tmp_path, ENTRY, name="train"), written(tmp_path, nine)
    refused(["import", "reasoning-gym", *files, "--output-dir", tmp_path / "set"], "import them separately")


def test_futoshiki_with_signs_and_without(made, tmp_path):
    like = make_set("futoshiki --train 2 --test 0", tmp_path / "like")
    shown = LATIN.tolist()
    shown[0][0] = shown[2][3] = 0
    signs = [[0, 0, 0, 1, "<"], [2, 3, 3, 3, "<"]]  # 1 < 2 in the first row; 6 < 7 downwards
    file = written(tmp_path, *(gym("futoshiki", shown, constraints=some) for some in (signs, [])))
    _, split = read_split(made("import reasoning-gym", file, "--like", like), "test")
    assert (split.labels == LATIN.ravel() + 1).all()
    assert (split.relations[0, :, 1:] == [[0, 1], [17, 24]]).all()
    assert (split.relations[1] == -1).all()


def test_queens_have_any_answer(made, tmp_path):
    like = make_set("queens --train 4 --test 0", tmp_path / "like")
    board = [["_"] * 8 for _ in range(8)]
    board[6][0] = "Q"
    file = written(tmp_path, gym("n_queens", board))
    _, split = read_split(made("import reasoning-gym", file, "--like", like), "test")
    assert split.labels[0, 48] == 3
    assert (split.labels == 3).sum() == 8


def test_codes_of_pencil_puzzle_bench(made, tmp_path):
    digits = bench_board(bench("sudoku", "1o6h84k76h9j64i7h4k8h8i53j5h71k14h6o2", 9, 9))[0]
    assert digits[:3] == ["1........", ".6..84...", "..76..9.."]
    akari = bench("lightup", "..g.lbh52bhbh.g6..g.o.6.h6..o6.67.j.j15.j.l.g0./", 10, 10)
    assert bench_board(akari)[0][:4] == ["##.#......", "1....0.21.", "...1....#.", "1.##.#...."]
    like = make_set("light-up --train 2 --test 0", tmp_path / "like")
    file = written(tmp_path, akari, bench("lightup", "g0i", 2, 2), bench("tapa", "g1p0n0zzzx", 10, 10))
    _, split = read_split(made("import ppbench", file, "--like", like), "test")
    assert split.inputs.shape == (1, 100)  # the board of 2 × 2 is left out


@pytest.mark.parametrize(("suite", "entries", "told"), [
    ("reasoning-gym", [ENTRY, [1]], "line 2 is not an entry of reasoning-gym (Type"),
    ("reasoning-gym", [gym("tsumego", [])], "contains no such puzzle"),
    ("reasoning-gym", [ENTRY, {"metadata": {"puzzle": MINI}}], "line 2 does not state its kind; name it with --tasks"),
    ("ppbench", [bench("sudoku", "zzzzg", 9, 9), bench("lightup", "zzzzg", 9, 9)], "--tasks: lightup, sudoku"),
    ("ppbench", [bench("lightup", "zzzzg", 9, 9)], "lightup is a declared puzzle; type a set of it: --like"),
    ("reasoning-gym", [gym("mini_sudoku", [[1, 1, 0, 0], *MINI[1:]])], "line 1: the puzzle has no solution"),
    ("reasoning-gym", [gym("mini_sudoku", [[0] * 4] * 4)], "line 1: the puzzle has several solutions"),
])  # fmt: skip
def test_faulty_files(tmp_path, refused, suite, entries, told):
    refused(["import", suite, written(tmp_path, *entries), "--output-dir", tmp_path / "set"], told)
