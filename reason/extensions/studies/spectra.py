"""The whole Jacobian of a small map, its diagonal, and the dominant eigenvalue of a map of any size."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from reason.dynamics.jacobian import Map, jvp


def full_jacobian(f: Map, z: Tensor) -> Tensor:
    """J of each row, (B, N, N) with N the numbers in a row: N products, for small maps."""
    rows, size = len(z), z[0].numel()
    basis = torch.eye(size, dtype=z.dtype, device=z.device).view(size, 1, *z.shape[1:]).expand(size, *z.shape)
    columns = [jvp(f, z, direction).reshape(rows, size) for direction in basis]
    return torch.stack(columns, dim=-1)


def exact_diagonal(f: Map, z: Tensor) -> Tensor:
    """The diagonal of J, shaped as z; its sum over a row is the trace. N products, for small maps."""
    return full_jacobian(f, z).diagonal(dim1=1, dim2=2).reshape(z.shape)


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
