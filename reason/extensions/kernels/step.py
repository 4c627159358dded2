"""A whole supervision step of a mixer along a puzzle's structure in one kernel, on CPUs.

The kernel takes one puzzle at a time: its states, sums and messages stay in L2 through all network calls. It computes
only the positions that take part. Plain torch (`reason.nn.block.StructuredBlock`) is its reference.
"""

from __future__ import annotations

import ctypes
import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from reason.extensions.kernels.library import DTYPES, WIDTH, library
from reason.nn.norms import EPS

INNER = 32  # I is a multiple of it


class Wiring(NamedTuple):
    """What each of S' positions hears: the members of its groups, or its neighbours on the grid."""

    open: Tensor  # (B, S') uint8: the positions that are heard
    ids: Tensor | None  # (R, S') int32: the group of each position, for R relations
    counts: Tensor | None  # (R,) int32: groups of each relation
    scale: Tensor | None  # (G,) float32: factor of each group's sum, relation after relation
    taps: Tensor | None  # (T, S') int32: neighbours, −1 beyond the edge; None: a position hears itself
    instances: Tensor | None = None  # (B, N) int32: of each kind (instances, columns), numbers and then cells, −1: none
    kinds: Tensor | None = None  # (n, 5) int64: places, numbers, rows of the table for each, instances, columns
    symbols: int = 1  # positions of a cell
    values: bool = False  # they have an order: a position also hears the sum of the lower ones
    idle: bool = True  # the others have no state


def structured_step(
    z_h: Tensor, z_l: Tensor, x: Tensor, weights: Tensor, out: Tensor, wiring: Wiring, stages: Tensor, tanh: bool
) -> tuple[Tensor, Tensor]:
    """z_H and z_L after the calls that `stages` lists.

    Args:
        z_h, z_l, x: registers 0, 1 and 2, (B, S', D), bfloat16 or float32.
        weights: float32 (blocks, …): of every block the matrices (2I, D) of groups and of places, its own (2I, T·D),
            and for each kind the matrix of its sums (2D, …) and the table of its numbers (…, 2D).
        out: float32 (blocks, D, I), output projections.
        wiring: who hears whom.
        stages: int32 (n, 3): the block, the registers that its input sums up as bits, the register that it writes.
        tanh: the gate's activation is tanh, else SiLU.

    Sums, gates and norms are float32. Differentiable once, in reverse mode.
    """
    arguments = (z_h, z_l, x, weights, out, *wiring, stages, tanh)
    if torch.is_grad_enabled():
        z_h, z_l, *_ = torch.ops.reason.structured_step(*arguments, True)
    else:  # an operation of torch's would import its compiler
        z_h, z_l, *_ = states(*arguments, False)
    return z_h, z_l


def states(
    z_h: Tensor,
    z_l: Tensor,
    x: Tensor,
    weights: Tensor,
    out: Tensor,
    open: Tensor,
    ids: Tensor | None,
    counts: Tensor | None,
    scale: Tensor | None,
    taps: Tensor | None,
    instances: Tensor | None,
    kinds: Tensor | None,
    symbols: int,
    values: bool,
    idle: bool,
    stages: Tensor,
    tanh: bool,
    keep: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The states; for the backward pass, where `keep`, what every stage read and wrote, its gates, its norms."""
    wiring = Wiring(open, ids, counts, scale, taps, instances, kinds, symbols, values, idle)
    call = _Call((z_h, z_l, x), weights, out, wiring, stages)
    y_h, y_l = torch.empty_like(call.x), torch.empty_like(call.x)
    states, gates, norms = call.kept(int(call.base[-1]), keep)
    call.run("step_forward", tanh, y_h, y_l, *((states, gates, norms) if keep else (None,) * 3))
    return y_h, y_l, states, gates, norms


_forward = torch.library.custom_op("reason::structured_step", states, mutates_args=())


@_forward.register_fake
def _(z_h: Tensor, z_l: Tensor, x: Tensor, weights: Tensor, out: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    stages, _, keep = rest[-3:]
    positions = x.shape[0] * x.shape[1] * stages.shape[0] * keep  # at most
    sizes = 2 * positions * x.shape[2], 2 * positions * out.shape[2]
    kept = (*(x.new_empty(size) for size in sizes), x.new_empty(positions, dtype=torch.float32))
    return x.new_empty(x.shape), x.new_empty(x.shape), *kept


def gradients(
    dz_h: Tensor,
    dz_l: Tensor,
    z_h: Tensor,
    z_l: Tensor,
    x: Tensor,
    weights: Tensor,
    out: Tensor,
    open: Tensor,
    ids: Tensor | None,
    counts: Tensor | None,
    scale: Tensor | None,
    taps: Tensor | None,
    instances: Tensor | None,
    kinds: Tensor | None,
    symbols: int,
    values: bool,
    idle: bool,
    stages: Tensor,
    states: Tensor,
    gates: Tensor,
    norms: Tensor,
    tanh: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The gradients of z_h, z_l, x, weights and out."""
    wiring = Wiring(open, ids, counts, scale, taps, instances, kinds, symbols, values, idle)
    call = _Call((z_h, z_l, x), weights, out, wiring, stages)
    d_h, d_l, d_x = (torch.empty_like(call.x) for _ in range(3))
    d_weights, d_out = torch.empty_like(call.weights, dtype=torch.float32), torch.empty_like(out)
    found = (d_h, d_l, d_x, d_weights, d_out)
    call.run("step_backward", tanh, dz_h.contiguous(), dz_l.contiguous(), states, gates, norms, *found)
    blocks, shapes = len(out), call.matrices()  # the kernel leaves every matrix transposed
    parts = zip(shapes, d_weights.split([rows * columns for rows, columns in shapes], dim=1), strict=True)
    turned = [part.view(blocks, columns, rows).transpose(1, 2).reshape(blocks, -1) for (rows, columns), part in parts]
    return d_h, d_l, d_x, torch.cat(turned, dim=1), d_out


_backward = torch.library.custom_op("reason::structured_step_backward", gradients, mutates_args=())


@_backward.register_fake
def _(dz_h: Tensor, dz_l: Tensor, z_h: Tensor, z_l: Tensor, x: Tensor, weights: Tensor, out: Tensor, *_: Any) -> Any:
    d_h, d_l, d_x = (x.new_empty(x.shape) for _ in range(3))
    return d_h, d_l, d_x, weights.new_empty(weights.shape), out.new_empty(out.shape)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    *tensors, ctx.symbols, ctx.values, ctx.idle, stages, ctx.tanh, _ = inputs
    ctx.save_for_backward(*tensors, stages, *output[2:])
    ctx.set_materialize_grads(False)  # zeros for all that is kept, else


def _differentiate(ctx: Any, dz_h: Tensor | None, dz_l: Tensor | None, *_: Tensor) -> tuple[Tensor | None, ...]:
    *tensors, stages, states, gates, norms = ctx.saved_tensors
    dz_h, dz_l = (torch.zeros_like(tensors[0]) if dz is None else dz for dz in (dz_h, dz_l))
    wired = (*tensors, ctx.symbols, ctx.values, ctx.idle)
    found = torch.ops.reason.structured_step_backward(dz_h, dz_l, *wired, stages, states, gates, norms, ctx.tanh)
    return *found, *[None] * 13


_forward.register_autograd(_differentiate, setup_context=_save)


class _Call:
    """The arguments of a step, checked, as the kernel takes them."""

    def __init__(
        self,
        registers: tuple[Tensor, ...],
        weights: Tensor,
        out: Tensor,
        wiring: Wiring,
        stages: Tensor,
    ):
        registers = tuple(z.contiguous() for z in registers)
        self.x = registers[2]
        self.weights, self.out = (w.to(self.x.dtype).contiguous() for w in (weights, out))
        (batch, positions, width), (blocks, _, inner) = self.x.shape, out.shape
        open, ids, _, _, taps, instances, kinds, symbols, values, idle = wiring
        relations, heard = 0 if ids is None else len(ids), 1 + values if taps is None else len(taps)
        self.kinds = [] if kinds is None else kinds.tolist()
        columns = 0 if instances is None else instances.shape[1]
        self.sizes = [batch, positions, width, inner, relations, heard, blocks, len(stages)]
        self.sizes += [symbols, int(values), int(idle), columns, len(self.kinds)]
        assert self.x.dtype in DTYPES, "states of bfloat16 or float32"
        assert all(z.dtype == self.x.dtype and z.shape == self.x.shape for z in registers), "states alike"
        assert width % WIDTH == 0, f"D in multiples of {WIDTH}"
        assert inner % INNER == 0, f"I in multiples of {INNER}"
        assert weights.shape == (blocks, sum(map(math.prod, self.matrices()))), "a matrix for all that is heard"
        parts = [] if instances is None else instances.split([kind[3] * kind[4] for kind in self.kinds], dim=1)
        assert positions % symbols == 0
        assert not values or bool(open.all()), "every position takes part"
        for (places, numbers, rows, count, of), part in zip(self.kinds, parts, strict=True):
            assert part.dtype == torch.int32
            assert places in (1, of - numbers) or not count, "a cell for every place"
            said, cells = part.view(batch, count, of).split([numbers, of - numbers], dim=-1)
            assert said.numel() == 0 or -2 < int(said.min()) <= int(said.max()) < rows - 1, "numbers of the table"
            assert cells.numel() == 0 or int(cells.max()) < positions // symbols, "cells of the puzzle"
        assert out.shape == (blocks, width, inner)
        assert open.shape == (batch, positions)
        assert open.dtype == torch.uint8
        assert all(t is None or (t.shape[-1] == positions and t.dtype == torch.int32) for t in (ids, taps))
        assert int(stages[:, 0].max()) < blocks, "a block of its own number"
        members = open.sum(1, dtype=torch.int64) if idle else torch.full((batch,), positions)
        self.base = torch.cat([members.new_zeros(1), members.cumsum(0)])  # (B + 1,): where a puzzle's rows begin
        self.tensors = (*registers, *(t if t is None else t.contiguous() for t in wiring[:7]))
        self.tensors += (self.weights, self.out, stages.contiguous())

    def matrices(self) -> list[tuple[int, int]]:
        """(rows, columns) of each in a block's weights."""
        width, inner, relations, heard = self.sizes[2:6]
        parts = 3 if self.sizes[9] else 1
        places = sum(kind[0] for kind in self.kinds)
        found = [(2 * inner, width)] * (relations + places) + [(2 * inner, heard * width)]
        for of, numbers, rows, *_ in self.kinds:
            found += [(2 * width, of * parts * width), (1, numbers * rows * 2 * width)]
        return found

    def kept(self, positions: int, keep: bool) -> tuple[Tensor, Tensor, Tensor]:
        """Allocate states, gates and norms for the backward pass; without `keep` they are empty."""
        positions *= self.sizes[7] * keep
        width, inner = self.sizes[2:4]
        states, gates = self.x.new_empty(positions * 2 * width), self.x.new_empty(positions * 2 * inner)
        return states, gates, self.x.new_empty(positions, dtype=torch.float32)

    def run(self, name: str, tanh: bool, *tensors: Tensor | None) -> None:
        """Call the kernel."""
        sizes, inputs = (ctypes.c_long * 13)(*self.sizes), (ctypes.c_void_p * 13)(*map(_pointer, self.tensors))
        function = getattr(library(self.x.dtype), name)
        addresses = [ctypes.c_void_p(_pointer(t)) for t in (self.base, *tensors)]
        function(sizes, ctypes.c_float(EPS), ctypes.c_int(tanh), torch.get_num_threads(), inputs, *addresses)


def _pointer(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()
