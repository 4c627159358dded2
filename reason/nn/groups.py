"""Messages between the cells of a group: rows, columns and boxes of a Sudoku, and the symbols of one cell."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from reason.nn.geometry import Geometry
from reason.nn.linear import Linear
from reason.nn.mlp import ACTIVATIONS, Activation, glu


class GroupMixer(nn.Module):
    """W_o(act(g) ⊙ u), (g, u) = W₀h + Σ_r W_r Σ_{j in the group of relation r} h_j/√n, D → 2I.

    A relation is a partition of the cells into groups; with `symbols` another one joins the K symbols of each cell. The
    sums of all groups are one product with a constant matrix. W_r acts on the sums, not on the members, and a second
    product distributes the messages. The mixer is equivariant under every permutation that maps groups to groups of
    their relation; no weight depends on the number or the size of the groups.

    Positions come first in memory, (S', B, D), so that both products need no copy.
    """

    def __init__(
        self,
        width: int,
        inner: int,
        relations: int,
        symbols: bool = False,
        activation: Activation = "silu",
        std: float | None = None,
    ):
        super().__init__()
        self.activation = ACTIVATIONS[activation]
        count = relations + symbols
        each = (2 * width * max(1, count)) ** -0.5 if std is None else std  # all messages together weigh as much as W₀h
        self.own = Linear(width, 2 * inner, std=(2 * width) ** -0.5 if std is None else std)
        self.relations = nn.ModuleList([Linear(width, 2 * inner, std=each) for _ in range(relations)])
        self.symbols = Linear(width, 2 * inner, std=each) if symbols else None
        self.out = Linear(inner, width, std=std)

    def forward(self, h: Tensor, geometry: Geometry) -> Tensor:
        """Map (B, S', D) to (B, S', D), S' = S·K positions, the K of a cell in turn."""
        z = geometry.masked(h).transpose(0, 1).contiguous()  # (S', B, D)
        y = self.own(z)
        if geometry.pool is not None and geometry.membership is not None:
            (groups, cells), width = geometry.pool.shape, z.shape[-1]
            pooled = (geometry.pool.to(z.dtype) @ z.reshape(cells, -1)).view(groups, -1, width)  # (G, K·B, D)
            by_partition = zip(self.relations, pooled.split(geometry.group_counts), strict=True)
            messages = torch.cat([weight(sums) for weight, sums in by_partition])  # (G, K·B, 2I)
            y = torch.addmm(y.view(cells, -1), geometry.membership.to(z.dtype), messages.flatten(1)).view_as(y)
        if self.symbols is not None:
            by_cell = z.unflatten(0, (-1, geometry.symbols))  # (S, K, B, D)
            message = self.symbols(by_cell.sum(1, keepdim=True) * geometry.symbols**-0.5)
            y = (y.unflatten(0, (-1, geometry.symbols)) + message).flatten(0, 1)
        return self.out(glu(y, self.activation)).transpose(0, 1)  # y: (S', B, 2I)
