"""Transformer layers of GPT and Llama, in the norms and the four norm placements of STARS (docs/math.md §8)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.forward_ad import unpack_dual

from reason.extensions.looped.cache import Recall
from reason.nn.attention import Attention
from reason.nn.dtypes import at_least_float32
from reason.nn.geometry import UNKNOWN, Geometry
from reason.nn.linear import Linear
from reason.nn.mlp import SwiGLU
from reason.nn.norms import EPS

NormKind = Literal["layernorm", "rmsnorm", "simple"]
BlockKind = Literal["gpt", "llama"]
PlacementName = Literal["pre", "post", "pre-sandwich", "post-sandwich"]
NORM_EPS: dict[BlockKind, float] = {"gpt": 1e-5, "llama": 1e-6}


class Norm(nn.Module):
    """A norm over the hidden axis, in the three kinds that STARS compares.

    layernorm: centred, with gain and bias; rmsnorm: not centred, with gain; simple: centred, without either (STARS
    §4.2.1 says "normalization without learnable affine parameters"; that it centres is ours).
    """

    def __init__(self, width: int, kind: NormKind, eps: float = EPS):
        super().__init__()
        self.width, self.kind, self.eps = width, kind, eps
        self.weight = nn.Parameter(torch.ones(width)) if kind != "simple" else None
        self.bias = nn.Parameter(torch.zeros(width)) if kind == "layernorm" else None

    def forward(self, x: Tensor) -> Tensor:
        """(..., D) -> (..., D), computed in float32 or wider; same dtype as x.

        Under forward-mode differentiation a centred norm is computed from its formula: the tangent of the fused kernel
        treats mean and deviation as constants when it is differentiated again (torch 2.13; `gradcheck` in the tests).
        """
        wide = at_least_float32(x)
        weight, bias = _like(self.weight, wide), _like(self.bias, wide)
        if self.kind == "rmsnorm":
            return nn.functional.rms_norm(wide, (self.width,), weight, self.eps).to(x.dtype)
        if torch.compiler.is_compiling() or unpack_dual(wide).tangent is None:
            return nn.functional.layer_norm(wide, (self.width,), weight, bias, self.eps).to(x.dtype)
        centred = wide - wide.mean(-1, keepdim=True)
        y = centred * torch.rsqrt(centred.square().mean(-1, keepdim=True) + self.eps)
        return (y if weight is None or bias is None else y * weight + bias).to(x.dtype)


def _like(parameter: Tensor | None, x: Tensor) -> Tensor | None:
    return None if parameter is None else parameter.to(x.dtype)


class CausalAttention(Attention):
    """Attention in which a cell may see itself and those before it alone; with dropout, and with earlier cells kept."""

    def __init__(self, width: int, num_heads: int, causal: bool, bias: bool, std: float):
        super().__init__(width, num_heads, bias, std)
        self.causal = causal

    def forward(
        self, x: Tensor, rotary: Tensor | None = None, dropout: float = 0.0, recall: Recall | None = None
    ) -> Tensor:
        """(B, S, D) -> (B, S, D); `rotary` as in `Attention`; `dropout` of the attention weights.

        With `recall`, x holds the new cells of a text alone; `recall` adds the keys and values of the earlier cells.
        """
        q, k, v = self.split(x, rotary)
        if recall is not None:
            k, v = recall(k, v)
        return self.joined(attend(q, k, v, self.causal, dropout))


def attend(q: Tensor, k: Tensor, v: Tensor, causal: bool = False, dropout: float = 0.0) -> Tensor:
    """`reason.nn.attention.attend` with dropout of the weights; causal: weights of later cells are 0.

    There may be more keys than queries: the queries are then those of the last cells.
    """
    if q.device.type == "cpu" and q.dtype == torch.bfloat16:
        scores = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5
        if causal:
            scores = scores.masked_fill(~_sees(q, k), -torch.inf)
        return nn.functional.dropout(scores.softmax(-1), dropout) @ v
    if causal and q.shape[2] != k.shape[2]:  # the kernel's own mask would lay the queries beside the first keys
        return nn.functional.scaled_dot_product_attention(q, k, v, _sees(q, k), dropout)
    return nn.functional.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=causal)


def _sees(q: Tensor, k: Tensor) -> Tensor:
    """(queries, keys) bool: a cell sees itself and those before it."""
    queries, keys = q.shape[2], k.shape[2]
    return torch.ones(queries, keys, dtype=torch.bool, device=q.device).tril(keys - queries)


class GeluMLP(nn.Module):
    """down(gelu(up)) with biases, GPT's feed-forward layer."""

    def __init__(self, width: int, inner: int, std: float | None = None):
        super().__init__()
        self.up = Linear(width, inner, bias=True, std=std)
        self.down = Linear(inner, width, bias=True, std=std)

    def forward(self, x: Tensor) -> Tensor:
        """(..., D) -> (..., D)."""
        return self.down(torch.nn.functional.gelu(self.up(x)))


class Placement(NamedTuple):
    """Which of argument, value and sum of a residual branch x + f(x) are normalised."""

    argument: bool
    value: bool
    total: bool


PLACEMENTS: dict[PlacementName, Placement] = {
    "pre": Placement(argument=True, value=False, total=False),  # x + f(N x)
    "post": Placement(argument=False, value=False, total=True),  # N(x + f(x))
    "pre-sandwich": Placement(argument=True, value=True, total=False),  # x + N₂(f(N₁ x))
    "post-sandwich": Placement(argument=True, value=False, total=True),  # N₂(x + f(N₁ x))
}


class Half(nn.Module):
    """A residual branch x + f(x) with its norms; every norm has its own gain."""

    def __init__(self, placement: Placement, norm: Callable[[], nn.Module]):
        super().__init__()
        self.argument, self.value, self.total = (norm() if there else nn.Identity() for there in placement)

    def forward(self, x: Tensor, f: Callable[[Tensor], Tensor]) -> Tensor:
        """(B, S, D) -> (B, S, D)."""
        return self.total(x + self.value(f(self.argument(x))))


class TransformerBlock(nn.Module):
    """An attention branch and an MLP branch.

    gpt: biases, GELU, and dropout of attention weights and of the MLP's value; llama: no biases, SwiGLU.
    """

    def __init__(
        self,
        width: int,
        num_heads: int,
        inner: int,
        kind: BlockKind = "gpt",
        placement: PlacementName = "post-sandwich",
        norm: NormKind = "layernorm",
        causal: bool = True,
        std: float = 0.02,
    ):
        super().__init__()
        gpt = kind == "gpt"
        self.attention = CausalAttention(width, num_heads, causal, bias=gpt, std=std)
        self.mlp = GeluMLP(width, inner, std) if gpt else SwiGLU(width, inner, std=std)
        self.attention_half, self.mlp_half = (
            Half(PLACEMENTS[placement], lambda: Norm(width, norm, NORM_EPS[kind])) for _ in range(2)
        )

    def forward(
        self, x: Tensor, geometry: Geometry = UNKNOWN, dropout: float = 0.0, recall: Recall | None = None
    ) -> Tensor:
        """(B, S, D) -> (B, S, D); `dropout` is the rate of this call, 0 for none; `recall` as in `CausalAttention`."""
        x = self.attention_half(x, lambda h: self.attention(h, geometry.rotary, dropout, recall))
        return self.mlp_half(x, lambda h: nn.functional.dropout(self.mlp(h), dropout))

    @property
    def output(self) -> nn.Parameter:
        """The output projection of the MLP."""
        return self.mlp.down.weight


class StructuredLayer(nn.Module):
    """One half, whose f is a gated mixer along the puzzle's structure: mixing and MLP in one."""

    mixer: Any  # of reason.models.mixing.MIXERS

    def __init__(self, mixer: nn.Module, kind: BlockKind, placement: PlacementName, norm: NormKind = "layernorm"):
        super().__init__()
        self.mixer = mixer
        self.residual = Half(PLACEMENTS[placement], lambda: Norm(self.mixer.out.weight.shape[0], norm, NORM_EPS[kind]))

    def forward(
        self, x: Tensor, geometry: Geometry = UNKNOWN, dropout: float = 0.0, recall: Recall | None = None
    ) -> Tensor:
        """(B, S', D) -> (B, S', D); `dropout` of the mixer's value."""
        assert recall is None, "not causal"
        return self.residual(x, lambda h: nn.functional.dropout(self.mixer(h, geometry), dropout))

    @property
    def output(self) -> nn.Parameter:
        """The output projection of the mixer."""
        weight: nn.Parameter = self.mixer.out.weight
        return weight


class Layers(nn.Module):
    """A sequence of blocks."""

    def __init__(self, blocks: Sequence[TransformerBlock | StructuredLayer]):
        super().__init__()
        self.blocks = nn.ModuleList(blocks)

    @property
    def output(self) -> nn.Parameter:
        """The output projection of the last block."""
        last = self.blocks[-1]
        assert isinstance(last, TransformerBlock | StructuredLayer)
        return last.output

    def forward(
        self, x: Tensor, geometry: Geometry = UNKNOWN, dropout: float = 0.0, recalls: Sequence[Recall] | None = None
    ) -> Tensor:
        """(B, S, D) -> (B, S, D); `recalls` one for each block."""
        for index, block in enumerate(self.blocks):
            x = block(x, geometry, dropout, None if recalls is None else recalls[index])
        return x
