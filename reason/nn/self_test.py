"""Do the kernels compute what torch does? A small case of each, forward and backward."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from reason.nn import fused_step, fused_swiglu
from reason.nn.norms import rms_norm

FARTHEST = {torch.bfloat16: 0.01, torch.float32: 1e-5}  # relative; bfloat16 rounds by up to 0.004
WIDTH, INNER = 16, 64
Pair = tuple[Tensor, Tensor]  # by a kernel, by torch in float32


def agree(dtype: torch.dtype) -> bool:
    """Whether both kernels do, for numbers of a type."""
    with torch.inference_mode(False), torch.enable_grad():
        pairs = (*_layer(dtype), *_step(dtype))
        return all((got.float() - wanted).norm() <= FARTHEST[dtype] * wanted.norm() for got, wanted in pairs)


def _layer(dtype: torch.dtype) -> Iterator[Pair]:
    """A gated layer of seven rows."""
    x, gate_up, down, dy = _drawn(dtype, (7, WIDTH), (2 * INNER, WIDTH), (WIDTH, INNER), (7, WIDTH))
    y, kept, scale = fused_swiglu.layer(x, gate_up, down, False, False, True)
    yield from zip(
        (y, *fused_swiglu.gradients(dy, x, y, kept, scale, gate_up, down, False, False)),
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
    wiring = fused_step.Wiring(opened, ids, counts, scale, None, instance, kinds)
    stages = torch.tensor([[0, 4, 0]], dtype=torch.int32)  # z_H ← F(x̂)
    inputs = (x, x, x, weights.float(), out.float(), *wiring, stages)
    z_h, _, reads, gates, norms = fused_step.states(*inputs, False, True)
    _, _, *found = fused_step.gradients(dz, torch.zeros_like(dz), *inputs, reads, gates, norms, False)

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
