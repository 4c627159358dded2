"""Jacobian products, diagonal and eigenvalues: J = ∂f/∂z of a map z ↦ f(z) on (B, ...) with independent rows.

Every product is differentiable, in f's weights and in z. Attention runs in its math form and compiled networks run
eagerly meanwhile: fused kernels have neither forward-mode nor double backward.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from reason.nn.draws import normal_like
from reason.nn.dtypes import at_least_float32

Map = Callable[[Tensor], Tensor]  # (B, ...) -> (B, ...)
Product = Callable[[Map, Tensor, Tensor], Tensor]


@contextlib.contextmanager
def _derivable() -> Iterator[None]:
    with sdpa_kernel(SDPBackend.MATH), torch.compiler.set_stance("force_eager"):
        yield


def jvp(f: Map, z: Tensor, v: Tensor) -> Tensor:
    """J v at z, in forward mode: one pass through f, whatever its depth; shapes as z."""
    with _derivable():
        return torch.func.jvp(f, (z.clone(),), (v,))[1]  # an expanded z has no memory of its own for a dual


def vjp(f: Map, z: Tensor, v: Tensor) -> Tensor:
    """vᵀ J at z, in reverse mode; shapes as z."""
    with _derivable():
        pull = torch.func.vjp(f, z)[1]
        return pull(v)[0]


def full_jacobian(f: Map, z: Tensor) -> Tensor:
    """J of each row, (B, N, N) with N the numbers in a row: N products, for small maps."""
    rows, size = len(z), z[0].numel()
    basis = torch.eye(size, dtype=z.dtype, device=z.device).view(size, 1, *z.shape[1:]).expand(size, *z.shape)
    columns = [jvp(f, z, direction).reshape(rows, size) for direction in basis]
    return torch.stack(columns, dim=-1)


def exact_diagonal(f: Map, z: Tensor) -> Tensor:
    """The diagonal of J, shaped as z; its sum over a row is the trace. N products, for small maps."""
    return full_jacobian(f, z).diagonal(dim1=1, dim2=2).reshape(z.shape)


def estimated_diagonal(f: Map, z: Tensor, probes: int, product: Product = jvp) -> Tensor:
    """Mean of v ⊙ J v over Rademacher probes v (Hutchinson; Bekas et al.), shaped as z, unbiased.

    Its sum over a row estimates the trace with variance Σ_{i≠j} (J_ij² + J_ij J_ji)/probes. Probes come from the
    default generator.
    """
    total = torch.zeros_like(at_least_float32(z))
    for _ in range(probes):
        v = rademacher_like(z)
        total = total + v * product(f, z, v)
    return total / probes


def rademacher_like(z: Tensor) -> Tensor:
    """Random signs, shaped as z, whatever the order of z in memory."""
    return torch.randint(0, 2, z.shape, dtype=z.dtype, device=z.device) * 2 - 1


def unit_normal_like(z: Tensor) -> Tensor:
    """Random directions, each row of Euclidean norm 1, shaped as z."""
    v = normal_like(z)
    return v / row_norm_keepdim(v)


def row_norm_keepdim(z: Tensor) -> Tensor:
    """‖z‖₂ of each row, (B, 1, ...), so that it divides z."""
    return torch.linalg.vector_norm(z.flatten(1), dim=1).view(-1, *[1] * (z.ndim - 1))


class PowerIteration(NamedTuple):
    """The last product's norm ‖J v‖, (B,), and its direction, shaped as z and detached."""

    growth: Tensor
    direction: Tensor


def power_iteration(f: Map, z: Tensor, v: Tensor, iterations: int, product: Product = jvp) -> PowerIteration:
    """`iterations` times j = J v, v ← j/‖j‖ from unit directions v; the gradient flows through the last product alone.

    The growth nears |λ₁| of each row where a real eigenvalue dominates. With one iteration and random v its square
    is a Frobenius estimate, E‖J v‖² = ‖J‖²_F/N, not a spectral radius.
    """
    for _ in range(iterations - 1):
        with torch.no_grad():
            v = _unit(product(f, z, v))
    j = product(f, z, v.detach())
    return PowerIteration(row_norm_keepdim(j).flatten(), _unit(j.detach()))


def _unit(j: Tensor) -> Tensor:
    return j / row_norm_keepdim(j).clamp(min=torch.finfo(j.dtype).tiny)


def dominant_eigenvalue(f: Map, z: Tensor, tolerance: float = 1e-5, max_iterations: int = 1000) -> complex:
    """The eigenvalue of largest modulus of J at a single row z (1, ...): ARPACK on products J v.

    Small maps (N < 8) are solved densely. Where ARPACK does not converge the answer is nan.
    """
    assert len(z) == 1, "one row has one Jacobian"
    size = z.numel()
    if size < 8:
        values = torch.linalg.eigvals(full_jacobian(f, z)[0].detach().cpu().double())
        return complex(values[values.abs().argmax()])
    from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigs  # for this function alone: slow to import

    @torch.no_grad()
    def product(v: np.ndarray) -> np.ndarray:
        direction = torch.from_numpy(np.ascontiguousarray(v, dtype=np.float64)).to(z.dtype).to(z.device)
        return jvp(f, z, direction.view(z.shape)).flatten().cpu().double().numpy()

    start = np.random.default_rng(0).standard_normal(size)
    operator = LinearOperator((size, size), matvec=product, dtype=np.float64)
    try:
        values = eigs(operator, k=1, which="LM", v0=start, tol=tolerance, maxiter=max_iterations)[0]
    except ArpackNoConvergence as failure:
        values = failure.eigenvalues
    return complex(values[np.abs(values).argmax()]) if len(values) else complex("nan")
