"""Routh-Hurwitz determinants of the flow dz/dt = F(z) − z at a point (CMM eq. 24 to 29).

A fixed point is stable if every eigenvalue of J − I is in the left half-plane, J = ∂F/∂z (K, K). The criterion states
this by K determinants, which are all positive then. CMM penalises tr J / K ≥ 1, that is Δ₁ = K − tr J ≤ 0: Δ₁ > 0 is
necessary, not sufficient.
"""

from __future__ import annotations

from decimal import Decimal, localcontext

import numpy as np

DIGITS = 400  # of the Routh array: terms of 128 rows cancel to hundreds of digits
TINY = Decimal(10) ** -DIGITS


def log_determinants(jacobian: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """log₁₀|Δ_k| and the sign of Δ_k, k = 1 … K, of the characteristic polynomial of J − I (leading coefficient 1).

    The first column of the Routh array 1, r₁, …, r_K gives Δ_k = r₁ ⋯ r_k. CMM's eq. 25 has the polynomial times (−1)ᴷ;
    the criterion needs a positive leading coefficient (ours).
    """
    eigenvalues = np.linalg.eigvals(np.asarray(jacobian, dtype=np.float64) - np.eye(len(jacobian)))
    with localcontext() as context:
        context.prec = DIGITS
        context.Emin, context.Emax = -(10**9), 10**9
        coefficients = _polynomial(eigenvalues)
        above, row = coefficients[::2], coefficients[1::2]
        logs, signs, log, sign = [], [], Decimal(0), 1
        for _ in eigenvalues:
            row += [Decimal(0)] * (len(above) - len(row))
            first = row[0] or TINY
            log, sign = log + abs(first).log10(), sign if first > 0 else -sign
            logs.append(float(log))
            signs.append(sign)
            above, row = row, [above[i + 1] - above[0] * row[i + 1] / first for i in range(len(above) - 1)] or [TINY]
        return np.array(logs), np.array(signs)


def _polynomial(roots: np.ndarray) -> list[Decimal]:
    """The coefficients of Π (λ − root), the highest power first; complex roots come in conjugate pairs."""
    product = [Decimal(1)]
    factors = [[Decimal(1), Decimal(-float(r.real))] for r in roots if r.imag == 0]
    factors += [[Decimal(1), -2 * Decimal(float(r.real)), Decimal(float(abs(r))) ** 2] for r in roots if r.imag > 0]
    for factor in factors:
        longer = [Decimal(0)] * (len(product) + len(factor) - 1)
        for i, a in enumerate(product):
            for j, b in enumerate(factor):
                longer[i + j] += a * b
        product = longer
    return product
