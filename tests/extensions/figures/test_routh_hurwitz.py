"""All determinants, the eigenvalues, and the trace that CMM penalises, side by side."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from reason.extensions.figures.draw import log_determinants


def signs(matrix):
    return log_determinants(np.array(matrix, dtype=float))[1].tolist()


def test_the_textbook_cubic():
    """λ³ + 6λ² + 11λ + 6 = (λ+1)(λ+2)(λ+3) of J − I: Δ = 6, 60, 360."""
    logs, positive = log_determinants(np.diag([0.0, -1.0, -2.0]))
    np.testing.assert_allclose(10**logs, [6, 60, 360])
    assert positive.tolist() == [1, 1, 1]


def test_a_map_that_satisfies_the_penalty_and_is_unstable():
    """tr J/K = −0.5 < 1, so Δ₁ > 0 and RH stable is 0; yet one direction grows, and Δ₂ says so."""
    assert signs([[1.5, 0.0], [0.0, -2.5]]) == [1, -1]


@settings(max_examples=40)
@given(size=st.integers(1, 6), seed=st.integers(0, 10_000), shift=st.floats(-2, 2))
def test_determinants_are_minors_of_the_hurwitz_matrix_and_say_what_the_eigenvalues_say(size, seed, shift):
    jacobian = np.random.default_rng(seed).standard_normal((size, size)) + shift * np.eye(size)
    logs, found = log_determinants(jacobian)
    a = dict(enumerate(np.poly(jacobian - np.eye(size))))  # Hurwitz: a_{2i−j} in row i, column j
    matrix = np.array([[a.get(2 * i - j, 0.0) for j in range(1, size + 1)] for i in range(1, size + 1)])
    minors = np.array([np.linalg.det(matrix[:k, :k]) for k in range(1, size + 1)])
    if np.abs(minors).min() > 1e-6:
        np.testing.assert_allclose(found * 10**logs, minors, rtol=1e-4)
    largest = np.linalg.eigvals(jacobian).real.max()
    if abs(largest - 1) > 1e-3:  # not on the edge
        assert (found > 0).all() == (largest < 1)
    assert (found[0] > 0) == (np.trace(jacobian) < size)


def test_a_hundred_rows_keep_their_signs():
    """Terms cancel to hundreds of digits; the number of sign changes of the first column is that of unstable roots."""
    stable = np.random.default_rng(0).standard_normal((96, 96)) * 0.5 / 96**0.5
    assert signs(stable) == [1] * 96
    assert -1 in signs(stable + np.diag([3.0] + [0.0] * 95))
