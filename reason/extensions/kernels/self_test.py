"""Do the kernels compute what torch does? A small case of each, forward and backward."""

from __future__ import annotations

import functools
import subprocess
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import Tensor

from reason.extensions.kernels import library, step, swiglu
from reason.nn.norms import rms_norm

FARTHEST = {torch.bfloat16: 0.01, torch.float32: 1e-5}  # relative; bfloat16 rounds by up to 0.004
WIDTH, INNER = 16, 64
Pair = tuple[Tensor, Tensor]  # by a kernel, by torch in float32


@functools.cache
def works(dtype: torch.dtype) -> bool:
    """Can this processor run the kernels of a type, and do they compute here what torch does?

    Compiled where they were not yet, in seconds. Without a compiler, or where the two differ, a warning says so, once.
    """
    if library.architecture(dtype) is None:
        return False
    try:
        if (fresh := library.library(dtype)) in library.UNTESTED:
            if not agree(dtype):
                library.digest_of(Path(fresh._name)).unlink(missing_ok=True)  # so it is not used again
                raise ArithmeticError("the compiled library computes other numbers than torch; set CXX to another one")
            library.UNTESTED.remove(fresh)
    except Exception as error:  # a compiler, a loader and a file system fail in ways of their own
        warnings.warn(f"no C++ kernel, so training is slower: {_reason(error)}", stacklevel=2)
        return False
    return True


def agree(dtype: torch.dtype) -> bool:
    """Whether both kernels do, for numbers of a type."""
    with torch.inference_mode(False), torch.enable_grad():
        pairs = (*_layer(dtype), *_step(dtype))
        return all((got.float() - wanted).norm() <= FARTHEST[dtype] * wanted.norm() for got, wanted in pairs)


def _layer(dtype: torch.dtype) -> Iterator[Pair]:
    """A gated layer of seven rows."""
    x, gate_up, down, dy = _drawn(dtype, (7, WIDTH), (2 * INNER, WIDTH), (WIDTH, INNER), (7, WIDTH))
    y, kept, scale = swiglu.layer(x, gate_up, down, False, False, True)
    yield from zip(
        (y, *swiglu.gradients(dy, x, y, kept, scale, gate_up, down, False, False)),
        _by_torch(lambda x, gate_up, down: _residual(x, x @ gate_up.T, down), dy, x, gate_up, down),
        strict=True,
    )


def _step(dtype: torch.dtype) -> Iterator[Pair]:
    """A step of one call on six positions in two groups, two of them in an instance with the number 1."""
    sizes = {"group": 2 * INNER, "answer": 2 * INNER, "own": 2 * INNER, "sums": 2 * WIDTH, "table": 3 * 2}
    shapes = (1, 6, WIDTH), (1, sum(sizes.values()) * WIDTH), (1, WIDTH, INNER), (1, 6, WIDTH)
    x, weights, out, dz = _drawn(dtype, *shapes)
    ids, scale = torch.tensor([[0, 0, 1, 0, 1, 1]], dtype=torch.int32), torch.full((2,), 3**-0.5)
    opened, counts = torch.ones(1, 6, dtype=torch.uint8), torch.tensor([2], dtype=torch.int32)
    instance, kinds = torch.tensor([[1, 0, 4]], dtype=torch.int32), torch.tensor([[1, 1, 3, 1, 3]])
    wiring = step.Wiring(opened, ids, counts, scale, None, instance, kinds)
    stages = torch.tensor([[0, 4, 0]], dtype=torch.int32)  # z_H ← F(x̂)
    inputs = (x, x, x, weights.float(), out.float(), *wiring, stages)
    z_h, _, reads, gates, norms = step.states(*inputs, False, True)
    _, _, *found = step.gradients(dz, torch.zeros_like(dz), *inputs, reads, gates, norms, False)

    def by_torch(x: Tensor, weights: Tensor, out: Tensor) -> Tensor:
        group, answer, own, sums, table = weights.view(-1, WIDTH).split(list(sizes.values()))
        member = (ids == ids.T).float()  # (6, 6)
        pair = torch.tensor([1.0, 0, 0, 0, 1, 0])  # cells 0 and 4
        gate, up = (2**-0.5 * (pair @ x[0]) @ sums.T + table.reshape(3, -1)[2]).chunk(2)
        said = pair[:, None] * (torch.nn.functional.silu(gate) * up @ answer.T)
        return _residual(x, x @ own.T + 3**-0.5 * (member @ x) @ group.T + said, out[0])

    yield from zip((z_h, *found), _by_torch(by_torch, dz, x, weights, out), strict=True)


def _residual(x: Tensor, gate_up: Tensor, down: Tensor) -> Tensor:
    gate, up = gate_up.chunk(2, dim=-1)
    return rms_norm(x + (torch.nn.functional.silu(gate) * up) @ down.T)


def _drawn(dtype: torch.dtype, *shapes: tuple[int, ...]) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=generator).to(dtype) * shape[-1] ** -0.25 for shape in shapes]


def _by_torch(function: Callable[..., Tensor], dy: Tensor, *inputs: Tensor) -> list[Tensor]:
    """The value in float32, and the gradients of the inputs."""
    inputs = tuple(each.float().requires_grad_() for each in inputs)
    y = function(*inputs)
    return [y.detach(), *torch.autograd.grad(y, inputs, dy.float())]


def _reason(error: Exception) -> str:
    if isinstance(error, subprocess.CalledProcessError):
        said = error.stderr.decode(errors="replace").strip().splitlines()
        return f"the compiler says {said[0] if said else error.returncode}"
    return str(error)
