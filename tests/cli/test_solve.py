"""reason solve and reason compare, as a person types them."""

import csv
import io
import itertools
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from conftest import NARROW, make_set, one_line, output, refusal

from datasets_gen.maze import Maze
from datasets_gen.sudoku import Sudoku
from reason.cli import main
from reason.cli.solve import SETTING
from reason.config.describe import keys_of
from reason.evaluation.studies.boards import StepAnswers, answers_by_step
from reason.models.base import Readout
from reason.report.drawing import board
from reason.settings.base import Mark

FOUR = "1... .... .... ...."
RIGHT = Sudoku(4).parse("1234 3412 2143 4321")
FALSE = np.where(np.arange(16) == 3, RIGHT[2], RIGHT)
SETS = {
    "sudoku": ("sudoku --size 4 --train 20 --test 5", "sudoku-4x4", "1... .... .... ...2"),
    "maze": ("maze --size 4 --min-path 4 --train 20 --test 5", "maze-10x10", "S...\n.##.\n...#\n##.G\n"),
    "sum": ("addition --digits 2 --train 20 --test 5 --blank-answer", "addition-3", "12+34"),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A run of every kind, trained for a few steps: which answers they give does not matter here."""
    here = tmp_path_factory.mktemp("solve")
    for name, (words, preset, _) in SETS.items():
        data = make_set(words, here / f"{name} set")
        assert main(["train", preset, f"data={data}", f"run={here / name}", *NARROW, "model.h_cycles=1"]) == 0
    return here


@pytest.mark.parametrize("name", SETS)
def test_every_kind_of_puzzle(name, runs, tmp_path, capsys):
    puzzle = SETS[name][2]
    if name != "sum":  # in a file, with the mark that some editors write
        (tmp_path / "puzzle.txt").write_text(f"\ufeff{puzzle}", encoding="utf-8")
        puzzle = str(tmp_path / "puzzle.txt")
    status = main(["solve", str(runs / name), puzzle, "steps=3", "--restarts", "8"])
    out = capsys.readouterr().out
    assert re.search("^(step|steps . to) 3: ", out, re.MULTILINE)
    shown = re.search(r"^question\n(.*?)\n\n?step", out, re.DOTALL | re.MULTILINE)
    assert ("solved: the rules hold" in out) == (status == 0)
    assert ("the rules do not hold: " in out) == (status == 1)
    assert ("the model's own doubts: " in out) == (status == 1)
    assert main(["solve", str(runs / name), puzzle, "steps=3", "--restarts", "8", "--json"]) == status
    told = json.loads(capsys.readouterr().out)
    assert [row["step"] for row in told["steps"]] == [1, 2, 3]
    assert told["rules_hold"] is told["sure"] is (status == 0)
    assert told["restarts"] == (told["restart"] if status == 0 else 8)
    assert (told["mistake"] is None) == (status == 0)
    assert told["answer"] == told["steps"][-1]["answer"]
    assert told["steps"][0]["halting"] is not None
    main(["solve", str(runs / name), shown[1], "steps=1", "--restarts", "1", "--json"])  # what is printed can be typed
    assert json.loads(capsys.readouterr().out)["question"] == told["question"]


def answering(monkeypatch, right):
    """Let restarts of these numbers be right, and no others; the sizes of their batches."""
    batches, number = [], itertools.count(1)

    def found(model, batch, *others, **more):
        batches.append(len(batch.inputs))
        return [StepAnswers(np.stack([RIGHT if next(number) in right else FALSE]), None) for _ in batch.inputs]

    monkeypatch.setattr("reason.solve.answers_by_step", found)
    return batches


@pytest.mark.parametrize(("restarts", "right", "made"), [(1, 1, 1), (2, 1, 2), (3, 3, 3), (8, 3, 3)])
def test_restarts_end_with_the_first_that_is_right(restarts, right, made, runs, monkeypatch):
    answering(monkeypatch, {3, 5})
    words = ["solve", str(runs / "sudoku"), FOUR, "--restarts", str(restarts), "--json"]
    told = json.loads(output(words, status=None))
    assert (told["restart"], told["restarts"]) == (right, made)
    assert told["rules_hold"] is (right == 3)
    assert (told["answer"] == ["1234", "3412", "2143", "4321"]) is (right == 3)


def test_restarts_go_on_while_there_is_time(monkeypatch, runs):
    """In batches that grow to a fixed size, so that their draws depend on no clock."""
    batches, now = answering(monkeypatch, {}), itertools.count()
    monkeypatch.setattr("reason.solve.time.monotonic", lambda: next(now))
    said = "not solved in 256 restarts", "an exact solver finds one solution:\n1234\n3412\n2143\n4321"
    output(["solve", str(runs / "sudoku"), "1234 3412 2143 432.", "--seconds", "8"], *said, status=None)
    assert batches == [1, 7, 8, 16, 32, 64, 64, 64]
    several = ["solve", str(runs / "sudoku"), FOUR, "--seconds", "0"]
    output(several, "the puzzle has several solutions; the model was trained on puzzles with one", status=None)
    batches.clear()
    assert json.loads(output([*several, "--json"], status=None))["exact"]["solutions"] == 2
    assert batches == [1]


def test_restarts_end_after_the_step_at_which_the_time_is_over(monkeypatch, runs):
    taken, now = [], itertools.count()

    def watched(*given, **more):
        found = answers_by_step(*given, **more | {"until": lambda answers: np.zeros(len(answers), bool)})
        wrong = [each._replace(answers=np.ones_like(each.answers)) for each in found]
        taken.append((len(found), len(found[0].answers)))
        return wrong

    monkeypatch.setattr("reason.solve.answers_by_step", watched)
    monkeypatch.setattr("reason.solve.time.monotonic", lambda: next(now))
    words = ["solve", str(runs / "sudoku"), "1234 3412 2143 432.", "steps=9", "--seconds", "4"]
    output(words, "not solved in 8 restarts", status=None)
    assert taken == [(1, 9), (7, 3)]


def test_a_file_of_puzzles(monkeypatch, runs, tmp_path, capsys):
    answering(monkeypatch, {3, 5})
    puzzles, out = tmp_path / "puzzles.csv", tmp_path / "out.csv"
    puzzles.write_text("source,question\na,1...............\na,11..............\na,12..............\n")
    words = ["solve", str(runs / "sudoku"), str(puzzles), "--output", str(out), "--restarts", "3"]
    assert main(words) == 1
    rows = [line.split(",") for line in out.read_text().splitlines()]
    assert rows[0] == ["question", "answer", "solved", "restarts", "seconds", "error"]
    assert [row[:4] for row in rows[1:]] == [
        ["1...............", "1234341221434321", "yes", "3"],
        ["11..............", "", "no", "0"],
        ["12..............", "1234341221434321", "yes", "1"],  # the fifth in all
    ]
    assert "the puzzle contradicts itself" in ",".join(rows[2])
    assert "the rules hold for 2 of 3 puzzles" in capsys.readouterr().out
    refusal(words, "out.csv is there already; type another file, or remove it")
    out.unlink()
    puzzles.write_text('question\n"12..\n....\n....\n...."\n')  # a board of several lines in quotes
    main(words)
    with out.open(newline="") as file:
        assert [row["question"] for row in csv.DictReader(file)] == ["12..\n....\n....\n...."]
    other = ["--output", str(tmp_path / "other.csv")]
    for text, told in {
        "\n": "holds no puzzle",
        'question\n"1..............."2\n': "line 2: not CSV",
        "id,name\n1,2\n": "no column `question`; its columns are id, name",
    }.items():
        puzzles.write_text(text)
        refusal([*words[:3], *other], told)
    refusal([*words[:2], "none.txt", *other], "none.txt is none")
    refusal([*words[:3], *other, "--json"], "for one puzzle")
    refusal([*words[:3], *other, "--restarts", "0"], "restarts=0: at least 1 is needed")
    assert not (tmp_path / "other.csv").exists()


def test_a_maze_is_tried_under_its_eight_turns(monkeypatch, runs):
    seen, question = [], "S#..\n.#..\n....\n.#.G"

    def copies(model, batch, steps, **_):
        seen.append(batch.inputs)
        yield from (SimpleNamespace(answer=batch.inputs, readout=Readout(None)) for _ in range(steps))

    def turned_back(*given, **more):
        found = answers_by_step(*given, **more)
        assert all((by_step.answers == Maze(4).parse(question)).all() for by_step in found)
        return found

    monkeypatch.setattr("reason.solve.unroll", copies)
    monkeypatch.setattr("reason.solve.answers_by_step", turned_back)
    words = ["solve", str(runs / "maze"), question, "--restarts", "12", "--json"]
    assert json.loads(output(words, status=None))["restarts"] == 8
    assert len(torch.cat(seen).unique(dim=0)) == 8


WRONG = {
    "too short": ("sudoku", "123", "3 cells, [3] by line; type the 4x4 = 16 of a board of sudoku"),
    "foreign": ("sudoku", "x" * 16, "'x' in line 1 is not a cell of sudoku; its cells are '.12340_*?·'"),
    "clash": ("sudoku", "1..1 .... .... ....", "the puzzle contradicts itself: row 1 of the question holds 1 twice"),
    "walled in": ("maze", "S#..\n##..\n....\n...G", "contradicts itself: no path leads from S to G"),
    "no sum": ("sum", "12*3", "'12*3' is not a sum; type whole numbers with + between them, as 12+34="),
    "no file": ("maze", "nowhere.txt", "no file nowhere.txt"),
    "no file of another kind": ("sudoku", "nowhere.ss", "no file nowhere.ss, and no puzzle: 'n' in line 1 is not"),
}


@pytest.mark.parametrize(("name", "puzzle", "words"), WRONG.values(), ids=WRONG)
def test_malformed_puzzles(name, puzzle, words, runs):
    one_line(["solve", str(runs / name), puzzle], words)


def test_settings_that_a_solution_does_not_read_are_named(runs, monkeypatch):
    answering(monkeypatch, {})
    words = ["solve", str(runs / "sudoku"), FOUR, "--seconds", "0", "steps=2"]
    (line,) = refusal([*words, "evaluation.limit=3", "evaluation.weights=raw"]).splitlines()
    said = "evaluation.limit=3 changes nothing in this answer: reason solve only uses evaluation.steps, "
    assert line.startswith(said)
    assert all(SETTING.match(f"{key}=") for key in keys_of(Mark.READABLE))
    refusal([*words[:2], "steps=2"], "a run and a puzzle are needed")
    refusal([*words, "model.hidden_size=3"], "model.hidden_size cannot change for a trained model")
    refusal([*words, "step=4"], "did you mean steps? see: reason solve --help")
    refusal([*words, "--top-p", "0.5"], "--top-p is for texts; this is a puzzle")


def test_clues_that_are_not_kept_are_marked():
    """In the terminal, with and without colour."""
    puzzle = Sudoku(4)
    question, answer = puzzle.parse(FOUR), puzzle.parse("2134 3412 2143 4321")
    text = board(puzzle, answer, question, np.zeros(16, bool))
    assert text.plain.splitlines()[0] == "2!1 | 3 4 "
    assert text.plain.count("!") == 1
    assert [str(span.style) for span in text.spans if "strike" in str(span.style)] == ["bold red strike"] * 2


@pytest.mark.parametrize(("steps", "last"), [("wrw", 2), ("rww", 1), ("wwr", 3)])
def test_the_first_step_whose_answer_keeps_the_rules_is_the_last(steps, last, runs, monkeypatch):
    def unrolled(*_, **__):
        for step in steps:
            answer = torch.from_numpy({"r": RIGHT, "w": FALSE}[step]).long()[None]
            yield SimpleNamespace(answer=answer, readout=Readout(torch.zeros(1, 16, 6)))

    monkeypatch.setattr("reason.solve.unroll", unrolled)
    output(["solve", str(runs / "sudoku"), FOUR], f"solved: the rules hold at step {last}\n")


def test_compare(runs, tmp_path, capsys, monkeypatch):
    a = str(runs / "sudoku")
    refusal(["compare", a], f"{a} holds no evaluation; make one: python evaluate.py {a}")
    for words in (["steps=2"], ["steps=3", "name=longer"]):
        assert main(["evaluate", a, *words]) == 0
    out = tmp_path / "together"
    both = [f"{a}/evaluation/longer", f"{a}/evaluation/sudoku set-test-T2"]
    assert re.search(r"steps +A: 3; B: 2", output(["compare", *both, "--out", str(out)], "2 runs"))
    told = json.loads((out / "comparison.json").read_text())["evaluations"]
    assert [results["run"] for results in told] == ["sudoku/longer", "sudoku/sudoku set-test-T2"]
    assert main(["compare", a, "--name", "longer", "--out", str(out)]) == 0  # ours: replaced
    refusal(["compare", a, "--name", "[l]onger"], "holds no evaluation [l]onger")  # no pattern
    (tmp_path / "unread").mkdir()
    (tmp_path / "unread/config.json").write_text("{}")
    (tmp_path / "packed.tar.gz").write_bytes(b"")
    names = [a, *map(str, (tmp_path / "packed.tar.gz", tmp_path / "unread", out))]  # as `runs/*` names them
    assert main(["compare", *names, "--out", str(out)]) == 0
    assert f"{tmp_path / 'unread'} holds no evaluation and is left out" in capsys.readouterr().err
    other = str(shutil.copytree(both[1], tmp_path / "other/evaluation/short").parents[1])
    shutil.copy(Path(a) / "config.json", other)
    assert main(["compare", a, other, "--name", "longer", "--out", str(out)]) == 0
    assert f"{other} holds no evaluation longer and is left out" in capsys.readouterr().err
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs/comparison").mkdir(parents=True)
    refusal("compare", "runs/ holds no run; train one: python train.py ")
    (tmp_path / "runs/comparison").rmdir()
    (tmp_path / "runs").rmdir()
    (tmp_path / "runs").symlink_to(runs)
    output("compare --out elsewhere", "sudoku  ")  # a list of one's runs
    (Path(both[0]) / "results.json").write_text("{}")
    refusal(["compare", both[0], "--out", str(out)], "holds no results")


def test_nothing_heavy_is_imported():
    """A puzzle solved by a kernel: no compiler of torch's, no charts. The exact solver, by numba, comes after."""
    heavy = ("matplotlib", "pandas", "sympy", "torch._dynamo", "torch._inductor")
    puzzle = "53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79"
    code = f"import sys; from reason.cli import main; main(['solve', 'sudoku', '{puzzle}'])\n"
    code += f"sys.exit(', '.join(name for name in {heavy} if name in sys.modules) or 0)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert "the rules hold" in done.stdout


def test_a_puzzle_on_the_input_is_read_as_one_in_a_file(monkeypatch):
    lines = "\ufeff1..4..\r\n..2...\r\n.6....\r\n...5..\r\n4....1\r\n....3.".encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines), encoding="ascii"))
    output("solve sudoku-6x6 -", "the rules hold")
