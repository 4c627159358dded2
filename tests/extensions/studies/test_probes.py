"""The probes on maps whose dynamics are known, and on a real model against plain loops."""

import math
from collections.abc import Callable
from typing import NamedTuple

import pytest
import torch
from evaluators import small
from losses.test_dynamics_terms import in_a_larger_maze
from torch import Tensor

from reason.context import Context
from reason.evaluation.states import norm, precise, residual
from reason.extensions.studies import probes as P
from reason.extensions.studies.probes import plane, trajectories
from reason.models.base import Batch, Readout, Reasoner, Shape
from reason.rollout import unroll


class One(NamedTuple):
    z: Tensor


class Linear(Reasoner):
    """z ← A z + x on (B, 1, n), read out by its sign: everything about it is known."""

    def __init__(self, matrix: Tensor, shift: float = 0.0):
        super().__init__()
        self.matrix, self.shift = torch.nn.Parameter(matrix), shift
        self.shape, self.dtype = Shape(seq_len=1, vocab_size=2), matrix.dtype

    def encode(self, batch: Batch) -> Context:
        return Context(torch.full((len(batch.inputs), 1, len(self.matrix)), self.shift, dtype=self.dtype))

    def initial_state(self, context: Context) -> One:
        return One(torch.ones_like(context.x))

    def step(self, state: One, context: Context) -> One:
        return One(state.z @ self.matrix.T + context.x)

    def readout(self, state: One, context: Context, step: int | None = None) -> Readout:
        return Readout(torch.stack([-state.z[..., 0], state.z[..., 0]], dim=-1))

    def map(self, state: One, context: Context, kind: str) -> tuple[Callable[[Tensor], Tensor], Tensor]:
        return lambda z: self.step(One(z), context).z, state.z


def diagonal(*values: float, shift: float = 0.0) -> Linear:
    return Linear(torch.diag(torch.tensor(values, dtype=torch.float64)), shift)


def puzzles(rows: int, cells: int = 1, tokens: int = 2) -> Batch:
    inputs = torch.randint(0, tokens, (rows, cells))
    return Batch(inputs, torch.ones_like(inputs), torch.zeros(rows, dtype=torch.long))


def recursive(**changes: object) -> Reasoner:
    shape = Shape(seq_len=3, vocab_size=4)
    return precise(small(shape, hidden_size=4, h_cycles=2, l_cycles=2, **changes))


def begun(model: Reasoner, batch: Batch) -> tuple[Reasoner, tuple, Context]:
    x = model.encode(batch)
    return model, model.initial_state(x), x


def test_norm_and_residual_by_hand() -> None:
    model = diagonal(0.5, 0.5)
    (record,) = unroll(model, puzzles(3), 1)
    start, after = record.before, record.state
    assert norm(start).tolist() == pytest.approx([math.sqrt(2)] * 3)
    assert norm(after).tolist() == pytest.approx([math.sqrt(0.5)] * 3)
    assert residual(start, after).tolist() == pytest.approx([0.5] * 3)


def test_radius_and_trace_of_a_known_map() -> None:
    start = begun(diagonal(-0.9, 0.5, 0.2), puzzles(2))
    assert P.radius(*start) == pytest.approx([0.9, 0.9])
    assert P.trace(*start) == pytest.approx([-0.2 / 3] * 2)


def test_a_push_returns_as_fast_as_the_map_contracts() -> None:
    model, state, x = begun(diagonal(0.5, 0.5, 0.5), puzzles(4))
    back = P.perturb_and_return(model, state, x, steps=3, size=0.2)
    torch.testing.assert_close(back, 0.5 ** torch.arange(4.0).double()[:, None].expand(4, 4))
    pushed = P.perturbed(state, 0.2)
    torch.testing.assert_close(residual(state, pushed), torch.full((4,), 0.2).double())


@pytest.mark.parametrize("values", [(0.9, 0.1), (1.5, 1.0), (-1.2, 0.3)])
def test_the_growth_rate_is_the_logarithm_of_the_radius(values: tuple[float, float]) -> None:
    rate = P.growth_rate(*begun(diagonal(*values), puzzles(3)), steps=200)
    assert rate.tolist() == pytest.approx([math.log(abs(values[0]))] * 3, abs=0.03)


def test_a_constant_map_forgets_a_push_at_once_without_nan() -> None:
    assert P.growth_rate(*begun(diagonal(0.0, 0.0, shift=1.0), puzzles(1)), steps=3).item() < -20


@pytest.mark.parametrize("states", [1, 2])
@pytest.mark.parametrize("dt", [1.0, 0.5])
def test_the_path_is_the_step(states: int, dt: float) -> None:
    """The path ends where `step` ends, one state per network call; the oscillation is that of its low states."""
    model, state, x = begun(recursive(states=states, dt=dt), puzzles(2, 3, 4))
    with torch.no_grad():
        path = list(model.path(state, x))
        assert len(path) == 2 * (2 + 1)
        for a, b in zip(path[-1], model.step(state, x), strict=True):
            assert torch.equal(a, b)
    low = [state.z_l, *(path[i].z_l for i in range(6) if states == 1 or i % 3 < 2)]
    expected = [
        [float((low[i + 2] - low[i])[row].norm() / (low[i + 1] - low[i])[row].norm()) for row in range(2)]
        for i in range(len(low) - 2)
    ]
    assert P.oscillation(model, state, x).tolist() == [pytest.approx(row) for row in expected]


def test_oscillation_of_a_jump_and_of_a_walk() -> None:
    class Twice(Linear):
        def path(self, state: One, x: Tensor):
            for _ in range(3):
                state = self.step(state, x)
                yield state

    for value, shift, ratio in ((-1.0, 0.0, 0.0), (1.0, 1.0, 2.0)):
        start = begun(Twice(torch.tensor([[value]], dtype=torch.float64), shift), puzzles(1))
        assert P.oscillation(*start).flatten().tolist() == pytest.approx([ratio] * 2)


def test_a_model_of_one_call_has_no_oscillation_inside_a_step() -> None:
    assert P.oscillation(*begun(diagonal(0.5), puzzles(2))).shape == (0, 2)


@pytest.mark.parametrize(
    ("values", "end"),
    [
        ((0.5, 0.1), "right fixed point"),
        ((-1.0, 0.5), "cycle of 2"),
        ((1.1, 1.1), "drift"),
        ((1e30, 0.5), "divergence"),
    ],
)
def test_every_end_has_its_name(values: tuple[float, float], end: str) -> None:
    found = trajectories(diagonal(*values, shift=1.0), puzzles(2), [7, 9], steps=30)
    assert [(t.example, t.end) for t in found] == [(7, end), (9, end)]
    assert len(found[0].residual) == 30
    assert len(found[0].norm) == len(found[0].plane) == 31


def test_a_cycle_of_three_and_a_wrong_fixed_point() -> None:
    turn = torch.tensor([[0, 0, 1], [1, 0, 0], [0, 1, 0]], dtype=torch.float64)
    model = Linear(turn)
    model.initial_state = lambda context: One(context.x + torch.tensor([1.0, -1.0, 0.5]))  # type: ignore[method-assign]
    assert trajectories(model, puzzles(1), [0], steps=12)[0].end == "cycle of 3"
    batch = puzzles(1)._replace(labels=torch.zeros(1, 1, dtype=torch.long))
    found = trajectories(diagonal(1.0), batch, [0], steps=1)[0]
    assert (found.end, found.solved) == ("wrong fixed point", False)


def test_chunks_of_rows_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    model, batch = recursive(), puzzles(5, 3, 4)
    whole = trajectories(model, batch, list(range(5)), steps=4)
    monkeypatch.setattr("reason.extensions.studies.probes.AT_ONCE", 1)
    single = trajectories(model, batch, list(range(5)), steps=4)
    for a, b in zip(whole, single, strict=True):
        assert (a.example, a.end, a.solved) == (b.example, b.end, b.solved)
        assert a.residual == pytest.approx(b.residual)


def test_the_plane_holds_the_principal_components() -> None:
    path = torch.randn(2, 6, 40, dtype=torch.float64)
    coordinates, shares = plane(path)
    for row in range(2):
        centred = path[row] - path[row].mean(0)
        u, s, _ = torch.linalg.svd(centred, full_matrices=False)
        assert shares[row].tolist() == pytest.approx((s[:2] ** 2 / (s**2).sum()).tolist())
        torch.testing.assert_close(coordinates[row].abs(), (u * s)[:, :2].abs())


def test_a_row_that_never_moves_has_a_plane() -> None:
    coordinates, shares = plane(torch.ones(1, 3, 4))
    assert coordinates.abs().sum() == shares.sum() == 0


def test_cells_beyond_the_edge_do_not_count() -> None:
    """A maze has the same spectral radius inside a larger walled one."""
    found = []
    for seen in in_a_larger_maze():
        at = seen.model, seen.states[-1], seen.context
        found.append(P.radius(*at))
        assert max(map(abs, P.trace(*at))) < 10
        assert P.growth_rate(*at, 3).max() < 3
    assert found[1] == pytest.approx(found[0], rel=1e-3)
