"""Transformer layers of GPT and Llama, in the four norm placements of STARS (docs/math.md §8)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

from torch import Tensor, nn

from reason.nn.attention import Attention
from reason.nn.cache import Recall
from reason.nn.geometry import UNKNOWN, Geometry
from reason.nn.mlp import GeluMLP, SwiGLU
from reason.nn.norms import Norm, NormKind

BlockKind = Literal["gpt", "llama"]
PlacementName = Literal["pre", "post", "pre-sandwich", "post-sandwich"]
NORM_EPS: dict[BlockKind, float] = {"gpt": 1e-5, "llama": 1e-6}


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
        self.attention = Attention(width, num_heads, causal, bias=gpt, std=std)
        self.mlp = GeluMLP(width, inner, std) if gpt else SwiGLU(width, inner, std=std)
        self.attention_half, self.mlp_half = (
            Half(PLACEMENTS[placement], lambda: Norm(width, norm, NORM_EPS[kind])) for _ in range(2)
        )

    def forward(
        self, x: Tensor, geometry: Geometry = UNKNOWN, dropout: float = 0.0, recall: Recall | None = None
    ) -> Tensor:
        """(B, S, D) -> (B, S, D); `dropout` is the rate of this call, 0 for none; `recall` as in `Attention`."""
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
