"""The looped transformer: prelude, a block applied t times, coda, tied head (STARS, Ouro; docs/math.md §8)."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any, Literal, NamedTuple

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from reason.extensions.looped.decoding import generate
from reason.extensions.looped.layers import (
    NORM_EPS,
    BlockKind,
    ExitGate,
    Layers,
    Norm,
    NormKind,
    PlacementName,
    StructuredLayer,
    TransformerBlock,
)
from reason.models.base import Batch, Context, Readout, Shape
from reason.models.layout import LayoutModel, masked
from reason.models.mapped import MapKind
from reason.models.mixing import MixingConfig, Positions, build_mixer, check_mixing, inner_of
from reason.nn.block import sequence_first
from reason.nn.linear import embedding
from reason.settings.base import Resumable, require

_LAYER = re.compile(r"(?P<stack>.*\bblocks)\.(?P<index>\d+)\.(?P<rest>.*)")


class LoopedConfig(MixingConfig):
    """The settings of looped transformers."""

    kind: Literal["looped"] = "looped"
    num_layers: int = Field(1, ge=1, le=1024, description="L: layers of the block that is looped")
    prelude: int = Field(0, ge=0, le=1024, description="layers before the loops")
    coda: int = Field(0, ge=0, le=1024, description="layers after the loops, in the readout")
    expansion: float = Field(
        2.0, gt=0, description="inner width of MLPs and mixers along the structure = expansion · D"
    )
    positions: Positions = Field("learned", description="position encoding; rotary-2d: of row and column")
    block: BlockKind = Field(
        "gpt", description="attention block: gpt: GELU, biases; llama: SwiGLU, no biases; sets ε of norms for any mixer"
    )
    norm_placement: PlacementName = Field("post-sandwich", description="placement of the norms in a layer")
    norm: NormKind = Field("layernorm", description="layernorm; rmsnorm; simple: layernorm without gain and bias")
    final_norm: NormKind | None = Field(
        None, description="norm of the readout; none: as model.norm (STARS' code: layernorm)"
    )
    causal: bool = Field(True, description="a cell sees itself and the cells before it, and predicts the next token")
    init_std: float = Field(
        0.02, gt=0, le=1, description="initial weight matrices and embeddings are drawn from N(0, std²)"
    )
    dropout: float = Field(
        0.1, ge=0, lt=1, description="dropout rate in training, of embedding, attention weights and MLP value"
    )
    between: tuple[Literal["norm", "damping", "injection"], ...] = Field(
        (),
        description="operations on the state before each loop, as norm,injection, always in this order: norm: it is "
        "normalised, but not in the readout; damping: it is multiplied by a learned σ(d) < 1; injection: x̂ is added",
    )
    gradient_checkpointing: Resumable[bool] = Field(
        False, description="recompute each loop in the backward pass: less memory, about 1.3 × the time"
    )
    gate: Literal["none", "position"] = Field("none", description="exit gate (Ouro), one at every position")
    only: Literal["all", "gate"] = Field(
        "all", description="gate: train only the exit gate; the other weights stay those of init_from (Ouro stage II)"
    )
    readout: Literal["norm", "raw"] | Annotated[int, Field(ge=1)] = Field(
        "norm",
        description="input of the head: norm: N(z); raw: z; k: z, N(z) from loop k on (k: T as trained)",
    )

    @model_validator(mode="after")
    def _fits(self) -> LoopedConfig:
        check_mixing(self)
        if self.mixer == "mlp" or self.set_agnostic:  # its tied head has no place for the positions that linear adds
            raise ValueError(
                f"a looped model has no model.mixer={self.mixer}: type model.mixer=attention, local or groups"
            )
        if self.causal and (self.mixer != "attention" or self.positions.startswith("rotary")):
            key = f"mixer={self.mixer}" if self.mixer != "attention" else f"positions={self.positions}"
            raise ValueError(f"model.{key} uses all cells of a puzzle, also later ones: type model.causal=false")
        if self.symbols and self.gate == "position":
            raise ValueError("an exit gate would be one for every symbol of a cell: type model.gate=none")
        return self

    @property
    def layer_calls(self) -> int:
        """Return L, the number of layers in the looped block."""
        return self.num_layers

    @property
    def heads(self) -> frozenset[str]:
        """Return the names of the heads other than the logits: the gate, if there is one."""
        return frozenset() if self.gate == "none" else frozenset({"gate"})

    def check(self, config: Any) -> None:
        """Check that a separately trained gate has a loss and an initial run, and that loop k of the readout exists."""
        if self.only == "gate":
            fixes = "loss.weights.exit_gate=1", "model.only=all"
            require(config.loss.trains("gate"), "model.only=gate", "a loss that trains an exit gate", *fixes)
            fixes = "init_from=RUN", "model.only=all"
            require(bool(config.init_from), "model.only=gate", "a trained run to start from", *fixes)
        if isinstance(self.readout, int):
            one, steps = config.rollout.supervision_steps == 1, config.rollout.trained_steps
            fixes = "rollout.supervision_steps=1", "model.readout=norm"
            require(one, f"model.readout={self.readout}", "puzzles of one supervision step", *fixes)
            what = f"{self.readout} steps of the model in training, and there are {steps}"
            require(steps >= self.readout, f"model.readout={self.readout}", what, f"model.readout={steps}")


class LoopedState(NamedTuple):
    """The state z, (B, S, D)."""

    z: Tensor


class LoopedModel(LayoutModel):
    """z ← block(γ N(z) + x̂), from z = x̂ = prelude(embedding); logits = E·r(coda(z)), E the token embedding.

    r is the final norm, the identity, or the identity only in the loops before `readout`. N, γ and + x̂ are optional
    and act on the input of the block, in this order, before every loop, the first included, so each loop is the same
    map. The readout takes the output of the block (ours). Dropout acts in training only, and never in `map` (ours).
    """

    config: LoopedConfig

    def __init__(self, config: LoopedConfig, shape: Shape, dtype: torch.dtype = torch.float32):
        super().__init__(config, shape, dtype)
        width = config.hidden_size
        self.tokens = embedding(config.embeddings(shape), width, config.init_std)
        self.positions = (
            embedding(config.positions_of(shape), width, config.init_std) if config.positions == "learned" else None
        )
        self.prelude, self.block, self.coda = (
            Layers([self._layer() for _ in range(count)]) for count in (config.prelude, config.num_layers, config.coda)
        )
        self.inter_loop_norm = self._norm() if "norm" in config.between else None
        self.damping = nn.Parameter(torch.full((), 2.0)) if "damping" in config.between else None
        self.final_norm = self._norm(config.final_norm) if config.readout != "raw" else None
        self.final_from = config.readout if isinstance(config.readout, int) else 0
        self.gate = ExitGate(width) if config.gate == "position" else None
        if config.only == "gate":
            for name, parameter in self.named_parameters():
                parameter.requires_grad_(name.startswith("gate."))

    def _norm(self, kind: NormKind | None = None) -> Norm:
        return Norm(self.config.hidden_size, kind or self.config.norm, NORM_EPS[self.config.block])

    def _layer(self) -> TransformerBlock | StructuredLayer:
        c = self.config
        if c.mixer == "attention":
            return TransformerBlock(
                c.hidden_size, c.num_heads, inner_of(c), c.block, c.norm_placement, c.norm, c.causal, c.init_std
            )
        return StructuredLayer(build_mixer(c, self.shape), c.block, c.norm_placement, c.norm)

    def _dropout(self) -> float:
        return self.config.dropout if self.training else 0.0

    def encode(self, batch: Batch) -> Context:
        """Return x̂ = prelude(token embedding + position embedding); fewer cells than the model's are allowed."""
        return self.encode_from(batch.inputs, 0, batch.relations)

    def encode_from(self, tokens: Tensor, start: int, relations: tuple[Tensor, ...] = ()) -> Context:
        """Return x̂ of cells with tokens (B, n), the first of which has the number `start`."""
        layout = self.layout_of(tokens)
        x = self.tokens(layout.embedding_rows(tokens))
        if self.positions is not None:
            x = x + self.positions.weight[start : start + x.shape[1]]
        mask = layout.active_positions(tokens, self.dtype)
        x = masked(nn.functional.dropout(x, self._dropout()).to(self.dtype), mask)
        if self.config.structured_mixer.by_group:
            x = sequence_first(x)
        context = Context(x, mask, relations, layout)
        with self.autocast():
            x = masked(self.prelude(x, context.geometry, self._dropout()), mask)
        return replace(context, x=x)

    def initial_state(self, context: Context) -> LoopedState:
        """Return z = x̂, with its gradient; at inactive positions, their embedding (ours)."""
        x, mask, outside = context.x, context.mask, self.shape.structure.outside
        if mask is None or outside is None:
            return LoopedState(x)
        return LoopedState(x + (1 - mask) * self.tokens.weight[outside].to(x.dtype))

    def step(self, state: LoopedState, context: Context) -> LoopedState:
        """Apply the block once, with gradient."""
        with self.autocast():
            if self.config.gradient_checkpointing and self.training and torch.is_grad_enabled():
                dropout = self._dropout()
                return LoopedState(
                    checkpoint(
                        self._loop, state.z, context, dropout, use_reentrant=False, preserve_rng_state=dropout > 0
                    )
                )
            return LoopedState(self._loop(state.z, context, self._dropout()))

    def _loop(self, z: Tensor, context: Context, dropout: float = 0.0) -> Tensor:
        if self.inter_loop_norm is not None:
            z = self.inter_loop_norm(z)
        if self.damping is not None:
            z = self.damping.sigmoid().to(z.dtype) * z
        if "injection" in self.config.between:
            z = z + context.x
        return self.block(z, context.geometry, dropout)

    def readout(self, state: LoopedState, context: Context, step: int | None = None) -> Readout:
        """Return logits (B, S, V) of the tied head, and the gate's value; there is no halting head."""
        with self.autocast():
            z = self.coda(state.z, context.geometry, self._dropout())
            if self.final_norm is not None and (step is None or step >= self.final_from):
                z = self.final_norm(z)
            logits = self.layout(context).logits(nn.functional.linear(z, self.tokens.weight.to(z.dtype)), context.mask)
        return Readout(logits, gate=None if self.gate is None else self.gate(z))

    def completed(self, prompt: Tensor, steps: int, end: int | None = None) -> Tensor:
        """Complete the prompt; token 0 is padding. Every loop caches keys and values, so no cell is processed twice."""
        asked = int((prompt != 0).sum())
        written = generate(self, prompt[None, :asked], len(prompt) - asked, steps, end=end).tokens[0]
        return torch.cat([prompt[:asked], written, prompt[asked + len(written) :]])

    def begun_from(self, weights: dict[str, Tensor]) -> dict[str, Tensor]:
        """Fill a stack of n·L layers with the run's L layers in order, n times (Ouro's upcycling; the order is ours).

        One loop of it is n loops of the run's stack if no norm, γ or x̂ is between. A gate that the run did not have
        keeps its initial weights.
        """
        begun = {name: gate for name, gate in self.state_dict().items() if name.startswith("gate.")} | weights
        layers = [layer for name in weights if (layer := _LAYER.match(name))]
        for name in self.state_dict():
            if name not in weights and (layer := _LAYER.match(name)):
                depth = len({each["index"] for each in layers if each["stack"] == layer["stack"]}) or 1
                old = f"{layer['stack']}.{int(layer['index']) % depth}.{layer['rest']}"
                begun |= {name: weights[old]} if old in weights else {}
        return begun

    def networks(self) -> list[nn.Module]:
        """Return the network that is applied repeatedly: the block."""
        return [self.block]

    def map(self, state: LoopedState, context: Context, kind: MapKind) -> tuple[Callable[[Tensor], Tensor], Tensor]:
        """Return the map to z after one loop, without dropout; all kinds are the same here."""
        return lambda z: self._loop(z, context), state.z

    def balance_weights(self) -> list[Tensor]:
        """Return the block's last output projection and the token embedding, which is the head too (ours, as CMM's)."""
        last: Any = self.block.blocks[-1]
        output = last.mlp.down if self.config.mixer == "attention" else last.mixer.out
        return [output.weight, self.tokens.weight]
