"""Where the cells of a puzzle lie, as constants that mixers read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor


class Geometry(NamedTuple):
    """S' positions of S cells, K of each (K > 1: one for every symbol), as one network call sees them."""

    rotary: Tensor | None = None  # (2, S', D/heads)
    grid: tuple[int, int] | None = None  # rows, columns
    inside: Tensor | None = None  # (B, S, 1), 0 where a cell says what lies beyond the edge; None: 1 everywhere
    pool: Tensor | None = None  # (G, S): h ↦ Σ h/√n over the n cells of each group
    spread: Tensor | None = None  # (S, G): 1 where the cell belongs to the group
    relations: tuple[int, ...] = ()  # groups of each partition; their sum is G
    symbols: int = 1  # K


UNKNOWN = Geometry()


def incidence(partitions: Sequence[np.ndarray]) -> Tensor:
    """(G, S) float32: 1 where a cell belongs to a group, for partitions (S,) of group numbers."""
    return torch.tensor(
        np.concatenate([numbers == np.arange(numbers.max() + 1)[:, None] for numbers in partitions]),
        dtype=torch.float32,
    )


def pooling(member: Tensor) -> Tensor:
    """The incidence (G, S) with every row divided by √n: independent members keep their variance in the sum."""
    return member / member.sum(1, keepdim=True).sqrt()
