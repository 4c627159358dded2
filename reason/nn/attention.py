"""Multi-head attention over cells."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from reason.nn.cache import Recall
from reason.nn.linear import Linear
from reason.nn.rope import rotate


class Attention(nn.Module):
    """Multi-head attention; q, k, v stacked in one map (3D, D). Causal: a cell sees itself and those before it."""

    def __init__(self, width: int, num_heads: int, causal: bool = False, bias: bool = False, std: float | None = None):
        super().__init__()
        assert width % num_heads == 0, "the config checks this"
        self.num_heads, self.causal = num_heads, causal
        self.qkv = Linear(width, 3 * width, bias, std)
        self.out = Linear(width, width, bias, std)

    def forward(
        self, x: Tensor, rotary: Tensor | None = None, dropout: float = 0.0, recall: Recall | None = None
    ) -> Tensor:
        """(B, S, D) -> (B, S, D); `rotary` as from `rotary_table`, or None; `dropout` of the attention weights.

        With `recall`, x holds the new cells of a text alone; `recall` adds the keys and values of the earlier cells.
        """
        batch, cells, width = x.shape
        q, k, v = self.qkv(x).view(batch, cells, 3, self.num_heads, width // self.num_heads).permute(2, 0, 3, 1, 4)
        if rotary is not None:
            q, k = rotate(q, rotary), rotate(k, rotary)
        if recall is not None:
            k, v = recall(k, v)
        y = attend(q, k, v, self.causal, dropout)  # (B, heads, S, D/heads)
        return self.out(y.transpose(1, 2).reshape(batch, cells, width))


def attend(q: Tensor, k: Tensor, v: Tensor, causal: bool = False, dropout: float = 0.0) -> Tensor:
    """softmax(q kᵀ/√d) v, each (B, heads, S, d) -> the same; causal: weights of later cells are 0.

    There may be more keys than queries: the queries are then those of the last cells.

    PyTorch's fused attention, except for bfloat16 on a CPU: its backward pass takes 13 times as long there as these
    three products (B 128, 36 cells, 4 heads of 32).
    """
    if q.device.type == "cpu" and q.dtype == torch.bfloat16:
        scores = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5
        if causal:
            scores = scores.masked_fill(~_sees(q, k), -torch.inf)
        return torch.nn.functional.dropout(scores.softmax(-1), dropout) @ v
    if causal and q.shape[2] != k.shape[2]:  # the kernel's own mask would lay the queries beside the first keys
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, _sees(q, k), dropout)
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=causal)


def _sees(q: Tensor, k: Tensor) -> Tensor:
    """(queries, keys) bool: a cell sees itself and those before it."""
    queries, keys = q.shape[2], k.shape[2]
    return torch.ones(queries, keys, dtype=torch.bool, device=q.device).tril(keys - queries)
