"""Eigenvalues of the Jacobian of a large map, and the block of one cell."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from reason.dynamics.jacobian import Map, jvp


@torch.no_grad()
def eigenvalues(f: Map, z: Tensor, count: int) -> np.ndarray:
    """The `count` eigenvalues of largest modulus of J = ∂f/∂z at a single row z (1, ...), complex; by ARPACK.

    Those that have not converged after 300 iterations are left out.
    """
    from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigs  # slow to import

    size = z.numel()
    if size <= count + 2:
        columns = [jvp(f, z, e.view_as(z)).flatten() for e in torch.eye(size, dtype=z.dtype)]
        return np.asarray(torch.linalg.eigvals(torch.stack(columns, dim=1)))

    def product(v: np.ndarray) -> np.ndarray:
        direction = torch.from_numpy(np.ascontiguousarray(v)).to(z.dtype)
        return jvp(f, z, direction.view_as(z)).flatten().numpy()

    start = np.random.default_rng(0).standard_normal(size)
    operator = LinearOperator((size, size), matvec=product, dtype=np.float64)
    try:
        return np.asarray(eigs(operator, k=count, v0=start, tol=1e-4, maxiter=300, return_eigenvectors=False))
    except ArpackNoConvergence as failure:
        return np.asarray(failure.eigenvalues)


@torch.no_grad()
def cell_jacobian(f: Map, z: Tensor, cell: int) -> np.ndarray:
    """∂f(z)/∂z of one position of a single row z (1, S', D) with the others held: (D, D)."""
    width = z.shape[-1]
    directions = torch.zeros(width, *z.shape[1:], dtype=z.dtype)
    directions[:, cell] = torch.eye(width, dtype=z.dtype)
    columns = [jvp(f, z, direction[None])[0, cell] for direction in directions]
    return torch.stack(columns, dim=1).numpy()
