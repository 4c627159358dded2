"""A supervision step in the kernel's form: a table of its calls, the inputs of each position, and the weights."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import torch
from torch import Tensor

from reason.extensions.kernels.library import DTYPES
from reason.extensions.kernels.step import Step, Wiring
from reason.models.base import Context
from reason.models.layout import Layout
from reason.models.mixing import MixingConfig
from reason.models.recursion import OneState, RecursiveState
from reason.models.recursive import RecursiveModel, States
from reason.nn.local import VON_NEUMANN, LocalMixer

Groups = tuple[Tensor | None, Tensor | None, Tensor | None]

Z_H, Z_L, X = 0, 1, 2  # the registers of the kernel


@functools.cache
def program(high: int, low: int, states: int, separate: bool, layers: int, repeats: int) -> Tensor:
    """Return (n, 3) int32, for each call of a block: the block, the registers of its input, that of its output.

    The input is a sum with a bit for each register. The first block of a network call reads the call's argument, each
    later block the output of the previous one. The loops are those of `reason.models.recursion`, with N_H = `high` and
    N_L = `low`. If the networks are separate, the blocks of F_H are numbered after those of F_L.
    """

    def call(first: int, argument: tuple[int, ...], written: int) -> list[tuple[int, int, int]]:
        blocks = [first + layer for layer in range(layers)] * repeats
        reads = [sum(1 << register for register in argument)] + [1 << written] * (len(blocks) - 1)
        return [(block, read, written) for block, read in zip(blocks, reads, strict=True)]

    if states == 1:
        low_call, high_call = call(0, (Z_H, X), Z_H), call(0, (Z_H,), Z_H)
    else:
        low_call, high_call = call(0, (Z_L, Z_H, X), Z_L), call(layers * separate, (Z_H, Z_L), Z_H)
    rows = []
    for _ in range(high):
        for _ in range(low):
            rows += low_call
        rows += high_call
    return torch.tensor(rows, dtype=torch.int32)


class WholeStep:
    """The `fused_step` of a model; stores the constants of the wiring for each size of puzzles."""

    def __init__(self) -> None:
        self.constants: dict[int, tuple[Groups, Tensor | None]] = {}  # by the number of cells

    def __call__(self, model: RecursiveModel, state: States, context: Context) -> States | None:
        """Return the state after the calls without and with gradient; None for another type or device."""
        x, c = context.x, model.config
        if x.dtype not in DTYPES or x.device.type != "cpu":
            return None
        blocks: list[Any] = [block.mixer for network in model.networks() for block in network.blocks]
        weights, out = (torch.stack(w) for w in zip(*map(matrices, blocks), strict=True))
        wiring, tanh = self.wiring(model.layout(context), c, context), c.activation == "tanh"
        head = getattr(blocks[0], "head", 0)  # of attention
        rows = program(c.h_cycles, c.l_cycles, c.states, c.separate_networks, c.num_layers, c.repeats)
        first = len(rows) - c.cycles.gradient_calls * c.num_layers * c.repeats
        z_h, z_l = state[0], state[-1]
        if first:
            with torch.no_grad():
                z_h, z_l = Step(wiring, rows[:first], tanh, head)(z_h, z_l, x, weights, out)
        z_h, z_l = Step(wiring, rows[first:], tanh, head)(z_h, z_l, x, weights, out)
        return OneState(z_h) if c.states == 1 else RecursiveState(z_h, z_l)

    def wiring(self, layout: Layout, config: MixingConfig, context: Context) -> Wiring:
        """Return the active positions and their inputs, for the kernel."""
        x, mask, cells = context.x, context.mask, layout.shape.seq_len
        if cells not in self.constants:
            self.constants[cells] = _groups(layout, config), _taps(layout, config)
        groups, taps = self.constants[cells]
        opened = x.new_ones(x.shape[:2]) if mask is None else mask.squeeze(-1)
        idle = layout.outside is None or layout.open_only
        return Wiring(opened.to(torch.uint8), *groups, taps, idle)


def matrices(mixer: Any) -> tuple[Tensor, Tensor]:
    """Return the flattened matrices of a mixer (groups, symbols, the position itself), and W_o.

    A local mixer has one matrix for all neighbours; attention has those of q, k and v, of messages, and of the MLP.
    """
    if isinstance(mixer, LocalMixer):
        weights = mixer.weight.flatten()
    elif hasattr(mixer, "head"):
        weights = torch.cat([linear.weight.flatten() for linear in (mixer.qkv, mixer.join, mixer.up)])
    else:
        linears = [*mixer.relations, *([] if mixer.symbols is None else [mixer.symbols]), mixer.own]
        weights = torch.cat([linear.weight.flatten() for linear in linears])
    return weights, mixer.out.weight


def _groups(layout: Layout, config: MixingConfig) -> Groups:
    """Return the group of each position by partition (R, S'), the group counts (R,), and 1/√n of each group."""
    structure, symbols = layout.shape.structure, layout.symbols
    partitions = [structure.partition(name) for name in structure.groups] if config.mixer != "local" else []
    ids = [(numbers[:, None] * symbols + np.arange(symbols)).ravel() for numbers in partitions]
    if symbols > 1:
        ids.append(np.arange(layout.shape.seq_len).repeat(symbols))
    if not ids:
        return None, None, None
    members = [np.bincount(of) for of in ids]
    return (
        torch.tensor(np.stack(ids), dtype=torch.int32),
        torch.tensor([len(of) for of in members], dtype=torch.int32),
        torch.tensor(np.concatenate(members) ** -0.5, dtype=torch.float32),
    )


def _taps(layout: Layout, config: MixingConfig) -> Tensor | None:
    """Return (T, S) int32, the cell at each offset from each cell, −1 beyond the edge; None: there is no grid."""
    if config.mixer != "local":
        return None
    assert layout.grid is not None, "checked when the model is built"
    rows, columns = layout.grid
    wide = np.pad(np.arange(rows * columns).reshape(rows, columns), 1, constant_values=-1)
    near = [wide[1 + down :, 1 + right :][:rows, :columns].ravel() for down, right in VON_NEUMANN]
    return torch.from_numpy(np.stack(near).astype(np.int32))
