"""Whole Jacobians against autograd's, eigenvalues against exact ones."""

import pytest
import reference
import torch

from reason.extensions.studies import spectra as S


def test_the_full_jacobian_and_its_diagonal() -> None:
    weight, z = torch.randn(6, 6, dtype=torch.float64), torch.randn(3, 6, dtype=torch.float64)

    def f(z: torch.Tensor) -> torch.Tensor:
        return torch.tanh(z @ weight.T) + 0.1 * z**2

    full = reference.full_jacobian(f, z)
    torch.testing.assert_close(S.full_jacobian(f, z), full)
    torch.testing.assert_close(S.exact_diagonal(f, z), full.diagonal(dim1=1, dim2=2))


@pytest.mark.parametrize("size", [4, 20])
def test_spectral_radius_is_the_largest_modulus(size: int) -> None:
    weight = torch.randn(size, size, dtype=torch.float64)
    expected = torch.linalg.eigvals(weight).abs().max().item()
    radius = abs(S.dominant_eigenvalue(lambda z: z @ weight.T, torch.zeros(1, size, dtype=torch.float64)))
    assert radius == pytest.approx(expected, rel=1e-4)
