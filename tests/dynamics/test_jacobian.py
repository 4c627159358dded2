"""Products against autograd's full Jacobian, estimates against their theory."""

import math

import numpy as np
import pytest
import torch
from evaluators import random_batch, small
from reference import full_jacobian

from reason.dynamics import jacobian as J
from reason.models.base import Shape


def smooth_map(size=6):
    weight = torch.randn(size, size, dtype=torch.float64) / math.sqrt(size)
    return lambda z: torch.tanh(z @ weight.T) + 0.1 * z**2, torch.randn(3, size, dtype=torch.float64)


@pytest.mark.parametrize("product", [J.jvp, J.vjp])
def test_products_are_differentiable_in_the_point(product):
    f, z = smooth_map(4)
    v = torch.randn_like(z)
    assert torch.autograd.gradcheck(lambda point: product(f, point, v), z.requires_grad_())


@pytest.mark.parametrize(
    ("product", "mixer", "kind"),
    [(J.jvp, "attention", "f_h"), (J.vjp, "mlp", "f_h"), (J.vjp, "attention", "cycle"), (J.jvp, "mlp", "step")],
)
def test_every_map_of_a_model(product, mixer, kind):
    """Weights get a gradient through the product, and the map is whole: no gradient truncation shortens it."""
    own = {"mixer": mixer, "positions": "rotary" if mixer == "attention" else "none", "puzzle_emb_len": 1}
    model = small(Shape(seq_len=3, vocab_size=4), hidden_size=4, h_cycles=2, l_cycles=2, **own).double()
    model.dtype = torch.float64
    x = model.encode(random_batch(2, 3, 4))
    f, z = model.map(model.initial_state(x), x, kind)
    full, v = full_jacobian(f, z.detach()), torch.randn_like(z)
    contract = "bij,bj->bi" if product is J.jvp else "bij,bi->bj"
    got = product(f, z, v)
    torch.testing.assert_close(got.flatten(1), torch.einsum(contract, full, v.flatten(1)))
    got.square().sum().backward()
    assert model.f_l.blocks[0].mlp.down.weight.grad.abs().sum() > 0
    finite = (f(z + 1e-6 * v) - f(z - 1e-6 * v)).flatten(1) / 2e-6
    scale = full.abs().max().item()
    torch.testing.assert_close(finite, torch.einsum("bij,bj->bi", full, v.flatten(1)), atol=1e-6 * scale, rtol=1e-5)


def test_hutchinson_nears_the_trace_with_one_over_root_n():
    f, z = smooth_map()
    z = z[:1]
    full = full_jacobian(f, z)[0]
    exact = full.trace().item()
    off = full - full.diag().diag()
    predicted = (off.square().sum() + (off * off.T).sum()).item()  # variance of one probe
    counts = [1, 4, 16, 64]
    errors = []
    for count in counts:
        seen = J.estimated_diagonal(f, z.expand(400, *z.shape[1:]), count).flatten(1).sum(1) - exact
        errors.append(seen.square().mean().sqrt().item())
    slope = np.polyfit(np.log(counts), np.log(errors), 1)[0]
    assert slope == pytest.approx(-0.5, abs=0.08)
    assert errors[0] == pytest.approx(math.sqrt(predicted), rel=0.15)
    scale = torch.tensor([1.0, -2.0, 3.0])  # of a diagonal map: exact
    assert torch.equal(J.estimated_diagonal(lambda z: z * scale, torch.ones(2, 3), 1), scale.expand(2, 3))
