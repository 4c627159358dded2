"""More than one try: the first is the plain pass, choices against loops, symmetries undone."""

import numpy as np
import pytest
import torch
from evaluators import evaluator_of, small
from test_evaluator import columns

from datasets_gen.maze.paths import solve
from reason.data.puzzles import PuzzleData
from reason.extensions.studies import restarts as R
from reason.models.base import Context, Readout


def tries_at(model, data, steps, count, vary, batch_size):
    seen = columns(model, data, batch_size, steps, studies=f"restarts={count}:{vary}")
    return R.restarts_of(seen, vary), seen


@pytest.mark.parametrize("vary", ["initial", "symmetry", "noise"])
def test_the_first_try_is_the_plain_pass(vary, sudoku_4x4):
    data = PuzzleData(sudoku_4x4, "test")
    model = small(data.shape).eval()
    single, _ = tries_at(model, data, 3, 1, vary, 5)
    several, seen = tries_at(model, data, 3, 3, vary, 5)
    for tries in (single, several):
        for name, plain in {"right": "exact", "valid": "valid", "q": "q"}.items():
            assert (tries[name][0] == seen[plain][-1]).all()
        assert (tries["residual"][0] == -seen["residual"][-1]).all()
    assert (several["residual"][[0, 2]] != several["residual"][1]).any(1).all()
    again, _ = tries_at(model, data, 3, 3, vary, 5)
    assert (again["residual"] == several["residual"]).all()
    for choice in R.WAYS:
        assert R.restart_table(single)[0][choice] == pytest.approx(seen["exact"][-1].mean())


def answers_with(model, answer):
    """Let the model say what `answer` makes of the questions."""

    def encode(batch):
        model.asked = batch.inputs
        return Context(torch.zeros(*batch.inputs.shape, 8))

    def readout(state, context, step=None):
        return Readout(torch.nn.functional.one_hot(answer(model.asked), model.shape.vocab_size).float())

    model.encode, model.readout = encode, readout


def test_a_model_that_knows_symmetries_answers_the_same(sudoku_4x4):
    data = PuzzleData(sudoku_4x4, "test")
    data.inputs = data.labels.clone()
    model = small(data.shape).eval()
    answers_with(model, lambda asked: asked)
    tries, _ = tries_at(model, data, 1, 4, "symmetry", 6)
    assert tries["right"].all()
    assert tries["valid"].all()
    assert "q" not in tries
    assert (tries["answers"] == tries["answers"][0]).all()


def test_choices_against_a_loop():
    rng = np.random.default_rng(0)
    answers = rng.integers(0, 3, (5, 40)).astype(np.uint64)
    right = answers == 1
    tries = {"right": right, "valid": right, "answers": answers}
    tries |= {"q": rng.normal(size=(5, 40)), "residual": rng.random((5, 40))}
    picks = R.choices(tries)
    for n in range(40):
        votes = [list(answers[:, n]).count(a) for a in answers[:, n]]
        assert picks["majority"][n] == votes.index(max(votes))
        assert picks["q"][n] == list(tries["q"][:, n]).index(max(tries["q"][:, n]))
        assert picks["residual"][n] == list(tries["residual"][:, n]).index(min(tries["residual"][:, n]))
    table = R.restart_table(tries)
    assert [row["restarts"] for row in table] == [1, 2, 4, 5]
    assert table[-1]["verified"] == table[-1]["any"] == right.any(0).mean()
    assert table[0]["majority"] == table[0]["any"] == right[0].mean()
    diverged = {name: np.array([[low, np.nan], [np.nan, low]]) for name, low in (("q", -3), ("residual", 0.5))}
    picks = R.choices({"answers": answers[:2, :2], **diverged})
    assert picks["q"].tolist() == picks["residual"].tolist() == [0, 1]


def test_turned_mazes_are_judged_by_the_rules(made):
    """A reader that marks the path tie-broken as it sees it: right under every turn, though seldom the label."""
    data = PuzzleData(made("maze --size 5 --min-path 4 --wall-density 0.1 --train 0 --test 12 --seed 1"), "test")
    model = small(data.shape).eval()
    answers_with(model, lambda asked: torch.from_numpy(solve(asked.numpy().astype(np.uint8))[0].astype(np.int64)))
    tries, _ = tries_at(model, data, 1, 8, "symmetry", 5)
    assert tries["right"].all()
    assert len(np.unique(tries["answers"], axis=0)) > 1
    consumer = R.Restarts(evaluator_of(model, data, 1, 5, studies="restarts=8:symmetry"))
    kept = consumer.result({f"symmetry/{name}": values for name, values in tries.items()})["restarts"]["symmetry"]
    assert kept["what"].endswith("right by the rules")
    assert len(tries_at(model, data, 1, 12, "symmetry", 5)[0]["right"]) == 8  # a ninth would be the first again
    plain, _ = tries_at(model, data, 1, 2, "noise", 5)
    assert (plain["right"] == plain["valid"]).all()  # as it stands, the tie-break is the label's
