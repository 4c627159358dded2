"""The mixer over linear constraints: one set of weights for every declared puzzle.

Positions are booleans, "cell i has value v". A constraint of any kind is lo ≤ Σ w·b ≤ hi over some of them, or several
such (`sums`). It sums its booleans up and answers through a gate; each boolean sums the answers of its constraints. No
weight knows a puzzle's name, its size or its number of values: what tells constraints apart is their features.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from reason.extensions.declared.sums import FEATURES, Sums
from reason.nn.geometry import Geometry
from reason.nn.linear import Linear
from reason.nn.mlp import ACTIVATIONS, Activation, glu

DEGREE = 4  # constraints of a boolean: a Sudoku's; their answers together weigh as much as W₀h


class LinearMixer(nn.Module):
    """W_o(act(g) ⊙ u), (g, u) = W₀h_b + Σ_c (W₃ + ŵ_cb W₄) m_c, with m_c = act(g') ⊙ u' of each constraint c:

    (g', u') = Σ_b (W₁ + ŵ_cb W₂) h_b/√n_c + E f_c. b are its n_c booleans, ŵ = w / max |w|, f_c its features. W₂ and W₄
    act where the terms of a constraint differ in weight. Equivariant under every permutation of cells, of values and of
    constraints that maps constraints to constraints.
    """

    def __init__(self, width: int, inner: int, activation: Activation = "silu", std: float | None = None):
        super().__init__()
        self.activation = ACTIVATIONS[activation]
        half = (2 * width) ** -0.5 if std is None else std
        answer = (2 * width * DEGREE) ** -0.5 if std is None else std
        self.own = Linear(width, 2 * inner, std=half)
        self.read = Linear(width, 2 * width, std=half)
        self.read_weighted = Linear(width, 2 * width, std=half)
        self.features = Linear(FEATURES, 2 * width, std=0.5 if std is None else std)
        self.answer = Linear(width, 2 * inner, std=answer)
        self.answer_weighted = Linear(width, 2 * inner, std=answer)
        self.out = Linear(inner, width, std=std)

    def forward(self, h: Tensor, geometry: Geometry) -> Tensor:
        """(B, S·K, D) -> (B, S·K, D)."""
        z = geometry.masked(h).transpose(0, 1).contiguous()  # (N, B, D): N = S·K booleans
        y = self.own(z)
        set_sums, *puzzle_sums = geometry.constraints
        y = y + self.answers(z, set_sums)
        for sums in puzzle_sums:
            y = y + self.answers(z.flatten(0, 1), sums).view_as(y)
        return self.out(glu(y, self.activation)).transpose(0, 1)

    def answers(self, z: Tensor, sums: Sums) -> Tensor:
        """Return the messages that booleans z (N, B, D) or (N·B, D) receive: (N, B, 2I) or (N·B, 2I)."""
        count = len(sums.features)
        plain = count - sums.weighted  # constraints whose terms weigh the same
        read = (sums.matrix @ z).view(count + sums.weighted, -1, z.shape[-1]) * sums.scale.to(z.dtype)  # (M + W, B, D)
        gates = self.read(read[:count]) + self.features(sums.features.to(z.dtype))
        if sums.weighted:
            gates = gates + pad(self.read_weighted(read[count:]), (0, 0, 0, 0, plain, 0))
        messages = glu(gates, self.activation)  # (M, B, D)
        answers = self.answer(messages)
        if sums.weighted:
            answers = torch.cat([answers, self.answer_weighted(messages[plain:])])  # (M + W, B, 2I)
        return sums.matrix.transposed @ (answers if z.ndim == 3 else answers.flatten(0, 1))
