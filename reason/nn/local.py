"""A gated convolution: cells see their neighbours on the grid."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from reason.nn.geometry import Geometry
from reason.nn.linear import Linear, truncated_normal_
from reason.nn.mlp import ACTIVATIONS, Activation


class LocalMixer(nn.Module):
    """W_o(act(g) ⊙ u), (g, u) = conv_k×k(h ⊙ inside), D → 2I, stride 1; no weight depends on the grid's size.

    Beyond the edge the convolution reads zeros, and so it does at cells that say what lies there (a maze's walls):
    such a cell has a state, but sends none. A puzzle and the same puzzle inside a larger grid of such cells are
    therefore one and the same to its cells (ours).

    Kernel and state are channels-last in memory, (2I, k, k, D) and (B, S, D): no copy is made on the way.
    """

    def __init__(
        self, width: int, inner: int, kernel: int = 3, activation: Activation = "silu", std: float | None = None
    ):
        super().__init__()
        self.kernel, self.activation = kernel, ACTIVATIONS[activation]
        empty = torch.empty(2 * inner, kernel, kernel, width)
        fan_in = kernel * kernel * width
        self.weight = nn.Parameter(truncated_normal_(empty, fan_in**-0.5 if std is None else std))
        self.out = Linear(inner, width, std=std)

    def forward(self, h: Tensor, geometry: Geometry) -> Tensor:
        """(B, S, D) -> (B, S, D)."""
        assert geometry.grid is not None, "checked when the model is built"
        rows, columns = geometry.grid
        sent = h if geometry.inside is None else h * geometry.inside
        image = sent.unflatten(1, (rows, columns)).permute(0, 3, 1, 2)  # (B, D, rows, columns)
        weight = self.weight.to(h.dtype).permute(0, 3, 1, 2)
        y = nn.functional.conv2d(image, weight, padding=self.kernel // 2)
        gate, up = y.permute(0, 2, 3, 1).flatten(1, 2).chunk(2, dim=-1)  # (B, S, I) each
        return self.out(self.activation(gate) * up)
