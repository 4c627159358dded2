"""Power iteration against exact eigenvalues and its theory."""

import pytest
import torch

from reason.dynamics import jacobian as J
from reason.extensions.looped import power as P


@pytest.mark.parametrize("product", [J.jvp, J.vjp])
def test_power_iteration_finds_a_real_dominant_eigenvalue(product: J.Product) -> None:
    basis = torch.linalg.qr(torch.randn(4, 4, dtype=torch.float64))[0]
    weight = basis @ torch.diag(torch.tensor([-1.3, 0.9, 0.5, 0.1], dtype=torch.float64)) @ basis.T
    z = torch.randn(5, 4, dtype=torch.float64)
    found = P.power_iteration(lambda h: h @ weight.T, z, P.unit_normal_like(z), 60, product)
    torch.testing.assert_close(found.growth, torch.full((5,), 1.3, dtype=torch.float64))
    torch.testing.assert_close(P.row_norm_keepdim(found.direction), torch.ones(5, 1, dtype=torch.float64))


def test_one_iteration_is_a_frobenius_estimate() -> None:
    weight = torch.randn(6, 6, dtype=torch.float64)
    z = torch.zeros(20_000, 6, dtype=torch.float64)
    growth = P.power_iteration(lambda h: h @ weight.T, z, P.unit_normal_like(z), 1).growth
    assert growth.square().mean().item() == pytest.approx(weight.square().sum().item() / 6, rel=0.03)


def test_the_gradient_flows_through_the_last_product_alone() -> None:
    scale = torch.tensor([2.0, 1.0], requires_grad=True)
    v = torch.tensor([[0.6, 0.8]])
    growth = P.power_iteration(lambda z: z * scale, torch.zeros(1, 2), v, 2).growth
    direction = torch.tensor([1.2, 0.8]) / torch.tensor([1.2, 0.8]).norm()  # J v, held fixed
    expected = torch.autograd.grad((scale * direction).norm(), scale)[0]
    torch.testing.assert_close(torch.autograd.grad(growth.sum(), scale)[0], expected)


def test_a_map_of_zeros_has_radius_zero_and_no_nan() -> None:
    z = torch.ones(2, 3)
    found = P.power_iteration(lambda h: 0 * h, z, P.unit_normal_like(z), 3)
    assert found.growth.tolist() == [0.0, 0.0]
    assert not found.direction.isnan().any()
