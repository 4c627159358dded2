"""A gated convolution: cells receive from their neighbours on the grid."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from reason.nn.geometry import Geometry
from reason.nn.linear import Linear, truncated_normal_
from reason.nn.mlp import ACTIVATIONS, Activation, glu

Neighbourhood = Literal["moore", "von-neumann"]
VON_NEUMANN = [(-1, 0), (0, -1), (0, 0), (0, 1), (1, 0)]  # (down, right): a cell and its neighbours in a maze


class LocalMixer(nn.Module):
    """W_o(act(g) ⊙ u), (g, u) = Σ_δ W_δ h_{s+δ} over a neighbourhood of cell s, D → 2I; no size-bound weight.

    moore: the 3×3 cells around a cell, by a convolution. von-neumann: five of these, concatenated for one product; this
    takes 0.55 of the operations and, compiled, is 1.5 times as fast.

    The mixer receives zeros from beyond the edge and from cells that represent the outside (walls of a maze). Such a
    cell has a state but sends no message. So a puzzle gives the same result inside a larger grid of such cells (ours).

    Weight and state are channels-last in memory, (2I, n·D) for n cells and (B, S, D): the convolution needs no copy.
    """

    def __init__(
        self,
        width: int,
        inner: int,
        activation: Activation = "silu",
        std: float | None = None,
        neighbourhood: Neighbourhood = "moore",
    ):
        super().__init__()
        self.activation, self.gathers = ACTIVATIONS[activation], neighbourhood == "von-neumann"
        fan_in = width * (len(VON_NEUMANN) if self.gathers else 9)
        empty = torch.empty(2 * inner, fan_in)
        self.weight = nn.Parameter(truncated_normal_(empty, fan_in**-0.5 if std is None else std))
        self.out = Linear(inner, width, std=std)

    def forward(self, h: Tensor, geometry: Geometry) -> Tensor:
        """Map (B, S, D) to (B, S, D)."""
        assert geometry.grid is not None, "checked when the model is built"
        image, weight = geometry.masked(h).unflatten(1, geometry.grid), self.weight.to(h.dtype)  # (B, rows, columns, D)
        if self.gathers:
            _, rows, columns, _ = image.shape
            wide = nn.functional.pad(image, (0, 0, 1, 1, 1, 1))
            near = [wide[:, 1 + down :, 1 + right :][:, :rows, :columns] for down, right in VON_NEUMANN]
            y = nn.functional.linear(torch.cat(near, dim=-1), weight)
        else:
            kernel = weight.view(len(weight), 3, 3, -1).permute(0, 3, 1, 2)  # (2I, D, 3, 3)
            y = nn.functional.conv2d(image.permute(0, 3, 1, 2), kernel, padding=1).permute(0, 2, 3, 1)
        return self.out(glu(y.flatten(1, 2), self.activation))
