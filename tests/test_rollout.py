"""Carry and halting, simulated row by row with a model whose every move is known."""

from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from reason.models.base import Batch, Context, Readout, Reasoner, Shape
from reason.rollout import first_carry, supervise, unroll
from reason.settings.rollout import RolloutConfig


class Count(NamedTuple):
    z: Tensor  # (B, 1, 1): the puzzle's first token + 1000 per step taken


class Counter(Reasoner):
    """z ← wz + 1000 from z = w·token; halts by itself when its steps exceed its patience."""

    shape, dtype = Shape(seq_len=1, vocab_size=2), torch.float32
    patience: Tensor | float = 1e9

    def __init__(self, weight=1.0):
        super().__init__()
        self.weight = weight

    def encode(self, batch):
        return Context(torch.stack([batch.inputs[:, :1], batch.identifiers[:, None]], dim=-1).float())  # (B, 1, 2)

    def initial_state(self, context):
        return Count(self.weight * context.x[:, :, :1])

    def step(self, state, context):
        return Count(self.weight * state.z + 1000)

    def readout(self, state, context, step=None):
        steps = torch.div(state.z, 1000, rounding_mode="floor").flatten()
        return Readout(torch.zeros(len(steps), 1, 2), steps - self.patience, torch.zeros_like(steps))


class Stream:
    """Batches of puzzles numbered 1, 2, 3, … in the order they are drawn."""

    def __init__(self, rows):
        self.rows, self.next = rows, 1

    def __call__(self):
        numbers = torch.arange(self.next, self.next + self.rows)
        self.next += self.rows
        return Batch(numbers[:, None], numbers[:, None], numbers)


def play(config, steps, patience, rows=3):
    """The carry after each step, and the step; row r wants to halt when its step count exceeds patience[r]."""
    model, stream = Counter(), Stream(rows)
    model.patience = torch.tensor(patience)
    carry = first_carry(model, stream(), config)
    played = []
    for index in range(steps):
        played.append(supervise(model, carry, stream, config, new_loader_batch=index % config.accum_steps == 0))
        carry, _ = played[-1]
    return zip(*played, strict=True)


def first_step(model, rows, config, loops=1):
    stream = Stream(rows)
    return supervise(model, first_carry(model, stream()), stream, config, loops)


def test_staggered_rows_halt_one_after_the_other_and_then_take_all_steps():
    config = RolloutConfig(supervision_steps=3, halting="none", staggered=True)
    _, seen = play(config, 7, [0.0] * 4, rows=4)  # all want to halt, and none may
    steps = [[1, 2, 3, 1], [2, 3, 1, 2], [3, 1, 2, 3]]
    assert [step.steps.tolist() for step in seen] == [*steps, *steps, steps[0]]
    assert first_carry(Counter(), Stream(2)(), config, first=2).steps.tolist() == [2, 0]  # rows 2 and 3, in process 1


def original_rows(limit, patience, steps, rows=3):
    """HRM's and TRM's loop, one row at a time: (puzzle, m, halted) after each step.

    A halted row takes the row of the batch that the loader brings for this step.
    """
    state = [(0, 0, True)] * rows
    history = []
    for index in range(steps):
        batch = [rows * (index + 1) + r + 1 for r in range(rows)]  # the first batch only shapes the carry
        now = []
        for r in range(rows):
            puzzle, m, halted = state[r]
            puzzle, m = (batch[r], 1) if halted else (puzzle, m + 1)
            now.append((puzzle, m, m >= limit or m > patience[r]))
        history.append(now)
        state = now
    return history


@pytest.mark.parametrize("patience", [[1e9] * 3, [0, 1, 2], [0, 1e9, 1], [2, 2, 0]])
def test_persistent_is_the_original_codes_behaviour(patience):
    config = RolloutConfig(supervision_steps=4, halt_exploration_prob=0)
    for carry, seen, expected in zip(*play(config, 12, patience), original_rows(4, patience, 12), strict=True):
        got = list(zip(carry.batch.inputs.flatten().tolist(), seen.steps.tolist(), carry.halted.tolist(), strict=True))
        assert got == expected
        assert carry.steps.tolist() == [0 if halted else m for _, m, halted in expected]
        # the state belongs to that puzzle and to that many steps: a halted row started again from its own beginning
        assert carry.state.z.flatten().tolist() == [puzzle + 1000 * m for puzzle, m, _ in expected]


def test_what_each_carry_keeps_and_draws_anew():
    config = RolloutConfig(supervision_steps=8, accum_steps=3, carry="same-batch", halt_exploration_prob=0)
    carries, _ = play(config, 6, [0, 1, 1e9])
    puzzles = [carry.batch.inputs.flatten().tolist() for carry in carries]
    # row 0 halts every step, row 1 every second, row 2 never; loader batches are 4,5,6 and 7,8,9
    assert puzzles == [[4, 5, 6], [4, 5, 6], [4, 5, 6], [7, 5, 6], [7, 8, 6], [7, 8, 6]]
    config = RolloutConfig(supervision_steps=3, accum_steps=3, carry="handover", halt_exploration_prob=0)
    carries, seen = play(config, 6, [0, 1, 1e9])
    assert [carry.batch.inputs.flatten().tolist() for carry in carries] == [[4, 5, 6]] * 3 + [[7, 8, 9]] * 3
    assert [step.active.tolist() for step in seen] == [[True] * 3, [False, True, True], [False, False, True]] * 2
    assert seen[3].steps.tolist() == [1, 1, 1]
    # a row that waits takes its first step again and again: neither its m nor its state grows
    assert seen[5].steps.tolist() == [1, 1, 3]
    assert carries[5].state.z.flatten().tolist() == [7 + 1000, 8 + 1000, 9 + 3000]
    config = RolloutConfig(supervision_steps=3, carry="handover", halt_exploration_prob=0)
    carries, seen = play(config, 4, [0, 1e9, 1e9])
    assert [carry.batch.inputs.flatten().tolist() for carry in carries] == [[n, n + 1, n + 2] for n in (4, 7, 10, 13)]
    assert seen[2].steps.tolist() == [1, 3, 3]
    # row 0 halts each step and starts from its new puzzle; row 1 still carries puzzle 5's state, until m = 3
    assert carries[2].state.z.flatten().tolist() == [10 + 1000, 5 + 3000, 6 + 3000]
    assert carries[3].state.z.flatten().tolist() == [13 + 1000, 14 + 1000, 15 + 1000]
    assert all(step.active.all() for step in seen)


@pytest.mark.parametrize("epsilon", [1.0, 0.5])
def test_exploration_demands_a_uniform_least_number_of_steps(epsilon):
    """All rows want to halt at once; a row at m does so with probability 1 − ε + ε(m − 1)/(N − 1)."""
    rows, limit = 20_000, 5
    config = RolloutConfig(supervision_steps=limit, halt_exploration_prob=epsilon)
    carries, _ = play(config, 3, [0.0] * rows, rows=rows)
    alive = torch.ones(rows, dtype=torch.bool)
    for m, carry in enumerate(carries, start=1):
        share = carry.halted[alive].float().mean().item()
        expected = 1 - epsilon + epsilon * (m - 1) / (limit - 1)
        assert share == pytest.approx(expected, abs=4 * (0.25 / alive.sum().item()) ** 0.5)
        alive &= ~carry.halted


@pytest.mark.parametrize(("loops", "patience", "ahead"), [
    (1, [0.0, 1.0, 1e9], [2, 1, 2 - 1e9]),  # halt − continue = 1 for row 0, 0 for row 1
    (4, [3.5, 4.5], [4.5, 3.5]),
])  # fmt: skip
def test_q_learning_compares_halt_with_continue(loops, patience, ahead):
    """A supervision step of several loops halts by the last one, and looks as many loops ahead."""
    several = {"count": loops, "supervision": "per-loop"}
    config = RolloutConfig(supervision_steps=9, halt_exploration_prob=0, halting="q-learning", loops=several)
    model = Counter()
    model.patience = torch.tensor(patience)
    carry, seen = first_step(model, len(patience), config, loops)
    assert carry.halted.tolist() == [True, False, False][: len(patience)]
    assert seen.readouts[-1].q_halt.tolist() == pytest.approx([loops - each for each in patience])
    assert seen.next_readout.q_halt.tolist() == pytest.approx(ahead)


def test_the_carry_holds_no_gradient():
    """The gradient reaches through this backward's loops, and stops where the supervision step began."""
    model, stream = Counter(torch.nn.Parameter(torch.ones(()))), Stream(2)
    config = RolloutConfig(supervision_steps=9, halting="q-learning", halt_exploration_prob=0)
    carry = first_carry(model, stream())
    assert not carry.state.z.requires_grad
    for index in range(2):
        carry, seen = supervise(model, carry, stream, config, loops=2, new_loader_batch=index % config.accum_steps == 0)
        assert not carry.state.z.requires_grad
        assert not seen.next_readout.q_halt.requires_grad
        assert seen.states[-1].z.requires_grad
    (reach,) = torch.autograd.grad(seen.states[-1].z.sum(), model.weight)
    start = seen.before.z.detach().double().sum()  # w²z + 1000w: the weight before them is out of reach
    assert reach.item() == pytest.approx(2 * start.item() + 2 * 1000)


def test_evaluation_runs_all_steps_from_the_initial_state_and_every_readout_knows_its_step():
    batch = Stream(3)()
    states = [record.state.z.flatten().tolist() for record in unroll(Counter(), batch, 3)]
    assert states == [[1001, 1002, 1003], [2001, 2002, 2003], [3001, 3002, 3003]]
    start = Count(torch.full((3, 1, 1), 7.0))
    pairs = [(r.before.z[0].item(), r.state.z[0].item()) for r in unroll(Counter(), batch, 2, start=lambda _: start)]
    assert pairs == [(7, 1007), (1007, 2007)]
    model, read = Counter(), []
    plain = model.readout
    model.readout = lambda state, context, step=None: (read.append(step), plain(state, context))[1]
    assert all(record.readout for record in unroll(model, Stream(2)(), 4))
    loops = {"count": 4, "supervision": "per-loop"}
    first_step(model, 2, RolloutConfig(supervision_steps=1, halting="none", loops=loops), loops=4)
    assert read == [1, 2, 3, 4] * 2
