"""All determinants, the eigenvalues, and the trace that CMM penalises, side by side."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from reason.extensions.studies.routh_hurwitz import Stability, hurwitz_determinants, stability


def linear(matrix: list[list[float]]) -> Stability:
    weight = torch.tensor(matrix, dtype=torch.float64)
    return stability(lambda z: z @ weight.T, torch.zeros(1, len(matrix), dtype=torch.float64))


def test_the_textbook_cubic() -> None:
    """λ³ + 6λ² + 11λ + 6 = (λ+1)(λ+2)(λ+3): Δ = 6, 60, 360."""
    np.testing.assert_allclose(hurwitz_determinants(np.array([1, 6, 11, 6])), [6, 60, 360])


def test_a_map_that_satisfies_the_penalty_and_is_unstable() -> None:
    """tr J/K = −0.5 < 1, so Δ₁ > 0 and RH stable is 0; yet one direction grows, and Δ₂ says so."""
    seen = linear([[1.5, 0.0], [0.0, -2.5]])
    assert seen.first_alone
    assert (seen.trace - 1) < 0
    assert not seen.routh_hurwitz
    assert not seen.stable_flow
    assert seen.determinants[1] < 0


def test_a_flow_may_rest_where_its_euler_map_does_not() -> None:
    """J = −1.5: dz/dt = F(z) − z comes back, z ← F(z) swings out."""
    seen = linear([[-1.5]])
    assert seen.stable_flow
    assert seen.routh_hurwitz
    assert not seen.stable_map


def test_a_rotation_that_grows_is_seen_by_its_last_determinants() -> None:
    seen = linear([[0.5, 2.0, 0.0], [-2.0, 0.5, 0.0], [0.0, 0.0, 1.5]])
    assert seen.first_alone
    assert not seen.stable_flow
    assert not seen.routh_hurwitz


@settings(max_examples=60)
@given(size=st.integers(1, 5), seed=st.integers(0, 10_000), shift=st.floats(-2, 2))
def test_all_determinants_say_what_the_eigenvalues_say(size: int, seed: int, shift: float) -> None:
    matrix = np.random.default_rng(seed).standard_normal((size, size)) + shift * np.eye(size)
    seen = linear(matrix.tolist())
    if abs(seen.eigenvalues.real.max() - 1) > 1e-3:  # not on the edge
        assert seen.routh_hurwitz == seen.stable_flow
    assert seen.first_alone == (seen.trace < 1)
    assert seen.stable_flow <= seen.first_alone  # necessary
    assert seen.stable_map <= seen.stable_flow


def test_a_nonlinear_map_is_read_at_its_point() -> None:
    def f(z: Tensor) -> Tensor:
        return torch.tanh(3 * z)

    assert stability(f, torch.zeros(1, 2)).trace == pytest.approx(3)
    assert not stability(f, torch.zeros(1, 2)).first_alone
    assert stability(f, torch.full((1, 2), 1.0)).stable_map
