"""Attention within each group of cells: the stronger form of messages by sums."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from reason.nn.attention import attend
from reason.nn.geometry import Geometry
from reason.nn.linear import Linear
from reason.nn.mlp import ACTIVATIONS, Activation, glu


class GroupAttention(nn.Module):
    """W_o(act(g) ⊙ u), (g, u) = W₀h + W_a·a: a joins one attention head for every relation, D/R wide.

    The head of a relation attends from each cell to the members of its group, all of one size n; with `symbols` one
    more head attends among the K symbols of a cell. Queries, keys and values are one map (D → 3D). Without positions:
    equivariant under every permutation that maps groups to groups of their relation.
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
        assert width % (relations + symbols) == 0, "checked when the model is built"
        self.activation, self.heads = ACTIVATIONS[activation], relations + symbols
        half = (2 * width) ** -0.5 if std is None else std  # the two maps together weigh as much as one
        self.qkv = Linear(width, 3 * width, std=std)
        self.own, self.attended = (Linear(width, 2 * inner, std=half) for _ in range(2))
        self.out = Linear(inner, width, std=std)

    def forward(self, h: Tensor, geometry: Geometry) -> Tensor:
        """(B, S', D) -> (B, S', D), S' = S·K positions, the K of a cell in turn."""
        z = h.transpose(0, 1).contiguous()  # (S', B, D)
        positions, batch, width = z.shape
        cells = positions // geometry.symbols
        heads = self.qkv(z).view(cells, geometry.symbols, batch, 3, self.heads, width // self.heads).unbind(4)
        found = [_within(each, members) for each, members in zip(heads, geometry.members, strict=False)]
        if len(heads) > len(geometry.members):  # among the symbols of a cell
            q, k, v = heads[-1].permute(3, 0, 2, 1, 4)  # (S, B, K, d) each
            found.append(attend(q, k, v).transpose(1, 2))
        joined = torch.cat(found, dim=-1).view(positions, batch, width)
        y = self.own(z) + self.attended(joined)
        return self.out(glu(y, self.activation)).transpose(0, 1)


def _within(qkv: Tensor, members: Tensor) -> Tensor:
    """Queries, keys and values (S, K, B, 3, d), cells (G, n) of each group -> what the cells attend to (S, K, B, d)."""
    groups, size = members.shape
    cells, *rest, _, width = qkv.shape
    q, k, v = qkv[members.flatten()].view(groups, size, -1, 3, width).permute(3, 0, 2, 1, 4)  # (G, K·B, n, d) each
    value = attend(q, k, v).transpose(1, 2).reshape(cells, *rest, width)  # cells in the order of their groups
    return value[members.flatten().argsort()]
