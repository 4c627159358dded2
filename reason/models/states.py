"""States of any model: a named tuple of (B, S, D) tensors, the input of the readout first.

The rows of a batch are independent puzzles. Measures are one number per row, over all parts of a state.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import Tensor

from reason.models.base import Reasoner, State
from reason.nn.dtypes import widest_float


def precise(model: Reasoner) -> Reasoner:
    """Return a copy in evaluation mode that computes in the widest float of its device."""
    device = next(model.parameters()).device
    twin = copy.deepcopy(model).to(widest_float(device)).eval()
    twin.dtype, twin.products = widest_float(device), None
    return twin


def mapped(state: State, change: Callable[..., Tensor], *others: State) -> State:
    """Apply `change` to every tensor, together with the same tensor of each state in `others`."""
    return type(state)(*map(change, state, *others))


def rows_of(state: State, rows: slice | Tensor) -> State:
    """Return the state of some rows."""
    return mapped(state, lambda z: z[rows])


def row_norm(z: Tensor) -> Tensor:
    """Return ‖z‖₂ (B,) of every row of (B, S, D), summed in float32 or wider."""
    return torch.linalg.vector_norm(z, dim=(1, 2), dtype=torch.promote_types(z.dtype, torch.float32))


def random_like(state: State, normal: Callable[[Tensor], Tensor]) -> State:
    """Return random normals from `normal`, scaled to each row's size, as another initial state."""
    return mapped(state, lambda z: normal(z) * size_of_rows(z))


def normal_like(z: Tensor) -> Tensor:
    """Draw N(0, 1) in z's shape, type and device, independent of z's memory layout.

    The numbers of `torch.randn_like` depend on the layout, and on a CPU it draws those of a transposed tensor one by
    one, seven times as slowly.
    """
    return torch.randn(z.shape, dtype=z.dtype, device=z.device)


def size_of_rows(z: Tensor) -> Tensor:
    """Return the root mean square of each row, (B, 1, 1); 1 for a row of zeros."""
    size = row_norm(z) / z[0].numel() ** 0.5
    return torch.where(size > 0, size, 1.0).to(z.dtype).view(-1, 1, 1)


def norm(state: State) -> Tensor:
    """Return ‖z‖₂ (B,) of every row over all parts."""
    return torch.stack([row_norm(z) for z in state]).square().sum(0).sqrt()


def distance(a: State, b: State) -> Tensor:
    """Return ‖b − a‖₂ (B,) of every row over all parts."""
    return norm(mapped(a, torch.sub, b))


def residual(before: State, after: State) -> Tensor:
    """Return ‖z_{k+1} − z_k‖/‖z_k‖ (B,) of every row over all parts; inf from a state of 0."""
    return distance(before, after) / norm(before)
