"""JSRR, L2 and the norm penalty: against full Jacobians and plain formulas, in the limits that theory knows."""

from dataclasses import replace

import pytest
import torch
from evaluators import random_batch, shaken
from reference import full_jacobian

from reason.extensions.looped.jsrr import JsrrConfig, jsrr_loss, l2_loss, norm_penalty
from reason.extensions.looped.model import LoopedConfig, LoopedState
from reason.losses import loss_config
from reason.models import RecursiveConfig, build_model
from reason.models.base import Context, Shape
from reason.models.recursive import RecursiveState
from reason.models.states import normal_like
from reason.rollout import SupervisionStep, first_carry, supervise
from reason.settings.rollout import RolloutConfig

SHAPE = Shape(seq_len=3, vocab_size=5)
LOOPED = LoopedConfig(hidden_size=4, num_heads=1, dropout=0.0, norm_placement="post-sandwich")
TRM = RecursiveConfig(
    hidden_size=4, num_heads=1, expansion=1, puzzle_emb_len=1, h_cycles=2, l_cycles=2, gradient="all-cycles"
)


class LinearMap:
    """Stands where a model does: z ↦ A z for every row."""

    def __init__(self, matrix):
        self.matrix = matrix

    def map(self, state, context, kind):
        return lambda z: z @ self.matrix.T, state.z

    map_inside = map


def linear(matrix, rows=1):
    z = torch.randn(rows, 1, len(matrix), dtype=torch.float64)
    active = torch.ones(rows, dtype=torch.bool)
    return SupervisionStep(LinearMap(matrix), None, Context(z), (LoopedState(z),), (), active, 1 * active, ~active)


def unrolled(config, loops=2, rows=3):
    model = shaken(build_model(config, SHAPE).double())
    model.dtype = torch.float64
    batch = random_batch(rows, 3, 5)
    rollout = RolloutConfig(halting="none", supervision_steps=1)
    return supervise(model, first_carry(model, batch), lambda: batch, rollout, loops)[1]


def first_direction(z):
    v = normal_like(z).flatten(1)
    return v / v.norm(dim=1, keepdim=True)


@pytest.mark.parametrize("config", [LOOPED, TRM])
def test_products_with_the_full_jacobian(config):
    """K = 1 and K = 3, straight from Algorithm 1, with a row that does not count."""
    seen = unrolled(config, loops=2 if config is LOOPED else 1)
    seen.active[1] = False
    f, z = seen.model.map(seen.states[-1], seen.context, "cycle")
    full = full_jacobian(f, z.detach()).detach()
    for iterations in (1, 3):
        torch.manual_seed(5)
        got = jsrr_loss(seen, None, JsrrConfig(iterations=iterations))
        torch.manual_seed(5)
        v = first_direction(z.detach())
        for _ in range(iterations):
            j = torch.einsum("bij,bj->bi", full, v)
            v = j / j.norm(dim=1, keepdim=True)
        expected = (j.norm(dim=1) ** 2 * seen.active).mean()
        torch.testing.assert_close(got.double(), expected, rtol=1e-5, atol=1e-8)


def test_many_products_find_a_real_dominant_eigenvalue_and_one_estimates_the_frobenius_norm():
    basis = torch.linalg.qr(torch.randn(4, 4, dtype=torch.float64))[0]
    matrix = basis @ torch.diag(torch.tensor([-1.3, 0.9, 0.5, 0.1], dtype=torch.float64)) @ basis.T
    assert jsrr_loss(linear(matrix), None, JsrrConfig(iterations=60)).item() == pytest.approx(1.3**2)
    one = jsrr_loss(linear(matrix, rows=20_000), None, JsrrConfig(iterations=1)).item()
    assert one == pytest.approx(matrix.square().sum().item() / 4, rel=0.03)
    assert jsrr_loss(linear(0 * matrix), None, JsrrConfig(iterations=3)).item() == 0


def test_the_gradient_is_that_of_the_formula():
    """Of K = 2 with v as it stands before the last product, by finite differences of one weight."""
    seen = unrolled(LOOPED, rows=1)
    weight = seen.model.block.blocks[0].mlp.up.weight
    f, z = seen.model.map(LoopedState(seen.states[-1].z.detach()), seen.context, "cycle")
    torch.manual_seed(3)
    (got,) = torch.autograd.grad(jsrr_loss(seen, None, JsrrConfig(iterations=2)).double(), weight)
    torch.manual_seed(3)
    v = torch.einsum("bij,bj->bi", full_jacobian(f, z).detach(), first_direction(z))
    v = v / v.norm()

    def loss(value):
        with torch.no_grad():
            weight[0, 0] = value
            return torch.einsum("bij,bj->bi", full_jacobian(f, z), v).square().sum().item()

    start, h = weight[0, 0].item(), 1e-5
    assert got[0, 0].item() == pytest.approx((loss(start + h) - loss(start - h)) / (2 * h), rel=1e-4)


def test_the_convex_form_takes_its_weight_from_lm():
    weights = {"lm": 2.0, "q_halt": 0.0, "jsrr": 0.5}
    late = {"jsrr": {"points": ((0, 0), (0.4, 0.5), (0.8, 1))}}
    convex = loss_config()(weights=weights, schedules=late)
    assert convex.weights_at(0, 10) == {"lm": 2.0}
    assert convex.weights_at(4, 10) == {"lm": 1.5, "jsrr": 0.25}
    assert convex.weights_at(8, 10) == {"lm": 1.0, "jsrr": 0.5}
    with pytest.raises(ValueError, match=r"type loss\.weights\.jsrr=0\.1"):
        loss_config()(weights={"jsrr": 1.0})


def test_l2_is_the_mean_move_of_a_cell_in_the_last_loop_and_the_norm_penalty_the_mean_square():
    seen = unrolled(LOOPED, loops=3)
    seen.active[2] = False
    a, b = (state.z for state in seen.states[-2:])
    moves = [(b - a)[row, cell].norm().item() * bool(seen.active[row]) for row in range(3) for cell in range(3)]
    assert l2_loss(seen).item() == pytest.approx(sum(moves) / 9, rel=1e-5)
    states = tuple(LoopedState(torch.randn(3, 5, 7)) for _ in range(4))
    active = torch.tensor([True, True, False])
    seen = SupervisionStep(None, None, None, states, (), active, 1 * active, active)
    expected = torch.stack([state.z for state in states]).square().mean((0, 2, 3))[:2].sum() / 3
    torch.testing.assert_close(norm_penalty(seen), expected)
    pair = RecursiveState(torch.ones(3, 5, 7), torch.full((3, 5, 7), 3.0))
    assert norm_penalty(replace(seen, states=(pair,))).item() == pytest.approx((1 + 9) / 2 * 2 / 3)
