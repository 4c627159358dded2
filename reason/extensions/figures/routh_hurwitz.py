"""Routh-Hurwitz determinants of the flow dz/dt = F(z) − z at a point (CMM eq. 24 to 29).

A fixed point is stable if every eigenvalue of J − I is in the left half-plane, J = ∂F/∂z (K, K). The criterion states
this by K determinants, which are all positive then. CMM penalises tr J / K ≥ 1, that is Δ₁ = K − tr J ≤ 0: Δ₁ > 0 is
necessary, not sufficient.
"""

from __future__ import annotations

import mpmath  # type: ignore[import-untyped]  # comes with torch
import numpy as np

DIGITS = 400  # of the Routh array: terms of 128 rows cancel to hundreds of digits


def log_determinants(jacobian: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """log₁₀|Δ_k| and the sign of Δ_k, k = 1 … K, of the characteristic polynomial of J − I (leading coefficient 1).

    The first column of the Routh array 1, r₁, …, r_K gives Δ_k = r₁ ⋯ r_k. CMM's eq. 25 has the polynomial times (−1)ᴷ;
    the criterion needs a positive leading coefficient (ours).
    """
    eigenvalues = np.linalg.eigvals(np.asarray(jacobian, dtype=np.float64) - np.eye(len(jacobian)))
    with mpmath.workdps(DIGITS):
        tiny = mpmath.mpf(10) ** -DIGITS
        polynomial = np.poly(np.array([mpmath.mpc(root) for root in eigenvalues], dtype=object))
        coefficients = np.array([mpmath.re(each) for each in polynomial], dtype=object)  # roots come in conjugate pairs
        above, row = coefficients[::2], coefficients[1::2]
        column = []
        for _ in eigenvalues:
            row = np.concatenate([row, [mpmath.mpf(0)] * (len(above) - len(row))])
            column.append(row[0] or tiny)
            above, row = row, above[1:] - above[0] * row[1:] / column[-1]
            row = row if len(row) else np.array([tiny], dtype=object)
        logs = np.cumsum([mpmath.log10(abs(first)) for first in column])
        return logs.astype(np.float64), np.cumprod(np.sign([float(mpmath.sign(first)) for first in column]))
