"""The geometry of a puzzle's cells: constants that mixers use, and the positions that are active."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor


class Geometry(NamedTuple):
    """The input of a mixer besides the state: S' positions of S cells, K for each cell (one for every symbol)."""

    rotary: Tensor | None = None  # (2, S', D/heads)
    grid: tuple[int, int] | None = None  # rows, columns
    sends: Tensor | None = None  # (B, S', 1), 0 at a position that sends nothing; None: 1 everywhere
    receives: Tensor | None = None  # (B, S', 1), 0 if no other position of its groups sends; None: 1 everywhere
    pool: Tensor | None = None  # (G, S): h ↦ Σ h/√n over the n cells of each group
    membership: Tensor | None = None  # (S, G): 1 if the cell belongs to the group
    group_counts: tuple[int, ...] = ()  # groups of each partition; their sum is G
    symbols: int = 1  # K
    constraints: Any = None  # of these puzzles, for a mixer that reads them (`AnySet` in reason.models.mixing)

    def masked(self, h: Tensor) -> Tensor:
        """Return h (B, S', D) with 0 at the positions that send nothing."""
        return h if self.sends is None else h * self.sends


UNKNOWN = Geometry()


def incidence(partitions: Sequence[np.ndarray]) -> np.ndarray:
    """Return (G, S) float32: 1 if a cell belongs to a group, for partitions (S,) of group numbers."""
    members = [numbers == np.arange(numbers.max() + 1)[:, None] for numbers in partitions]
    return np.concatenate(members).astype(np.float32)


def pooling(member: np.ndarray) -> np.ndarray:
    """Divide each row of the incidence (G, S) by √n, so that a sum of independent members keeps their variance."""
    return member / np.sqrt(member.sum(1, keepdims=True))


def open_symbols(tokens: Tensor, symbol_tokens: Tensor, membership: Tensor) -> Tensor:
    """Return (B, S, K): true for a given cell's symbol, and for an open cell's symbols that its groups do not hold."""
    given = tokens[..., None] == symbol_tokens  # (B, S, K)
    together = (membership @ membership.T > 0).float()  # (S, S)
    excluded = torch.einsum("st,btk->bsk", together, given.float()) > 0
    return given | ~(excluded | given.any(-1, keepdim=True))


def receiving_symbols(senders: Tensor, membership: Tensor) -> Tensor:
    """Return (B, S, K): 1 at senders (B, S, K) with another sender in the cell, or of the same symbol in a group."""
    member = membership.float()
    heard = (member @ (member.T @ senders > 1).float() > 0) | (senders.sum(-1, keepdim=True) > 1)
    return heard * senders
