"""Routh-Hurwitz determinants of a small map, and its trace, which CMM penalises (CMM eq. 24-29).

A fixed point of dz/dt = F(z) − z is stable if every eigenvalue of J − I is in the left half-plane, J = ∂F/∂z. The
criterion states this by K determinants; Δ₁ = K − tr J > 0 is necessary, not sufficient.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from reason.dynamics.jacobian import Map
from reason.extensions.studies.spectra import full_jacobian


@dataclass(frozen=True)
class Stability:
    """Eigenvalues, determinants and trace at one point of a small map."""

    eigenvalues: np.ndarray  # (K,) complex, of J
    determinants: np.ndarray  # (K,) Δ₁ … Δ_K of the characteristic polynomial of J − I
    trace: float  # tr J / K, what the Routh-Hurwitz terms compare with 1

    @property
    def stable_flow(self) -> bool:
        """Is the flow dz/dt = F(z) − z stable: max Re λ(J) < 1?"""
        return bool(self.eigenvalues.real.max() < 1)

    @property
    def stable_map(self) -> bool:
        """Is the iteration z ← F(z) (an Euler step, Δt = 1) stable: max |λ(J)| < 1? It implies a stable flow."""
        return bool(np.abs(self.eigenvalues).max() < 1)

    @property
    def routh_hurwitz(self) -> bool:
        """Are all K determinants positive? Equivalent to `stable_flow`."""
        return bool((self.determinants > 0).all())

    @property
    def first_alone(self) -> bool:
        """Is Δ₁ > 0, that is tr J / K < 1? The penalty is 0 then."""
        return bool(self.determinants[0] > 0)


def stability(f: Map, z: Tensor) -> Stability:
    """The stability of a map at a single row z (1, ...), K = z.numel() small: K products and K determinants."""
    assert len(z) == 1, "one row has one Jacobian"
    jacobian = full_jacobian(f, z.to(torch.float64))[0].detach().cpu().numpy()
    size = len(jacobian)
    determinants = hurwitz_determinants(np.poly(jacobian - np.eye(size)))
    return Stability(np.linalg.eigvals(jacobian), determinants, float(np.trace(jacobian)) / size)


def hurwitz_determinants(coefficients: np.ndarray) -> np.ndarray:
    """Δ₁ … Δ_K of a₀λᴷ + a₁λᴷ⁻¹ + … + a_K, a₀ > 0: the leading minors of the matrix with a_{2i−j} in row i, column j.

    a₀ > 0 as in the criterion, where CMM's eq. 25 has (−1)ᴷ: the polynomial is multiplied with that (ours).
    """
    size = len(coefficients) - 1
    padded = dict(enumerate(coefficients))
    matrix = np.array([[padded.get(2 * i - j, 0.0) for j in range(1, size + 1)] for i in range(1, size + 1)])
    return np.array([np.linalg.det(matrix[:k, :k]) for k in range(1, size + 1)])
