"""ARC: boards, augmentations, files as people have them, and the score beside a naive one like TRM's evaluator."""

import json
import re
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import make_set
from evaluators import evaluator_of, read, small
from hypothesis import given
from hypothesis import strategies as st
from typed_texts import Case, reading_test
from typed_texts import page as page

from datasets_gen.__main__ import main
from datasets_gen.extensions.arc.importers import arc_splits
from datasets_gen.extensions.arc.puzzles import Arc, Augmentation, crop, grid_of, tokens_of
from datasets_gen.extensions.arc.tasks import tasks_asked
from datasets_gen.extensions.arc.vote import score
from datasets_gen.layout import DatasetError, read_identifiers, read_metadata, read_split
from datasets_gen.parallel import seeded
from reason.data.puzzles import PuzzleData
from reason.evaluation.suite import CONSUMERS, write_report
from reason.extensions.arc.report import Votes

FIXTURES = Path(__file__).parent / "fixtures"
ARC = [str(FIXTURES / f"arc_{part}_challenges.json") for part in ("training", "evaluation")]


@given(st.integers(1, 30).flatmap(lambda rows: st.tuples(st.just(rows), st.integers(1, 30))), st.integers(0, 2**32))
def test_grids_survive_the_board_and_every_augmentation(shape, seed):
    rng = np.random.Generator(np.random.PCG64(seed))
    grid = rng.integers(0, 10, shape)
    top, left = (int(rng.integers(0, 31 - side)) for side in shape)
    tokens = tokens_of(grid, top, left)
    assert (grid_of(tokens) == grid).all()
    assert Arc().fault(tokens, tokens) is None
    augmentation = Augmentation.draw(rng)
    assert (augmentation.undo(augmentation.apply(grid)) == grid).all()
    assert Augmentation.of(augmentation.name("task")) == ("task", augmentation)
    assert ((grid == 0).sum()) == (augmentation.apply(grid) == 0).sum()


def test_arc_tasks_round_trip(made, tmp_path, capsys):
    solved = ARC[1].replace("challenges", "solutions")
    for name, sources in (("set", ARC), ("again", [*ARC, solved])):  # found beside their challenges, and named
        made("import arc", *sources, "--augmentations", 6, name=name)
    assert "no solution" not in capsys.readouterr().err
    tasks = json.loads((tmp_path / "set/test_puzzles.json").read_text())
    solutions = json.loads(Path(solved).read_text())
    metadata, test = read_split(tmp_path / "set", "test")
    names = read_identifiers(tmp_path / "set", metadata)
    assert len(names) == 1 + 4 * 7
    assert metadata.vocab_size == 12
    assert (test.labels == read_split(tmp_path / "again", "test")[1].labels).all()
    owner = np.repeat(test.puzzle_identifiers, np.diff(test.puzzle_indices))
    asked = [names[identifier] for identifier in owner]
    for name, grids in solutions.items():  # the identity keeps what the files say
        rows = [index for index, identifier in enumerate(asked) if identifier == name]
        assert [grid_of(test.labels[row]).tolist() for row in rows] == grids
    (tmp_path / "set/test_puzzles.json").unlink()
    found = tasks_asked(tmp_path / "set", names, test)
    assert {name: task["test"] for name, task in found.items()} == {name: task["test"] for name, task in tasks.items()}
    train = read_split(tmp_path / "set", "train")[1]
    pairs = json.loads(Path(ARC[0]).read_text())
    learned = np.repeat(train.puzzle_identifiers, np.diff(train.puzzle_indices))
    for name, task in pairs.items():
        found = {grid_of(train.inputs[row]).tobytes() for row in np.flatnonzero(learned == names.index(name))}
        assert {np.array(pair["input"]).tobytes() for pair in task["train"]} <= found


def naive_crop(board):
    """Every rectangle at the corner, the first of the largest."""
    best, area = (0, 0), 0
    for rows in range(1, len(board) + 1):
        for columns in range(1, len(board[0]) + 1):
            if rows * columns > area and all(2 <= board[i][j] <= 11 for i in range(rows) for j in range(columns)):
                best, area = (rows, columns), rows * columns
    return tuple(tuple(int(board[i][j]) - 2 for j in range(best[1])) for i in range(best[0]))


def naive_undo(name, grid):
    """What the named turn moved to a cell goes back to where it came from, and what became a colour to its index."""
    if "|||" not in name or not grid:
        return grid
    _, turn, colours = name.split("|||")
    shape = np.shape(grid) if turn in ("t0", "t2", "t4", "t5") else np.shape(grid)[::-1]
    here = np.arange(np.size(grid)).reshape(shape)
    turns = [np.rot90(here, quarters) for quarters in range(4)]
    turns += [np.fliplr(here), np.flipud(here), here.T, np.fliplr(np.rot90(here))]
    found = np.zeros(here.size, int)
    found[turns[int(turn[1])].ravel()] = [colours.index(str(colour)) for row in grid for colour in row]
    return tuple(map(tuple, found.reshape(shape).tolist()))


def naive_right(names, inputs, outputs, halting, tasks, k, side):
    """Of each task, whether its test outputs are among the first k grids."""
    right = {task: [] for task in tasks}
    for task, pairs in tasks.items():
        for pair in pairs["test"]:
            cast = []
            for name, question, output, value in zip(names, inputs, outputs, halting, strict=True):
                asked = naive_undo(name, naive_crop(question.reshape(side, side).tolist()))
                if name.split("|||")[0] == task and asked == tuple(map(tuple, pair["input"])):
                    cast.append((naive_undo(name, naive_crop(output.reshape(side, side).tolist())), value))
            counts = Counter(grid for grid, _ in cast)
            means = {grid: sum(value for other, value in cast if other == grid) / counts[grid] for grid in counts}
            ranked = sorted(counts, key=lambda grid: (-counts[grid], -means[grid]))
            right[task].append(tuple(map(tuple, pair["output"])) in ranked[:k])
    return right


def wrongly_ended(outputs, rng):
    """One end mark of every prediction becomes a colour."""
    for row in outputs:
        ends = np.flatnonzero(row == 1)
        row[ends[int(rng.random() * len(ends))]] = 2 + int(rng.random() * 10)
    return outputs


def noisy(outputs, rng):
    """Half of the predictions are black, whatever their augmentation, so that they agree; and some cells are random."""
    black = rng.random(len(outputs)) < 0.5
    outputs = np.where(black[:, None], np.minimum(outputs, 2), outputs)
    wrong = rng.random(outputs.shape) < 0.002
    return np.where(wrong, (rng.random(outputs.shape) * 12).astype(np.uint8), outputs)


@pytest.mark.parametrize("damage", [wrongly_ended, noisy])
@pytest.mark.parametrize("seed", range(2))
def test_the_score_is_the_naive_one(damage, seed):
    side, rng = 10, np.random.Generator(np.random.PCG64(seed))
    tasks = {}
    for name in "abcdef":
        grids = [rng.integers(0, 10, (int(rng.integers(1, 9)), int(rng.integers(1, 9)))).tolist() for _ in range(8)]
        pairs = [{"input": grids[i], "output": grids[i + 1]} for i in range(0, 8, 2)]
        tasks[name] = {"train": pairs[:2], "test": pairs[2 : 3 + int(rng.integers(0, 2))]}
    tasks["f"]["test"] = [tasks["f"]["test"][0]] * 2  # a test input that is asked about twice
    splits, identifiers = arc_splits({}, tasks, augmentations=9, size=side, seed=seed)
    test = splits["test"]
    names = [identifiers[i] for i in np.repeat(test.puzzle_identifiers, np.diff(test.puzzle_indices))]
    outputs = damage(test.labels.copy(), rng)
    halting = np.round(rng.random(len(names)), 1)  # with ties
    order = rng.permutation(len(names))[: len(names) - 3]
    asked = [names[i] for i in order]
    found = score(asked, test.inputs[order], outputs[order], halting[order], tasks, ks=(1, 2, 3))
    for k in (1, 2, 3):
        right = naive_right(asked, test.inputs[order], outputs[order], halting[order], tasks, k, side)
        assert found["pass_at"][str(k)] == pytest.approx(np.mean([*map(np.mean, right.values())]), abs=1e-12)
        if k == 2:
            share = np.concatenate([*right.values()]).mean()
            assert official_score(found["submission"], outputs_of(tasks)) == pytest.approx(share)
    if damage is wrongly_ended:
        assert found["pass_at"]["2"] > 0.9  # an end mark outside of the largest rectangle changes nothing
    else:
        assert 0 < found["pass_at"]["1"] < found["pass_at"]["3"]
    assert found["unanswered"] == 0


@given(st.integers(1, 6), st.integers(1, 6), st.data())
def test_the_crop_is_the_largest_rectangle_at_the_corner(rows, columns, data):
    cells = data.draw(st.lists(st.sampled_from([0, 1, 2, 2, 5, 11, 11, 12]), min_size=36, max_size=36))
    board = np.array(cells).reshape(6, 6)[:rows, :columns]
    assert tuple(map(tuple, crop(board).tolist())) == naive_crop(board.tolist())


def test_the_score_says_what_it_cannot_count():
    tasks = {"a": {"train": [], "test": [{"input": [[1]], "output": [[2]]}, {"input": [[3]], "output": [[4]]}]}}
    boards = np.array([tokens_of(np.array([[colour]]), side=3) for colour in (1, 2, 4)])
    found = score(["a"], boards[:1], boards[1:2], np.ones(1), tasks)
    nothing = [[0, 0], [0, 0]]
    assert found == {
        "pass_at": {"1": 0.5, "2": 0.5},
        "tasks": 1,
        "unanswered": 1,
        "submission": {"a": [{"attempt_1": [[2]], "attempt_2": nothing}, dict.fromkeys(ATTEMPTS, nothing)]},
    }
    del tasks["a"]["test"][0]["output"]
    assert score(["a"], boards[:1], boards[1:2], np.ones(1), tasks)["pass_at"] == {"1": 0.0, "2": 0.0}
    for name, question in (("b", boards[:1]), ("a", boards[1:2])):
        with pytest.raises(DatasetError, match="no test task has this name and input"):
            score([name], question, boards[1:2], np.ones(1), tasks)


def test_a_few_tasks_on_a_small_board(made, tmp_path, refused):
    words = ["import", "arc", *ARC, "--split", "test", "--size", "6", "--augmentations", "5"]
    assert main(["show", str(made(" ".join(words), "--tasks", "66e6c45b,6ea4a07e"))]) == 0
    metadata = read_metadata(tmp_path / "set", "test")
    assert metadata.task == {"name": "arc", "size": 6}
    assert metadata.seq_len == 36
    assert json.loads((tmp_path / "set/test_puzzles.json").read_text()).keys() == {"66e6c45b", "6ea4a07e"}
    assert read_identifiers(tmp_path / "set", metadata)[1] == "66e6c45b"
    for more, message in (
        (["--tasks", "66e6c45c"], "no task '66e6c45c' in the sources"),
        (["--tasks", "66e6c45b", "--size", "3"], "a grid has 4 rows or columns, more than a board of --size 3"),
        (["--size", "31"], "31x31"),
        (["--split", "validation"], "validation"),
    ):
        refused([*words, "--output-dir", tmp_path / "other", *more], message)


def test_names_of_hrm_and_trm_say_the_augmentation():
    some = Augmentation(3, (0, 9, 1, 8, 2, 7, 3, 6, 4, 5))
    assert some.name("007bbfb7") == "007bbfb7|||t3|||0918273645"
    for name in ("007bbfb7|||t3|||0918273645", "007bbfb7_t3_0918273645"):
        assert Augmentation.of(name) == ("007bbfb7", some)
    for name in ("007bbfb7", "a_b", "a|||t9|||0918273645", "a|||t3|||0000000000"):
        assert Augmentation.of(name) == (name, Augmentation())


@pytest.mark.parametrize("text", ["+---+\n|12·|\n|34·|\n|·· |\n+---+", "12·34··· "])
def test_a_board_is_typed_as_it_is_drawn(text):
    assert (Arc(3).parse(text) == tokens_of(np.array([[1, 2], [3, 4]]), side=3)).all()


def arc(size, top, left):
    tokens = tokens_of((seeded(1, size).random((2, 3)) * 10).astype(int), top, left, size)
    return Case(Arc(size), tokens, tokens)


CASES = {"arc": lambda: arc(6, 0, 0), "moved arc": lambda: arc(5, 3, 2)}
test_every_reader_reads_alike_or_refuses = reading_test(CASES)


GRID = [[0, 1], [2, 3]]
ATTEMPTS = ("attempt_1", "attempt_2")
PAIR = {"input": GRID, "output": GRID[::-1]}
ASKED = {"a": {"train": [], "test": [{"input": GRID}]}}


@pytest.mark.parametrize(
    "grid",
    [[], [[]], [1, 2], None, [[0] * 30] * 31, [[0] * 31], [[0, 1], [2]], [[10]], [[-1]], [[1.7]], [[True]], [["1"]]],
)
@pytest.mark.parametrize("place", ["challenges", "solutions"])
def test_faulty_grids(tmp_path, refused, grid, place):
    pairs = {"train": [PAIR, {"input": GRID, "output": grid if place == "challenges" else GRID}], "test": [PAIR]}
    solutions = [grid if place == "solutions" else GRID]
    (tmp_path / "a_challenges.json").write_text(json.dumps({"abc": pairs}))
    (tmp_path / "a_solutions.json").write_text(json.dumps({"abc": solutions}))
    where = "abc, train, 1, output" if place == "challenges" else "abc, 0"
    words = ["import", "arc", tmp_path / "a_challenges.json", "--output-dir", tmp_path / "set"]
    refused(words, f"{tmp_path / f'a_{place}.json'}, {where}")


@pytest.mark.parametrize(("challenges", "solutions", "message"), [
    ({"a": {"train": [{"input": GRID}], "test": []}}, None, "a, train, 0, output (counted from 0): Field required"),
    ({"b": {"train": [PAIR], "test": []}}, None, "task b is for testing and has no test pair"),
    ([PAIR, {"input": GRID}], None, "a_challenges, train, 1, output (counted from 0): Field required"),
    (ASKED, {"a": [GRID, GRID]}, "task a: 2 solutions of 1 test pairs"),
    ("[" * 100_000, None, "not JSON"),
    ({}, None, "no task has a pair with an output, so the set would be empty"),
])  # fmt: skip
def test_faulty_tasks(tmp_path, refused, challenges, solutions, message):
    path = tmp_path / "a_challenges.json"
    path.write_text(challenges if isinstance(challenges, str) else json.dumps(challenges))
    if solutions is not None:
        (tmp_path / "a_solutions.json").write_text(json.dumps(solutions))
    refused(["import", "arc", path, "--split", "test", "--output-dir", tmp_path / "set"], message)


def written(folder, **tasks):
    """Tasks as the repositories of ARC-AGI keep them: a file each."""
    folder.mkdir(parents=True)
    for name, test in tasks.items():
        (folder / f"{name}.json").write_text(json.dumps({"train": [PAIR, PAIR], "test": test}))


@pytest.mark.parametrize("given", ["data", "data/training/*.json data/evaluation/*.json"])
def test_folders_of_tasks_say_the_split(made, tmp_path, monkeypatch, capsys, refused, given):
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "data/training", **{f"a{n}": [PAIR] for n in range(4)})
    asked = [[{"input": [[colour]], "output": [[colour + 1]]}] for colour in (4, 6)]
    written(tmp_path / "data/evaluation", b1=asked[0], b2=asked[1])
    (tmp_path / "data/training/0ca9ddb6.json").write_text(json.dumps([PAIR] * 5))
    (tmp_path / "data/metadata.json").write_text(json.dumps({"0ca9ddb6": {"n_verified": 5}}))
    sources = [path for word in given.split() for path in (sorted(tmp_path.glob(word)) if "*" in word else [word])]
    made("import arc --augmentations 0", *sources)
    said = capsys.readouterr().out
    for line in ("split train: .*0ca9ddb6.json to .*a3.json, 5 files\n", "split test: .*b1.json, .*b2.json\n"):
        assert re.search(line, said)
    assert json.loads((tmp_path / "set/test_puzzles.json").read_text()).keys() == {"b1", "b2"}
    assert [len(read_split(tmp_path / "set", split)[1].inputs) for split in ("train", "test")] == [5 + 4 * 3 + 2 * 2, 2]
    (tmp_path / "data/evaluation/a1.json").write_text((tmp_path / "data/training/a1.json").read_text())
    refused(["import", "arc", "data", "--output-dir", "other"], "task a1 of", "is also in another source; remove one")


def outputs_of(tasks):
    return {name: [pair["output"] for pair in task["test"]] for name, task in tasks.items()}


def official_score(submission, solutions):
    """ARC Prize: the share of test outputs, over all tasks, that one of the two attempts equals."""
    right = []
    assert submission.keys() == solutions.keys()
    for task, outputs in solutions.items():
        for attempts, output in zip(submission[task], outputs, strict=True):
            assert tuple(attempts) == ATTEMPTS
            for grid in attempts.values():
                assert 1 <= len(grid) <= 30
                assert {len(row) for row in grid} <= {len(grid[0])} - {0}
                assert all(type(colour) is int and 0 <= colour <= 9 for row in grid for colour in row)
            right.append(output in attempts.values())
    return sum(right) / len(right)


def test_a_competition_gives_no_solutions(made, tmp_path, capsys):
    made("import arc --augmentations 2", shutil.copy(ARC[1], tmp_path))
    assert "test pairs have no solution" in capsys.readouterr().err
    metadata, test = read_split(tmp_path / "set", "test")
    assert (test.labels == 1).all()
    tasks = tasks_asked(tmp_path / "set", read_identifiers(tmp_path / "set", metadata), test)
    assert {key for task in tasks.values() for pair in task["test"] for key in pair} == {"input"}


@pytest.fixture(scope="module")
def voters(tmp_path_factory):
    words = f"import arc {' '.join(ARC)} --augmentations 3 --size 8"
    return PuzzleData(make_set(words, tmp_path_factory.mktemp("sets") / "arc"), "test")


def test_augmented_copies_vote(voters, tmp_path):
    """A model that knows three of four copies' answers at the last step, and none before it."""
    model = small(voters.shape, puzzle_emb_len=1)
    labels = torch.where(voters.labels == -100, 0, voters.labels).long()
    numbers = voters.take(torch.arange(len(voters))).identifiers.tolist()
    names = read_identifiers(voters.directory, voters.metadata)
    last = {names[number].partition("|||")[0]: number for number in sorted(numbers)}  # of each task's four copies
    wrong = torch.tensor([number in last.values() for number in numbers])
    rows = {(number, *voters.inputs[i].tolist()): i for i, number in enumerate(numbers)}
    readout, encode = model.readout, model.encode

    def remember(batch):
        asked = zip(batch.identifiers.tolist(), batch.inputs.tolist(), strict=True)
        model.rows = [rows[number, *question] for number, question in asked]
        return encode(batch)

    def recite(state, context, step=None):
        said = labels[model.rows].clone()
        said[wrong[model.rows] if step == 4 else slice(None)] = 2
        logits = torch.nn.functional.one_hot(said, voters.shape.vocab_size).float()
        return readout(state, context, step)._replace(logits=logits)

    model.encode, model.readout = remember, recite
    results = read(model, voters, 4)
    assert [row["step"] for row in results["votes"]] == [3, 4]
    early, late = results["votes"]
    assert early["pass_at"] == {"1": 0.0, "2": 0.0}
    assert (late["pass_at"], late["unanswered"]) == ({"1": 1.0, "2": 1.0}, 0)
    assert results["exact_by_step"][-1] == pytest.approx(1 - wrong.float().mean().item())
    tasks = json.loads((voters.directory / "test_puzzles.json").read_text())
    asked = sum(len(task["test"]) for task in tasks.values())
    assert read(model, voters, 4, limit=1)["votes"][-1]["unanswered"] == asked - 1
    write_report(tmp_path, results)
    assert "pass@2" in (tmp_path / "report.html").read_text()
    assert official_score(json.loads((tmp_path / "submission.json").read_text()), outputs_of(tasks)) == 1
    assert "submission" not in json.loads((tmp_path / "results.json").read_text())
    assert not CONSUMERS[Votes](evaluator_of(model, PuzzleData(voters.directory, "train"), 4, 5))
