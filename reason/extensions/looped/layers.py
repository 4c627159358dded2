"""Transformer layers of GPT and Llama, with the norms and norm placements of STARS, and Ouro's exit gate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.autograd.forward_ad import unpack_dual

from reason.nn.attention import Attention
from reason.nn.dtypes import at_least_float32
from reason.nn.geometry import UNKNOWN, Geometry
from reason.nn.linear import Linear
from reason.nn.mlp import SwiGLU
from reason.nn.norms import EPS

Recall = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]  # new keys and values -> all that the queries attend to
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
        """Map (..., D) to (..., D), computed in float32 or wider; same dtype as x.

        Under forward-mode differentiation a centred norm is computed from its formula: the tangent of the fused kernel
        treats mean and deviation as constants when it is differentiated again (torch 2.13; `gradcheck` in the tests).
        """
        wide = at_least_float32(x)
        weight, bias = (None if p is None else p.to(wide.dtype) for p in (self.weight, self.bias))
        if self.kind == "rmsnorm":
            return nn.functional.rms_norm(wide, (self.width,), weight, self.eps).to(x.dtype)
        if torch.compiler.is_compiling() or unpack_dual(wide).tangent is None:
            return nn.functional.layer_norm(wide, (self.width,), weight, bias, self.eps).to(x.dtype)
        centred = wide - wide.mean(-1, keepdim=True)
        y = centred * torch.rsqrt(centred.square().mean(-1, keepdim=True) + self.eps)
        return (y if weight is None or bias is None else y * weight + bias).to(x.dtype)


def attend(q: Tensor, k: Tensor, v: Tensor, causal: bool = False, dropout: float = 0.0) -> Tensor:
    """Apply `reason.nn.attention.attend` with dropout of the weights; causal: weights of later cells are 0.

    If there are more keys than queries, the queries are those of the last cells.
    """
    queries, keys = q.shape[2], k.shape[2]
    if (q.device.type == "cpu" and q.dtype == torch.bfloat16) or (causal and queries != keys):
        scores = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5
        if causal:
            seen = torch.ones(queries, keys, dtype=torch.bool, device=q.device).tril(keys - queries)
            scores = scores.masked_fill(~seen, -torch.inf)
        return nn.functional.dropout(scores.softmax(-1), dropout) @ v
    return nn.functional.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=causal)


class GeluMLP(nn.Module):
    """down(gelu(up)) with biases, GPT's feed-forward layer."""

    def __init__(self, width: int, inner: int, std: float):
        super().__init__()
        self.up = Linear(width, inner, bias=True, std=std)
        self.down = Linear(inner, width, bias=True, std=std)

    def forward(self, x: Tensor) -> Tensor:
        """Map (..., D) to (..., D)."""
        return self.down(torch.nn.functional.gelu(self.up(x)))


PLACEMENTS: dict[PlacementName, tuple[bool, bool, bool]] = {  # x + f(x): argument, value and sum are normalised
    "pre": (True, False, False),  # x + f(N x)
    "post": (False, False, True),  # N(x + f(x))
    "pre-sandwich": (True, True, False),  # x + N₂(f(N₁ x))
    "post-sandwich": (True, False, True),  # N₂(x + f(N₁ x))
}


class Half(nn.Module):
    """A residual branch x + f(x) with its norms; each norm has a separate gain."""

    def __init__(self, placement: PlacementName, norm: Callable[[], nn.Module]):
        super().__init__()
        self.argument, self.value, self.total = (norm() if there else nn.Identity() for there in PLACEMENTS[placement])

    def forward(self, x: Tensor, f: Callable[[Tensor], Tensor]) -> Tensor:
        """Map (B, S, D) to (B, S, D)."""
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
        kind: BlockKind,
        placement: PlacementName,
        norm: NormKind,
        causal: bool,
        std: float,
    ):
        super().__init__()
        gpt = kind == "gpt"
        self.recall: Recall | None = None  # while decoding: x holds only the new cells of a text
        self.causal, self.attention = causal, Attention(width, num_heads, gpt, std)
        self.mlp = GeluMLP(width, inner, std) if gpt else SwiGLU(width, inner, std=std)
        self.attention_half, self.mlp_half = (
            Half(placement, lambda: Norm(width, norm, NORM_EPS[kind])) for _ in range(2)
        )

    def forward(self, x: Tensor, geometry: Geometry = UNKNOWN, dropout: float = 0.0) -> Tensor:
        """Map (B, S, D) to (B, S, D); `dropout` is the rate of this call, 0 for none."""

        def mixed(h: Tensor) -> Tensor:
            q, k, v = self.attention.split(h, geometry.rotary)
            k, v = (k, v) if self.recall is None else self.recall(k, v)
            return self.attention.joined(attend(q, k, v, self.causal, dropout))

        return self.mlp_half(self.attention_half(x, mixed), lambda h: nn.functional.dropout(self.mlp(h), dropout))


class StructuredLayer(nn.Module):
    """A residual branch whose f is a gated mixer along the puzzle's structure, in place of attention and MLP."""

    def __init__(self, mixer: Any, kind: BlockKind, placement: PlacementName, norm: NormKind):
        super().__init__()
        self.mixer = mixer
        self.residual = Half(placement, lambda: Norm(self.mixer.out.weight.shape[0], norm, NORM_EPS[kind]))

    def forward(self, x: Tensor, geometry: Geometry = UNKNOWN, dropout: float = 0.0) -> Tensor:
        """Map (B, S', D) to (B, S', D); `dropout` of the mixer's value."""
        return self.residual(x, lambda h: nn.functional.dropout(self.mixer(h, geometry), dropout))


class Layers(nn.Module):
    """A sequence of blocks."""

    def __init__(self, blocks: Sequence[TransformerBlock | StructuredLayer]):
        super().__init__()
        self.blocks = nn.ModuleList(blocks)

    def forward(self, x: Tensor, geometry: Geometry = UNKNOWN, dropout: float = 0.0) -> Tensor:
        """Map (B, S, D) to (B, S, D)."""
        for block in self.blocks:
            x = block(x, geometry, dropout)
        return x


class ExitGate(nn.Module):
    """The logit of the exit probability λ = σ(w·h + b), h the argument of the head at a cell (docs/math.md §11).

    float32; w and b start at 0, so that λ = ½ everywhere (ours).
    """

    def __init__(self, width: int):
        super().__init__()
        self.out = nn.Linear(width, 1)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    def forward(self, h: Tensor) -> Tensor:
        """Map (B, S, D) to (B, S)."""
        return self.out(h.to(self.out.weight.dtype)).squeeze(-1)
