"""Gated layers in one kernel on CPUs: the gate is computed in the products' registers."""

from __future__ import annotations

import ctypes
from typing import Any

import torch
from torch import Tensor

from reason.extensions.kernels.library import DTYPES, WIDTH, library
from reason.nn.mlp import SwiGLU
from reason.nn.norms import EPS

INNER = 64  # I is a multiple of it; B·D over the sequence, of WIDTH
PANEL = 64  # columns whose gate and up lie together, at most


def layer_by_kernel(layer: SwiGLU, x: Tensor, over_sequence: bool) -> Tensor | None:
    """The `kernel` of a gated layer; None where nothing is compiled, or the kernel has no tiles for this input."""
    if not torch.compiler.is_compiling() or not fits(x, layer.down.weight.shape[1], over_sequence):
        return None
    gate_up, down = layer.gate_up.weight.to(x.dtype), layer.down.weight.to(x.dtype)
    return swiglu_norm(x, gate_up, down, layer.activation is torch.tanh, over_sequence)


def fits(x: Tensor, inner: int, over_sequence: bool) -> bool:
    """Has the kernel tiles for a layer of this input?"""
    width = x.shape[1:].numel() if over_sequence else x.shape[-1]
    return x.dtype in DTYPES and x.device.type == "cpu" and inner % INNER == 0 and width % WIDTH == 0


def swiglu_norm(x: Tensor, gate_up: Tensor, down: Tensor, tanh: bool, over_sequence: bool) -> Tensor:
    """rms(x + down · (act(gate) ⊙ up)), (gate, up) = gate_up · x, mixing and norm along x's last axis or its first.

    x: (..., D), or (S, B, D) over the sequence; gate_up: (2I, D) or (2I, S); down: (D, I) or (S, I); all bfloat16
    or all float32, as the result, which has x's shape. Sums, gate and norm are float32. Differentiable once, in
    reverse mode.
    """
    return torch.ops.reason.swiglu_norm(x, gate_up, down, tanh, over_sequence, torch.is_grad_enabled())[0]


def layer(
    x: Tensor, gate_up: Tensor, down: Tensor, tanh: bool, over_sequence: bool, keep: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """The layer; for its backward pass, where `keep`, gate and up and the scale of the norm."""
    x = x.contiguous()
    _check(x, gate_up, down, over_sequence)
    y, kept, scale = _results(x, gate_up, down, tanh, over_sequence, keep)
    sizes = _sizes(x, down, over_sequence)
    tensors = (x, gate_up.contiguous(), down.contiguous(), y, *((kept, scale) if keep else (None, None)))
    _call(x.dtype, "swiglu_forward", over_sequence, tanh, *sizes, EPS, torch.get_num_threads(), *tensors)
    return y, kept, scale


# inductor keeps graphs on disk by the names of their operations: one whose results get other shapes needs another name.
_forward = torch.library.custom_op("reason::swiglu_norm", layer, mutates_args=())


@_forward.register_fake
def _results(
    x: Tensor, gate_up: Tensor, down: Tensor, tanh: bool, over_sequence: bool, keep: bool
) -> tuple[Tensor, Tensor, Tensor]:
    outer, width, inner = _sizes(x, down, over_sequence)
    kept = (-(-width // PANEL), 2 * inner, PANEL) if over_sequence else (outer, 2 * inner)
    scale = x.new_empty((width if over_sequence else outer) if keep else 0, dtype=torch.float32)
    return x.new_empty(x.shape), x.new_empty(kept if keep else (0,)), scale


def gradients(
    dy: Tensor,
    x: Tensor,
    y: Tensor,
    kept: Tensor,
    scale: Tensor,
    gate_up: Tensor,
    down: Tensor,
    tanh: bool,
    over_sequence: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of x, gate_up and down."""
    dy, x = dy.contiguous(), x.contiguous()
    assert (dy.shape, dy.dtype) == (x.shape, x.dtype), "the gradient of a result"
    outer, width, inner = _sizes(x, down, over_sequence)
    dh, dx = torch.empty_like(x), torch.empty_like(x)
    d_kept, product = (x.new_empty((n, width) if over_sequence else (outer, n)) for n in (2 * inner, inner))
    tensors = (dy, y, kept, scale, gate_up.contiguous(), down.contiguous(), dh, dx, d_kept, product)
    _call(x.dtype, "swiglu_backward", over_sequence, tanh, outer, width, inner, torch.get_num_threads(), *tensors)
    x, dh = x.view(outer, width), dh.view(outer, width)
    if over_sequence:  # this order, and its transpose, are the faster ones
        return dx, (x @ d_kept.T).T.contiguous(), dh @ product.T
    return dx, (x.T @ d_kept).T.contiguous(), dh.T @ product


_backward = torch.library.custom_op("reason::swiglu_norm_backward", gradients, mutates_args=())


@_backward.register_fake
def _(dy: Tensor, x: Tensor, y: Tensor, kept: Tensor, scale: Tensor, gate_up: Tensor, down: Tensor, *_: bool) -> Any:
    return x.new_empty(x.shape), gate_up.new_empty(gate_up.shape), down.new_empty(down.shape)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    x, gate_up, down, ctx.tanh, ctx.over_sequence, _ = inputs
    ctx.save_for_backward(x, *output, gate_up, down)
    ctx.set_materialize_grads(False)  # zeros for all that is kept, else


def _differentiate(ctx: Any, dy: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
    found = torch.ops.reason.swiglu_norm_backward(dy, *ctx.saved_tensors, ctx.tanh, ctx.over_sequence)
    return *found, None, None, None


_forward.register_autograd(_differentiate, setup_context=_save)


def _check(x: Tensor, gate_up: Tensor, down: Tensor, over_sequence: bool) -> None:
    """What the kernel reads without looking: AssertionError where one of these is not so."""
    assert x.dtype in DTYPES, "bfloat16 or float32"
    assert all(t.dtype == x.dtype and t.device.type == "cpu" for t in (x, gate_up, down)), "one type, on a CPU"
    assert x.ndim >= 2, "rows of numbers"
    outer, width, inner = _sizes(x, down, over_sequence)
    mixed = outer if over_sequence else width
    assert down.shape == (mixed, inner), f"down (n, I) for an x with n = {mixed}, got {tuple(down.shape)}"
    assert gate_up.shape == (2 * inner, mixed), f"gate_up (2I, {mixed}) for I = {inner}, got {tuple(gate_up.shape)}"
    assert inner % INNER == 0, f"I in multiples of {INNER}, got {inner}"
    assert width % WIDTH == 0, f"D, or B·D over the sequence, in multiples of {WIDTH}, got {width}"


def _sizes(x: Tensor, down: Tensor, over_sequence: bool) -> tuple[int, int, int]:
    """(R, D, I), or (S, B·D, I) over the sequence."""
    split = 1 if over_sequence else x.ndim - 1
    return x.shape[:split].numel(), x.shape[split:].numel(), down.shape[1]


def _call(dtype: torch.dtype, name: str, *arguments: Tensor | float | None) -> None:
    kernel, size, pointer = getattr(library(dtype), name), ctypes.c_long, ctypes.c_void_p
    scalars = [ctypes.c_float, ctypes.c_int] if name == "swiglu_forward" else [ctypes.c_int]
    kernel.argtypes = [ctypes.c_int, ctypes.c_int, size, size, size, *scalars]
    kernel.argtypes += [pointer] * (len(arguments) - len(kernel.argtypes))
    kernel(*(each.data_ptr() if isinstance(each, Tensor) else each for each in arguments))
