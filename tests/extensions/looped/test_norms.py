"""The three norms that STARS compares, and the products of their Jacobians."""

import numpy as np
import pytest
import reference
import torch

from reason.dynamics.jacobian import Product, jvp, vjp
from reason.extensions.looped.layers import Norm


@pytest.mark.parametrize("kind", ["layernorm", "rmsnorm", "simple"])
@pytest.mark.parametrize("product", [jvp, vjp])
def test_norms_and_the_gradient_of_their_jacobian_products(kind: str, product: Product) -> None:
    """Both forms of a centred norm are one function; a Jacobian term differentiates its products once more."""
    layer = Norm(4, kind, 1e-3).double()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.normal_()
    x, v = torch.randn(2, 3, 4, dtype=torch.float64), torch.randn(2, 3, 4, dtype=torch.float64)
    parts = [None if p is None else p.detach().numpy() for p in (layer.weight, layer.bias)]
    expected = reference.norm(x.numpy(), kind, *parts, 1e-3)
    np.testing.assert_allclose(layer(x).detach().numpy(), expected, rtol=1e-12)
    np.testing.assert_allclose(torch.func.jvp(layer, (x,), (v,))[0].detach().numpy(), expected, rtol=1e-12)
    assert torch.autograd.gradcheck(lambda z: product(layer, z, v), x.requires_grad_())


def test_norms_of_bfloat16_are_computed_in_float32() -> None:
    x = (100 + torch.randn(2, 64)).bfloat16()
    for kind in ("layernorm", "rmsnorm", "simple"):
        layer = Norm(64, kind)
        torch.testing.assert_close(layer(x), layer(x.float()).bfloat16(), atol=0, rtol=0)
