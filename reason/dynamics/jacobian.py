"""Jacobian products and estimates from them: J = ∂f/∂z of a map z ↦ f(z) on (B, ...) with independent rows.

Every product is differentiable, in f's weights and in z. Attention runs in its math form and compiled networks run
eagerly in these calls: fused kernels have neither forward-mode nor double backward.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from reason.nn.dtypes import at_least_float32

Map = Callable[[Tensor], Tensor]  # (B, ...) -> (B, ...)
Product = Callable[[Map, Tensor, Tensor], Tensor]


@contextlib.contextmanager
def _derivable() -> Iterator[None]:
    with sdpa_kernel(SDPBackend.MATH), torch.compiler.set_stance("force_eager"):
        yield


def jvp(f: Map, z: Tensor, v: Tensor) -> Tensor:
    """Return J v at z, in forward mode, with one pass through f; shapes as z."""
    with _derivable():
        return torch.func.jvp(f, (z.clone(),), (v,))[1]  # an expanded z does not own memory for a dual


def vjp(f: Map, z: Tensor, v: Tensor) -> Tensor:
    """Return vᵀ J at z, in reverse mode; shapes as z."""
    with _derivable():
        pull = torch.func.vjp(f, z)[1]
        return pull(v)[0]


def estimated_diagonal(f: Map, z: Tensor, probes: int, product: Product = jvp) -> Tensor:
    """Return the mean of v ⊙ J v over Rademacher probes v (Hutchinson; Bekas et al.), shaped as z, unbiased.

    Its sum over a row estimates the trace with variance Σ_{i≠j} (J_ij² + J_ij J_ji)/probes. Probes come from the
    default generator.
    """
    total = torch.zeros_like(at_least_float32(z))
    for _ in range(probes):
        v = torch.randint(0, 2, z.shape, dtype=z.dtype, device=z.device) * 2 - 1  # whatever z's memory layout
        total = total + v * product(f, z, v)
    return total / probes
