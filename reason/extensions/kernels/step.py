"""A whole supervision step of a mixer along a puzzle's structure in one kernel, on CPUs.

The kernel takes one puzzle at a time: its states, sums and messages stay in L2 through all network calls. It computes
only the active positions. Plain torch (`reason.nn.block.StructuredBlock`) is its reference.
"""

from __future__ import annotations

import ctypes
import math
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from reason.extensions.kernels.library import DTYPES, library
from reason.nn.norms import EPS

WIDTH, INNER = 16, 32  # D and I are multiples of these


class Wiring(NamedTuple):
    """The inputs of each of S' positions: the members of its groups, or its neighbours in the grid."""

    open: Tensor  # (B, S') uint8: the positions that send to others
    ids: Tensor | None  # (R, S') int32: the group of each position, for R relations
    counts: Tensor | None  # (R,) int32: number of groups of each relation
    scale: Tensor | None  # (G,) float32: factor of each group's sum, relation after relation
    taps: Tensor | None  # (T, S') int32: neighbours, −1 beyond the edge; None: only the position itself
    idle: bool = True  # False: only the active ones have a state


class Step(NamedTuple):
    """The kernel's function of three registers (B, S', D) of bfloat16 or float32: z_H, z_L and x.

    Sums, gates and norms are float32.
    """

    wiring: Wiring
    stages: Tensor  # int32 (n, 3): the block, the registers of its input (bits), the register of its output
    tanh: bool  # the gate's activation; else SiLU
    head: int = 0  # width of attention within groups, for one relation; 0: messages are sums

    def __call__(self, z_h: Tensor, z_l: Tensor, x: Tensor, weights: Tensor, out: Tensor) -> tuple[Tensor, Tensor]:
        """Return z_H and z_L after all stages; differentiable once, in reverse mode.

        weights: float32 (blocks, …): for each block the matrices (2I, D) of relations, and that of the position itself
        (2I, T·D); with attention those of q, k and v (R·3·head, D), of messages (D, R·head), of gate and up (2I, D).
        out: float32 (blocks, D, I).
        """
        registers = tuple(z.contiguous() for z in (z_h, z_l, x))
        if torch.is_grad_enabled():
            after: tuple[Tensor, Tensor] = _Differentiable.apply(self, *registers, weights, out)
            return after
        return self.forward(registers, weights, out, keep=False)[0]

    def forward(
        self, registers: tuple[Tensor, ...], weights: Tensor, out: Tensor, keep: bool
    ) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, ...]]:
        """Compute the results; with `keep` also the states, gates, norms and messages that the backward pass needs."""
        x, (_, width, inner) = registers[2], out.shape
        results = x.new_empty(x.shape), x.new_empty(x.shape)
        positions = int(self.base()[-1]) * len(self.stages)
        states, gates = (x.new_empty(positions * 2 * n) for n in (width, inner))
        norms = x.new_empty(positions * (2 if self.head else 1), dtype=torch.float32)
        middle = x.new_empty(positions * (width + 3 * self.reads()[0] * self.head) if self.head else 0)
        kept = (states, gates, norms, middle) if keep else ()
        self.run("step_forward", registers, weights, out, *results, *(kept or (None,) * 4))
        return results, kept

    def backward(
        self, registers: tuple[Tensor, ...], weights: Tensor, out: Tensor, kept: tuple[Tensor, ...], *dz: Tensor
    ) -> tuple[Tensor, ...]:
        """Compute the gradients of the registers, the weights and `out`."""
        d_registers = tuple(registers[2].new_empty(registers[2].shape) for _ in range(3))
        d_weights, d_out = (torch.zeros_like(each, dtype=torch.float32) for each in (weights, out))
        if not len(registers[2]):
            return *d_registers, d_weights, d_out
        given = (*(d.contiguous() for d in dz), *kept)
        self.run("step_backward", registers, weights, out, *given, *d_registers, d_weights, d_out)
        blocks, shapes = len(out), self.matrices(*out.shape[1:])  # the kernel returns each matrix transposed
        parts = zip(shapes, d_weights.split([rows * columns for rows, columns in shapes], dim=1), strict=True)
        turned = [
            part.view(blocks, columns, rows).transpose(1, 2).reshape(blocks, -1) for (rows, columns), part in parts
        ]
        return *d_registers, torch.cat(turned, dim=1), d_out

    def base(self) -> Tensor:
        """Return (B + 1,): the first row of each puzzle among the computed rows."""
        opened = self.wiring.open
        each = opened.sum(1, dtype=torch.int64) if self.wiring.idle else torch.full((len(opened),), opened.shape[1])
        return torch.cat([each.new_zeros(1), each.cumsum(0)])

    def reads(self) -> tuple[int, int]:
        """Return the number of relations, and of positions that a position's local matrix reads."""
        ids, taps = self.wiring.ids, self.wiring.taps
        return 0 if ids is None else len(ids), 1 if taps is None else len(taps)

    def matrices(self, width: int, inner: int) -> list[tuple[int, int]]:
        """Return the shape (rows, columns) of each matrix in a block's weights."""
        relations, local = self.reads()
        if self.head:
            heads = relations * self.head
            return [(3 * heads, width), (width, heads), (2 * inner, width)]
        return [(2 * inner, width)] * relations + [(2 * inner, local * width)]

    def run(self, name: str, registers: tuple[Tensor, ...], weights: Tensor, out: Tensor, *more: Tensor | None) -> None:
        """Call a function of the kernel."""
        x, (blocks, width, inner), wiring = registers[2], out.shape, self.wiring
        assert x.dtype in DTYPES, "states of bfloat16 or float32"
        assert all(z.dtype == x.dtype and z.shape == x.shape and z.is_contiguous() for z in registers), "states alike"
        assert weights.shape == (blocks, sum(map(math.prod, self.matrices(width, inner)))), "a matrix for what is read"
        sizes = [*x.shape, inner, *self.reads(), blocks, len(self.stages), int(wiring.idle), self.head]
        cast = [w.to(x.dtype).contiguous() for w in (weights, out)]
        tensors = [*registers, *(t if t is None else t.contiguous() for t in wiring[:5]), *cast, self.stages]
        base = self.base()
        getattr(library(x.dtype), name)(
            (ctypes.c_long * len(sizes))(*sizes), ctypes.c_float(EPS), ctypes.c_int(self.tanh), torch.get_num_threads(),
            (ctypes.c_void_p * len(tensors))(*map(_pointer, tensors)),
            *(ctypes.c_void_p(_pointer(t)) for t in (base, *more)),
        )  # fmt: skip


class _Differentiable(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, step: Step, *tensors: Tensor) -> tuple[Tensor, Tensor]:
        *registers, weights, out = tensors
        results, kept = step.forward(tuple(registers), weights, out, keep=True)
        ctx.step = step
        ctx.save_for_backward(*tensors, *kept)
        return results

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *dz: Tensor) -> tuple[Tensor | None, ...]:
        *registers, weights, out, states, gates, norms, middle = ctx.saved_tensors
        return None, *ctx.step.backward(tuple(registers), weights, out, (states, gates, norms, middle), *dz)


def _pointer(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()
