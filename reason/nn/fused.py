"""Network calls without gradient in one kernel: the state of a puzzle stays on the chip, the weights stream."""

from __future__ import annotations

import os
from collections.abc import Sequence

import torch
from torch import Tensor

from reason.nn.block import Block, Stack

WIDTHS = (32, 64, 128)  # of the hidden axis and of heads
CELLS = 128  # positions of a puzzle, prefix included, at most
OLDEST = (8, 0)  # compute capability; a T4 (7.5) has too few registers
CHUNK = 64  # inner features at a time; inner widths are multiples of 256


def interpreted() -> bool:
    """Does Triton interpret its kernels, on any device (TRITON_INTERPRET=1)?"""
    return os.environ.get("TRITON_INTERPRET") == "1"


def calls_in_turn(
    networks: Sequence[Stack],
    z_h: Tensor,
    z_l: Tensor,
    x: Tensor,
    rotary: Tensor | None,
    calls: int,
    l_cycles: int,
    states: int,
    products: torch.dtype,
    noise: str = "none",
    sigma: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """(z_H, z_L) after the first `calls` network calls of a supervision step, without gradient.

    networks: F_L, and F_H where it is another; z_h, z_l and x: (B, S, D); products: the type of the weights. What
    `RecursiveModel` computes call by call, with other roundings of what lies between two norms, and other draws of the
    same noise, from one number of the default generator.
    """
    assert x.shape[1] <= CELLS, "the model refuses longer puzzles"
    blocks = [[block for block in network.blocks if isinstance(block, Block)] for network in networks]
    own = blocks[0][0]
    stacked = [
        torch.stack([parameter.to(products) for parameter in part])
        for part in zip(*(_weights(block) for network in blocks for block in network), strict=True)
    ]
    heads = 0 if own.attention is None else own.attention.num_heads
    tanh = own.mlp.activation is torch.tanh
    turns = [len(blocks[0]), networks[0].repeats]
    if rotary is None:
        rotary = torch.empty(0, device=x.device)
    seed = torch.zeros(1, dtype=torch.int64, device=x.device)
    if noise != "none":
        seed = torch.randint(2**31, (1,), device=x.device)
    sizes = [calls, l_cycles, states, len(networks), *turns, heads, ("none", "additive", "multiplicative").index(noise)]
    return _calls(z_h, z_l, x, stacked, rotary, seed, sizes, tanh, sigma)


def _weights(block: Block) -> tuple[Tensor, ...]:
    if block.attention is not None:
        mixing = (block.attention.qkv, block.attention.out)
    else:
        assert block.mixer is not None, "the config has refused other mixers"
        mixing = (block.mixer.gate_up, block.mixer.down)
    return tuple(part.weight for part in (*mixing, block.mlp.gate_up, block.mlp.down))


@torch.library.custom_op("reason::calls_in_turn", mutates_args=())
def _calls(
    z_h: Tensor,
    z_l: Tensor,
    x: Tensor,
    weights: list[Tensor],
    rotary: Tensor,
    seed: Tensor,
    sizes: list[int],
    tanh: bool,
    sigma: float,
) -> tuple[Tensor, Tensor]:
    from reason.nn.fused_kernel import calls_kernel  # Triton, which not every machine has

    calls, l_cycles, states, networks, layers, repeats, heads, noise = sizes
    z_h, z_l, x = z_h.contiguous(), z_l.contiguous(), x.contiguous()
    new_h, new_l = torch.empty_like(z_h), torch.empty_like(z_h)
    batch, length, width = x.shape
    mix_in, mix_out, gate_up, down = weights
    calls_kernel[(batch,)](
        *(z_h, z_l, x, new_h, new_l, mix_in, mix_out, gate_up, down, rotary, seed, sigma),
        *(calls, l_cycles, length, layers, layers * repeats, mix_out.shape[-1], down.shape[-1], heads),
        cells=max(16, 1 << (length - 1).bit_length()),
        width=width,
        half=width // heads // 2 if heads else 16,
        chunk=CHUNK,
        attends=heads > 0,
        rotates=rotary.numel() > 0,
        tanh=tanh,
        single=states == 1,
        networks=networks,
        noise=noise,
        wide=interpreted(),
        num_warps=8,
    )
    return new_h, new_l


@_calls.register_fake
def _(z_h: Tensor, *_: object) -> tuple[Tensor, Tensor]:
    like = torch.empty(z_h.shape, dtype=z_h.dtype, device=z_h.device)
    return like, torch.empty_like(like)
