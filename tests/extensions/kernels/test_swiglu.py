"""Gated layers with residual and norm in one kernel: beside float64 and beside torch's own; how it is compiled."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from reason.extensions.kernels.swiglu import fits, layer_by_kernel, swiglu_norm
from reason.nn.block import Block
from reason.nn.geometry import UNKNOWN
from reason.nn.mlp import SwiGLU

pytest_plugins = ["instructions"]
SHAPES = {  # S, B, D, I: whole tiles; odd rows, a part of a panel; fewer rows than a tile, other widths
    "sudoku": (81, 4, 128, 512),
    "remainders": (17, 5, 48, 256),
    "few rows": (3, 1, 16, 64),
}
ROUNDED = {torch.bfloat16: 4e-3, torch.float32: 1e-6}  # relative


class Case(NamedTuple):
    """A layer of numbers of one type, its input and the gradient of its output."""

    gate_up: Tensor
    down: Tensor
    x: Tensor
    dy: Tensor

    def gradients(self, y: Tensor) -> list[Tensor]:
        return [y, *torch.autograd.grad(y, (self.x, self.gate_up, self.down), self.dy)]

    def to(self, dtype: torch.dtype) -> Case:
        return Case(*(part.detach().to(dtype).requires_grad_(part.requires_grad) for part in self))


def case(shape: str, over_sequence: bool, numbers: torch.dtype) -> Case:
    s, b, d, i = SHAPES[shape]
    mixed = s if over_sequence else d
    gate_up, down = torch.randn(2 * i, mixed) * 2 * mixed**-0.5, torch.randn(mixed, i) * i**-0.5
    x, dy = torch.randn(s, b, d), torch.randn(s, b, d)
    return Case(*(each.to(numbers).requires_grad_() for each in (gate_up, down, x)), dy.to(numbers))


def by_torch(c: Case, activation: str, over_sequence: bool) -> list[Tensor]:
    layer = SwiGLU(c.down.shape[0], c.down.shape[1], activation).to(c.x.dtype)
    weights = {"gate_up.weight": c.gate_up, "down.weight": c.down}
    y = torch.func.functional_call(Residual(layer, over_sequence), {f"layer.{k}": v for k, v in weights.items()}, c.x)
    return c.gradients(y)


class Residual(torch.nn.Module):
    def __init__(self, layer: SwiGLU, over_sequence: bool):
        super().__init__()
        self.layer, self.over_sequence = layer, over_sequence

    def forward(self, x: Tensor) -> Tensor:
        return self.layer.residual(x, self.over_sequence)


def distance(one: Tensor, other: Tensor) -> float:
    return ((one.double() - other).norm() / other.norm()).item()


@pytest.mark.parametrize("over_sequence", [False, True])
@pytest.mark.parametrize("activation", ["silu", "tanh"])
@pytest.mark.parametrize("shape", SHAPES)
def test_values_and_gradients_are_as_near_to_float64_as_torchs(
    shape: str, activation: str, over_sequence: bool, numbers: torch.dtype
) -> None:
    c = case(shape, over_sequence, numbers)
    exact = by_torch(c.to(torch.float64), activation, over_sequence)
    ours = c.gradients(swiglu_norm(c.x, c.gate_up, c.down, activation == "tanh", over_sequence))
    for got, theirs, expected in zip(ours, by_torch(c, activation, over_sequence), exact, strict=True):
        assert got.dtype == numbers
        assert got.shape == expected.shape
        assert distance(got, expected) < 1.5 * ROUNDED[numbers]
        assert distance(got, expected) < 1.25 * distance(theirs, expected) + ROUNDED[numbers] / 4


@pytest.mark.parametrize("over_sequence", [False, True])
def test_threads_and_gradients_change_no_digit(over_sequence: bool, numbers: torch.dtype) -> None:
    c, threads, found = case("sudoku", over_sequence, numbers), torch.get_num_threads(), []
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            found.append(c.gradients(swiglu_norm(c.x, c.gate_up, c.down, False, over_sequence))[:2])
    finally:
        torch.set_num_threads(threads)
    for other in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(found[0], other, strict=True))
    with torch.no_grad():
        assert torch.equal(swiglu_norm(c.x, c.gate_up, c.down, False, over_sequence), found[0][0])
        strided = c.x.transpose(0, 2).contiguous().transpose(0, 2)
        assert torch.equal(swiglu_norm(strided, c.gate_up, c.down, False, over_sequence), found[0][0])


@pytest.mark.parametrize("large", [1e4, 1e10, 3e38])
def test_a_saturated_gate_is_finite(large: float, numbers: torch.dtype) -> None:
    """exp(−x) overflows or vanishes: the gate is 0 or x, its slope 0 or 1."""
    x = torch.zeros(2, 16, dtype=numbers)
    x[0, 0], x[1, 0] = large, -large
    gate_up, down = torch.zeros(128, 16, dtype=numbers), torch.zeros(16, 64, dtype=numbers)
    gate_up[0, 0], gate_up[64, 1], down[2, 0] = 1, 1, 1
    x[:, 1] = 1
    x.requires_grad_()
    y = swiglu_norm(x, gate_up, down, False, False)
    (dx,) = torch.autograd.grad(y.sum(), x)
    assert y.isfinite().all() or large > 1e19  # whose square is not
    assert not y[:, 3:].abs().max() > 0
    assert dx.isfinite().all() or large > 1e19


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"inner": 1}, "multiples of 64"),
        ({"inner": 16}, "multiples of 64"),
        ({"inner": 65}, "multiples of 64"),
        ({"width": 24}, "multiples of 16"),
        ({"down": (16, 64)}, r"down \(n, I\) for an x with n = 32"),
        ({"gate_up": (64, 32)}, r"gate_up \(2I, 32\) for I = 64"),
        ({"dtype": torch.float64}, "bfloat16 or float32"),
    ],
)
def test_what_the_kernel_would_read_wrongly_is_refused(change: dict[str, Any], words: str) -> None:
    c = {"inner": 64, "width": 32, "dtype": torch.float32} | change
    x = torch.zeros(3, c["width"], dtype=c["dtype"])
    down = torch.zeros(c.get("down", (c["width"], c["inner"])), dtype=c["dtype"])
    gate_up = torch.zeros(c.get("gate_up", (2 * c["inner"], c["width"])), dtype=c["dtype"])
    with pytest.raises(AssertionError, match=words):
        swiglu_norm(x, gate_up, down, False, False)


@pytest.mark.parametrize("over_sequence", [False, True])
def test_no_rows_have_no_gradient(over_sequence: bool, numbers: torch.dtype) -> None:
    x = torch.zeros((5, 0, 16) if over_sequence else (0, 5, 16), dtype=numbers, requires_grad=True)
    mixed = 5 if over_sequence else 16
    gate_up, down = (torch.ones(s, dtype=numbers, requires_grad=True) for s in ((128, mixed), (mixed, 64)))
    y = swiglu_norm(x, gate_up, down, False, over_sequence)
    assert y.shape == x.shape
    for found in torch.autograd.grad(y.sum(), (x, gate_up, down)):
        assert not found.any()


def test_strides_are_no_matter(numbers: torch.dtype) -> None:
    x, gate_up, down = (torch.randn(shape, dtype=numbers) for shape in ((4, 16), (128, 16), (16, 64)))
    turned = [part.T.contiguous().T for part in (x, gate_up, down)]
    assert torch.equal(swiglu_norm(x, gate_up, down, False, False), swiglu_norm(*turned, False, False))


def graph_of(block: Block, x: Tensor) -> str:
    found: list[str] = []

    def backend(module: torch.fx.GraphModule, _: object) -> object:
        found.append(module.code)
        return module.forward

    torch.compile(block, backend=backend, dynamic=False, fullgraph=True)(x, UNKNOWN)
    return found[0]


def test_compiled_layers_alone_are_fused(numbers: torch.dtype) -> None:
    torch._dynamo.reset()
    block = Block(32, 5, "mlp", 1, 2.0, "silu")
    x = torch.randn(5, 2, 32, dtype=numbers)
    assert "swiglu_norm" not in graph_of(block, x)
    assert block.mixer is not None
    block.mixer.kernel = block.mlp.kernel = layer_by_kernel
    assert graph_of(block, x).count("ops.reason.swiglu_norm") == 2
    assert "swiglu_norm" not in graph_of(block, x.double())
    assert not fits(torch.randn(5, 2, 24, dtype=numbers), 256, over_sequence=False)
    assert fits(torch.randn(5, 2, 24, dtype=numbers), 256, over_sequence=True)
    eager = block(x, UNKNOWN)
    block.mixer.kernel = block.mlp.kernel = None
    assert torch.equal(block(x, UNKNOWN), eager)
