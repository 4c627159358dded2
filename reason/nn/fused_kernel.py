"""The Triton kernel of `reason.nn.fused`: network calls in turn, one program a puzzle.

z_H, z_L and x̂ are read once and stay on the chip; every program streams the weights, which the cache of the GPU holds.
Products are summed in float32, states are rounded to their own type after every norm.
"""

from __future__ import annotations

import triton
import triton.language as tl

EPS = tl.constexpr(1e-5)  # of reason.nn.norms


@triton.jit
def _product(a, b, total, wide: tl.constexpr):
    """total + a b in the type of b with float32 sums; wide: factors in float32, which the interpreter needs."""
    if wide:
        return tl.dot(a.to(tl.float32), b.to(tl.float32), total, input_precision="ieee")
    return tl.dot(a.to(b.dtype), b, total, input_precision="ieee")


@triton.jit
def _sum(a, b):
    """a + b in their own type, by way of float32, which the interpreter needs."""
    return (a.to(tl.float32) + b.to(tl.float32)).to(a.dtype)


@triton.jit
def _gated(gate, up, tanh: tl.constexpr):
    """act(gate) ⊙ up, float32."""
    if tanh:
        return (2 * tl.sigmoid(2 * gate) - 1) * up
    return gate * tl.sigmoid(gate) * up


@triton.jit
def _rms(x, count, axis: tl.constexpr):
    """x / √(mean x² + ε) of float32 numbers along an axis, `count` of which are not beyond its end."""
    return x * tl.rsqrt(tl.sum(x * x, axis=axis, keep_dims=True) / count + EPS)


@triton.jit
def _swiglu(
    h,
    gate_up,
    down,
    length,
    inner,
    rows: tl.constexpr,
    width: tl.constexpr,
    chunk: tl.constexpr,
    tanh: tl.constexpr,
    wide: tl.constexpr,
):
    """down(act(gate) ⊙ up) of every row: (rows, width) -> (rows, width) float32, 0 beyond `length` features."""
    d = tl.arange(0, width)
    there = d < length
    total = tl.zeros((rows, width), tl.float32)
    empty = tl.zeros((rows, chunk), tl.float32)
    for first in range(0, inner, chunk):
        i = first + tl.arange(0, chunk)
        at = gate_up + i[None, :] * length + d[:, None]  # (width, chunk)
        gate = _product(h, tl.load(at, mask=there[:, None], other=0), empty, wide)
        up = _product(h, tl.load(at + inner * length, mask=there[:, None], other=0), empty, wide)
        out = tl.load(down + d[None, :] * inner + i[:, None], mask=there[None, :], other=0)  # (chunk, width)
        total = _product(_gated(gate, up, tanh), out, total, wide)
    return total


@triton.jit
def _turned(
    h,
    weights,
    rotary,
    length,
    cells: tl.constexpr,
    width: tl.constexpr,
    half: tl.constexpr,
    rotates: tl.constexpr,
    wide: tl.constexpr,
):
    """The two halves of a head's queries or keys (S, d/2), rotated by their position."""
    s, d, e = tl.arange(0, cells), tl.arange(0, width), tl.arange(0, half)
    at = weights + e[None, :] * width + d[:, None]  # (D, d/2)
    empty = tl.zeros((cells, half), tl.float32)
    first, second = _product(h, tl.load(at), empty, wide), _product(h, tl.load(at + half * width), empty, wide)
    if rotates:
        angle = rotary + s[:, None] * 2 * half + e[None, :]
        there = (s < length)[:, None]
        cos, sin = tl.load(angle, mask=there, other=0), tl.load(angle + length * 2 * half, mask=there, other=0)
        return first * cos - second * sin, second * cos + first * sin
    return first, second


@triton.jit
def _attention(
    h,
    qkv,
    out,
    rotary,
    length,
    heads,
    cells: tl.constexpr,
    width: tl.constexpr,
    half: tl.constexpr,
    rotates: tl.constexpr,
    wide: tl.constexpr,
):
    """Multi-head attention: (S, D) -> (S, D) float32, anything beyond `length`."""
    s, d, e = tl.arange(0, cells), tl.arange(0, width), tl.arange(0, 2 * half)
    total = tl.zeros((cells, width), tl.float32)
    for head in range(heads):
        rows = qkv + head * 2 * half * width
        q_1, q_2 = _turned(h, rows, rotary, length, cells, width, half, rotates, wide)
        k_1, k_2 = _turned(h, rows + width * width, rotary, length, cells, width, half, rotates, wide)
        kind = out.dtype.element_ty
        scores = _product(q_1.to(kind), tl.trans(k_1.to(kind)), tl.zeros((cells, cells), tl.float32), wide)
        scores = _product(q_2.to(kind), tl.trans(k_2.to(kind)), scores, wide) * (2.0 * half) ** -0.5
        scores = tl.where((s < length)[None, :], scores, float("-inf"))
        share = tl.exp(scores - tl.max(scores, axis=1)[:, None])
        share = share / tl.sum(share, axis=1)[:, None]
        values = tl.load(rows + 2 * width * width + e[None, :] * width + d[:, None])  # (D, d)
        v = _product(h, values, tl.zeros((cells, 2 * half), tl.float32), wide)
        y = _product(share.to(kind), v.to(kind), tl.zeros((cells, 2 * half), tl.float32), wide)
        back = tl.load(out + d[None, :] * width + head * 2 * half + e[:, None])  # (d, D)
        total = _product(y, back, total, wide)
    return total


@triton.jit
def calls_kernel(
    z_h,  # (B, S, D), as z_l, x and what is written
    z_l,
    x,
    new_h,
    new_l,
    mix_in,  # (networks, layers, 3D, D) of attention, (networks, layers, 2J, S) over the sequence
    mix_out,  # (networks, layers, D, D), (networks, layers, S, J)
    gate_up,  # (networks, layers, 2I, D)
    down,  # (networks, layers, D, I)
    rotary,  # (2, S, d) float32
    seed,  # (1,) int64, of the noise
    sigma,  # of the noise
    calls,  # network calls in all
    l_cycles,
    length,  # S
    layers,
    turns,  # layers · repeats
    mix_inner,  # J
    inner,  # I
    heads,
    cells: tl.constexpr,  # S rounded up to a power of two
    width: tl.constexpr,
    half: tl.constexpr,  # half of a head
    chunk: tl.constexpr,  # inner features at a time
    attends: tl.constexpr,
    rotates: tl.constexpr,
    tanh: tl.constexpr,
    single: tl.constexpr,  # one state: F(z + x̂), then F(z)
    networks: tl.constexpr,  # 2: F_H has weights of its own
    noise: tl.constexpr,  # 0: none; 1: additive; 2: multiplied with F(z)
    wide: tl.constexpr,
):
    """`calls` network calls of one puzzle."""
    s, d = tl.arange(0, cells), tl.arange(0, width)
    there = (s < length)[:, None]
    at = tl.program_id(0).to(tl.int64) * length * width + s[:, None] * width + d[None, :]
    high = tl.load(z_h + at, mask=there, other=0)
    low = tl.load(z_l + at, mask=there, other=0)
    given = tl.load(x + at, mask=there, other=0)
    kind = high.dtype
    in_size, out_size = (3 * width * width, width * width) if attends else (2 * mix_inner * length, length * mix_inner)
    for call in range(calls):
        is_high = call % (l_cycles + 1) == l_cycles
        if single:
            h = tl.where(is_high, high, _sum(high, given))
        else:
            h = _sum(low, tl.where(is_high, high, _sum(high, given)))
        first = tl.where(is_high, (networks - 1) * layers, 0)
        for turn in range(turns):
            layer = first + turn % layers
            mix = mix_in + layer * in_size
            mix_back = mix_out + layer * out_size
            if attends:
                mixed = _attention(h, mix, mix_back, rotary, length, heads, cells, width, half, rotates, wide)
                h = _rms(tl.where(there, h.to(tl.float32) + mixed, 0), width, 1).to(kind)
            else:
                along = tl.trans(h)  # features are cells
                mixed = tl.trans(_swiglu(along, mix, mix_back, length, mix_inner, width, cells, chunk, tanh, wide))
                h = _rms(h.to(tl.float32) + mixed, length, 0).to(kind)
            into = gate_up + layer * 2 * inner * width
            back = down + layer * width * inner
            mixed = _swiglu(h, into, back, width, inner, cells, width, chunk, tanh, wide)
            h = _rms(h.to(tl.float32) + mixed, width, 1).to(kind)
        if noise > 0:
            moved = h.to(tl.float32)
            kick = tl.where(there, sigma * tl.randn(tl.load(seed) + call, at), 0)
            h = (moved + (kick if noise == 1 else moved * kick)).to(kind)
        if single:
            high = h
        else:
            high = tl.where(is_high, h, high)
            low = tl.where(is_high, low, h)
    tl.store(new_h + at, high, mask=there)
    tl.store(new_l + at, high if single else low, mask=there)
