"""Decimation: which cell becomes a clue, what starts anew, and that it settles on one of several solutions."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from evaluators import read, shaken, small

from reason.config.overrides import override, read_config
from reason.data.puzzles import PuzzleData
from reason.errors import ConfigError
from reason.evaluation.config import EvaluationConfig, search_of
from reason.evaluation.evaluator import default_steps
from reason.extensions.decimation.rule import DECIDED, Decimation
from reason.models.base import Batch, Context, Readout, Reasoner, Shape
from reason.models.recursion import OneState


def chosen(logits, still):
    """The rule in words, for one puzzle in float64."""
    p = np.exp(logits - logits.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    base = p[still].mean(0) if still.any() else None
    best, cell = -np.inf, None
    for c in np.flatnonzero(still):
        gain = float((p[c] * np.log(p[c] / base)).sum())
        if p[c].max() < DECIDED and gain > best:
            best, cell = gain, int(c)
    return cell


def test_the_clue_is_the_one_that_the_rule_names():
    logits = torch.randn(300, 6, 4) * torch.rand(300, 1, 1) * 8
    still, against = torch.rand(300, 6) < 0.6, torch.rand(300) < 0.5
    rule = Decimation(1, torch.zeros_like(still, dtype=torch.int64), ~still, "softmax", lambda answers: against & False)
    new, token = rule.clues(logits, still, against)
    assert (new.sum(1) <= 1).all()
    assert torch.equal(token, torch.where(against[:, None], logits.argsort(-1)[..., -2], logits.argmax(-1)))
    want = [chosen(one.double().numpy(), open_.numpy()) for one, open_ in zip(logits, still, strict=True)]
    assert [int(row.int().argmax()) if row.any() else None for row in new] == want
    assert want.count(None) > 5  # puzzles all of whose cells are given or decided


class Pair(Reasoner):
    """Two cells that must hold the same of tokens 1 and 2; undecided, it takes 1 for the one and 2 for the other."""

    shape, dtype = Shape(seq_len=2, vocab_size=3), torch.float32

    def encode(self, batch):
        return Context(batch.inputs.float()[..., None])

    def initial_state(self, context):
        return OneState(torch.zeros(len(context.x), 1, 1))  # steps since the start

    def step(self, state, context):
        return OneState(state.z_h + 1)

    def readout(self, state, context, step=None):
        p = torch.tensor([[0.01, 0.59, 0.40], [0.01, 0.35, 0.64]]).repeat(len(state.z_h), 1, 1)
        known = context.x[..., 0].long().amax(1)  # either cell tells both
        p = torch.where(known.view(-1, 1, 1) > 0, torch.nn.functional.one_hot(known, 3)[:, None].float(), p)
        return Readout(p.clamp(min=1e-6).log(), None, None)


def test_a_clue_settles_on_one_of_two_solutions_and_starts_its_puzzle_anew():
    model, inputs = Pair(), torch.tensor([[0, 0], [1, 0]])
    batch = Batch(inputs, inputs, torch.zeros(2, dtype=torch.long))
    answers, taken = [], []
    rule = Decimation(2, inputs, inputs > 0, "softmax", lambda answers: answers[:, 0] == answers[:, 1])
    for record in rule.unroll(model, batch, 6):
        answers.append(record.answer.tolist())
        taken.append(record.state.z_h.flatten().tolist())
        assert torch.equal(record.batch.inputs, inputs)
    assert answers == [[[1, 2], [1, 1]]] * 2 + [[[2, 2], [1, 1]]] * 4  # the second cell, with 0.64, was surer
    assert taken == [[1, 1], [2, 2], [1, 2], [2, 2], [2, 2], [2, 2]]  # the state of a solved puzzle stays


class Wrong(Pair):
    """Three cells of tokens 1 and 2, whose clues it repeats: it takes all of them for 1, the first ones most surely."""

    shape = Shape(seq_len=3, vocab_size=3)

    def readout(self, state, context, step=None):
        first = torch.tensor([0.8, 0.7, 0.6]).expand(len(state.z_h), 3)
        p = torch.stack([torch.full_like(first, 1e-3), first, 1 - first - 1e-3], dim=-1)
        clues = context.x[..., 0].long()
        known = torch.nn.functional.one_hot(clues, 3).float().clamp(min=1e-6)
        return Readout(torch.where(clues[..., None] > 0, known, p).log(), None, None)


def test_failures_try_every_combination_of_clues():
    """The first puzzle is solved by 1 2 2, the second by the answer of the network, the third by none."""
    model, inputs = Wrong(), torch.zeros(3, 3, dtype=torch.long)
    right = torch.tensor([[1, 2, 2], [1, 1, 1], [0, 0, 0]])
    batch = Batch(inputs, inputs, torch.zeros(3, dtype=torch.long))
    rule = Decimation(1, inputs, inputs > 0, "softmax", lambda answers: (answers == right).all(1))
    answers = torch.stack([record.answer for record in rule.unroll(model, batch, 40)])
    combinations = [[1 + (n >> i & 1) for i in range(3)] for n in range(8)]
    ends = answers[3::4].transpose(0, 1).tolist()  # three clues, then the failure is seen
    assert ends[2][:8] == combinations
    assert ends[0] == combinations[:7] + [[1, 2, 2]] * 3
    assert (answers[:, 1] == 1).all()


def test_the_answers_of_a_pass_do_not_depend_on_the_batch(sudoku_4x4):
    data = PuzzleData(sudoku_4x4, "test")
    model = shaken(small(data.shape)).eval()
    plain = read(model, data, 6, 5)
    one, other = (read(model, data, 6, size, studies="decimation=2") for size in (5, 64))
    for name in ("exact_by_step", "valid_by_step", "held_by_step", "cell_by_step", "loss_by_step"):
        assert one[name] == pytest.approx(other[name], rel=1e-5)
    assert one["cell_by_step"][:2] == plain["cell_by_step"][:2]
    assert one["cell_by_step"][2:] != plain["cell_by_step"][2:]
    assert one["held_by_step"] == np.maximum.accumulate(one["held_by_step"]).tolist()
    assert (np.array(one["held_by_step"]) >= one["valid_by_step"]).all()
    assert "held_by_step" not in plain  # one solution, no clues on the way


def test_puzzles_with_several_solutions_have_it_by_themselves():
    shape = Shape(seq_len=9, vocab_size=6)
    for studies, several, every in (
        ((), True, 8), ((), False, None), ("decimation=3", False, 3), ("decimation=none", True, None),
    ):  # fmt: skip
        search = search_of(EvaluationConfig(studies=studies), SimpleNamespace(multiple_solutions=several), 8)
        assert (search and search.least) == (every and 16 * every)
        assert default_steps(8, shape, shape, search) == (16 if every is None else max(16, 16 * every))


def test_what_does_not_go_with_it_is_refused(half):
    pytest.importorskip("reason.extensions.studies")
    config = read_config(half / "config.json")
    with pytest.raises(ConfigError, match=r"evaluation\.studies=decimation needs no other study on unchanged puzzles"):
        override(config, {"evaluation.studies": "decimation=2,policies"})
    assert search_of(EvaluationConfig(studies="policies"), SimpleNamespace(multiple_solutions=True), 8) is None
    with pytest.raises(ConfigError, match="no known family"):
        search_of(EvaluationConfig(studies="decimation=2"), None, 8)
