"""Messages by attention between the cells of a group, and between the symbols of one cell."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from reason.nn.attention import attend
from reason.nn.geometry import Geometry
from reason.nn.linear import Linear
from reason.nn.mlp import ACTIVATIONS, Activation, glu
from reason.nn.norms import rms_norm


class GroupAttention(nn.Module):
    """u = rms(h + W_j [a_1, …, a_R]); the result is u − h + W_o(act(g) ⊙ w), (g, w) = W_i u, D → 2I. (ours)

    a_r is softmax attention within the groups of relation r, with one head of width D/2. A relation is a partition of
    the cells into groups of one size; the positions of one symbol attend to each other. With `symbols` another relation
    joins the K symbols of a cell. The layer adds h and takes the norm, so it is attention and then a gated MLP, each
    with a residual and a norm.

    A position that sends nothing has key and value 0 and takes part in the softmax, so that weights depend on how many
    others send. Without these positions the network did not learn Sudoku (docs/log/structure.md).

    The mixer is equivariant under every permutation that maps groups to groups of their relation.
    """

    order: Tensor  # (R, S): the cells of each partition, group after group
    places: Tensor  # (R, S): where each cell stands in `order`

    def __init__(
        self,
        width: int,
        inner: int,
        partitions: Sequence[np.ndarray],
        symbols: bool = False,
        activation: Activation = "silu",
        std: float | None = None,
    ):
        super().__init__()
        self.activation = ACTIVATIONS[activation]
        self.symbols, self.count, self.head = symbols, len(partitions) + symbols, max(1, width // 2)
        self.qkv = Linear(width, self.count * 3 * self.head, std=std)
        self.join = Linear(self.count * self.head, width, std=std)
        self.up = Linear(width, 2 * inner, std=std)
        self.out = Linear(inner, width, std=std)
        order = [torch.from_numpy(each).argsort(stable=True) for each in partitions]
        self.register_buffer("order", torch.stack(order) if order else torch.empty(0, 0), persistent=False)
        self.register_buffer("places", self.order.argsort(1), persistent=False)

    def forward(self, h: Tensor, geometry: Geometry) -> Tensor:
        """Map (B, S', D) to (B, S', D), S' = S·K positions, the K of a cell in turn."""
        qkv = self.qkv(geometry.masked(h)).unflatten(1, (-1, geometry.symbols))  # (B, S, K, R·3·D/2)
        by_relation = qkv.chunk(self.count, -1)
        order, places = self._order(geometry, qkv.shape[1])
        heard = [
            _within(each, some, place, groups)
            for each, some, place, groups in zip(by_relation, order, places, geometry.group_counts, strict=False)
        ]
        if self.symbols:
            heard.append(_attended(by_relation[-1]))
        u = rms_norm(h + self.join(torch.cat(heard, -1).flatten(1, 2)))
        return u - h + self.out(glu(self.up(u), self.activation))

    def _order(self, geometry: Geometry, cells: int) -> tuple[Tensor, Tensor]:
        """Return `order` and `places`, for a board of another size those of its groups."""
        if cells == self.order.shape[1] or geometry.membership is None:
            return self.order, self.places
        by_partition = geometry.membership.T.split(geometry.group_counts)  # (G, S) each
        order = torch.stack([member.argmax(0).argsort(stable=True) for member in by_partition])
        return order, order.argsort(1)


def _within(qkv: Tensor, order: Tensor, places: Tensor, groups: int) -> Tensor:
    """Attend within groups of cells, for each symbol: qkv (B, S, K, 3d) -> (B, S, K, d)."""
    grouped = qkv.index_select(1, order).unflatten(1, (groups, -1)).transpose(2, 3)  # (B, G, K, n, 3d)
    heard = _attended(grouped.flatten(1, 2)).unflatten(1, (groups, -1))
    return heard.transpose(2, 3).flatten(1, 2).index_select(1, places)


def _attended(qkv: Tensor) -> Tensor:
    """Return softmax(q kᵀ/√d) v of qkv (B, G, n, 3d) over its n positions: (B, G, n, d). ONNX knows four axes alone."""
    return attend(*qkv.chunk(3, -1))
