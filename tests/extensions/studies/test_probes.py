"""The probes on maps whose dynamics are known, and on a real model against plain loops."""

import math

import pytest
import torch
from evaluators import random_batch, small
from losses.test_dynamics_terms import in_a_larger_maze

from reason.extensions.studies import probes as P
from reason.models.base import Context, Readout, Shape
from reason.models.mapped import Mapped
from reason.models.recursion import OneState
from reason.models.states import precise, residual, rows_of

PUZZLE = random_batch(1, 1, 2)
TURN = torch.tensor([[0, 0, 1], [1, 0, 0], [0, 1, 0]], dtype=torch.float64)


class Linear(Mapped):
    """z ← A z + x on (B, 1, n), read out by its sign: everything about it is known."""

    def __init__(self, matrix, shift=0.0):
        super().__init__()
        self.matrix, self.shift = torch.nn.Parameter(matrix), shift
        self.shape, self.dtype = Shape(seq_len=1, vocab_size=2), matrix.dtype

    def encode(self, batch):
        return Context(torch.full((len(batch.inputs), 1, len(self.matrix)), self.shift, dtype=self.dtype))

    def initial_state(self, context):
        return OneState(torch.ones_like(context.x))

    def step(self, state, context):
        return OneState(state.z_h @ self.matrix.T + context.x)

    def readout(self, state, context, step=None):
        return Readout(torch.stack([-state.z_h[..., 0], state.z_h[..., 0]], dim=-1))

    def map(self, state, context, kind):
        return lambda z: self.step(OneState(z), context).z_h, state.z_h


def diagonal(*values, shift=0.0):
    return Linear(torch.diag(torch.tensor(values, dtype=torch.float64)), shift)


def begun(model, batch):
    x = model.encode(batch)
    return model, model.initial_state(x), x


def test_radius_trace_and_return_of_a_known_map():
    matrix = torch.randn(20, 20, dtype=torch.float64)
    start = begun(Linear(matrix), PUZZLE)
    assert P.radius(*start) == pytest.approx(torch.linalg.eigvals(matrix).abs().max().item(), rel=1e-3)
    assert math.isnan(P.radius(*begun(Linear(matrix * torch.inf), PUZZLE)))
    assert P.trace(*begun(diagonal(-0.9, 0.5, 0.2), PUZZLE)) == pytest.approx(-0.2 / 3)  # of a diagonal: exact
    model, state, x = begun(diagonal(0.5, 0.5, 0.5), PUZZLE)
    assert P.perturb_and_return(model, state, x, steps=3) == pytest.approx([1, 0.5, 0.25, 0.125])
    pushed = P.pushed(state, P.random_direction(state, x), 0.2)
    assert residual(state, pushed).item() == pytest.approx(0.2)


@pytest.mark.parametrize("values", [(0.9, 0.1), (1.5, 1.0), (-1.2, 0.3)])
def test_the_growth_rate_is_the_logarithm_of_the_radius(values):
    rate = P.growth_rate(*begun(diagonal(*values), PUZZLE), steps=200)
    assert rate == pytest.approx(math.log(abs(values[0])), abs=0.03)


@pytest.mark.parametrize("states", [1, 2])
def test_the_oscillation_is_that_of_the_low_states_of_the_path(states):
    model = precise(small(Shape(seq_len=3, vocab_size=4), hidden_size=4, h_cycles=2, l_cycles=2, states=states, dt=0.5))
    model, state, x = begun(model, random_batch(1, 3, 4))
    with torch.no_grad():
        path = list(model.path(state, x))
    low = [state[-1], *(path[i][-1] for i in range(6) if states == 1 or i % 3 < 2)]
    expected = [float((c - a).norm() / (b - a).norm()) for a, b, c in zip(low, low[1:], low[2:], strict=False)]
    assert P.oscillation(model, state, x) == pytest.approx(expected)


@pytest.mark.parametrize(("model", "start", "end"), [
    (diagonal(0.5, 0.1, shift=1.0), (1.0, 1.0), "right fixed point"),
    (diagonal(-1.0, 0.5, shift=1.0), (1.0, 1.0), "cycle of 2"),
    (Linear(TURN), (1.0, -1.0, 0.5), "cycle of 3"),
    (diagonal(1.1, 1.1, shift=1.0), (1.0, 1.0), "drift"),
    (diagonal(1e30, 0.5, shift=1.0), (1.0, 1.0), "divergence"),
])  # fmt: skip
def test_every_end_has_its_name(model, start, end):
    context, state, points = model.encode(PUZZLE), OneState(torch.tensor([[start]], dtype=torch.float64)), []
    for _ in range(31):
        points.append(state.z_h.flatten())
        state = model.step(state, context)
    path = P.trajectory(torch.stack(points).detach(), solved=True)
    assert path["end"] == end
    assert path["norm"][0] == pytest.approx(points[0].norm().item())
    assert path["residual"][0] == pytest.approx(((points[1] - points[0]).norm() / points[0].norm()).item())
    assert (len(path["residual"]), len(path["norm"])) == (30, 31)
    assert P.end_of(torch.ones(2, 3), solved=False) == "wrong fixed point"


def test_cells_beyond_the_edge_do_not_count():
    found = []
    for seen in in_a_larger_maze():
        one = slice(0, 1)
        at = seen.model, rows_of(seen.states[-1], one), seen.context.rows(one)
        found.append(P.radius(*at))
        assert abs(P.trace(*at)) < 10
        assert P.growth_rate(*at, 3) < 3
    assert found[1] == pytest.approx(found[0], rel=1e-3)
