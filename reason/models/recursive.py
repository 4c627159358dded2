"""The recursive reasoner: HRM, TRM and CMM as configs of one model (docs/math.md §1).

    encode          tokens (B, S) -> x̂ (B, P + S·K, D): P prefix positions, then K for each cell (K = 1 without symbols)
    initial_state   (z_H, z_L), each shaped as x̂, or TRM's single z
    step            the two loops of `reason.models.recursion`, N_H·(N_L + 1) calls of the networks F_L and F_H
    readout         z_H without its prefix -> logits (B, S, V); one of its positions, or their mean -> the halting head

The networks are stacks of layers (`reason.nn.block`); `reason.models.mixing` has the mixers. Weights are float32; x̂ and
states are `dtype`, which the encoding casts to.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from reason.models.base import Batch, Context, Readout, Shape
from reason.models.layout import LayoutModel, masked
from reason.models.mapped import MapKind
from reason.models.mixing import MIXERS, build_mixer
from reason.models.recursion import (
    Cycles,
    Network,
    OneState,
    RecursiveState,
    one_state,
    recomputed,
    two_states,
    update_of,
)
from reason.models.recursive_config import RecursiveConfig
from reason.models.states import normal_like
from reason.nn.block import Block, Stack, StructuredBlock, sequence_first
from reason.nn.linear import Linear, embedding, truncated_normal_

States = RecursiveState | OneState


class RecursiveModel(LayoutModel):
    """The model of HRM, TRM and CMM: two states or one, which one or two networks update, and a readout of z_H.

    An accelerator may set `fused_step`(model, state, context), which computes a step, or returns None.
    """

    config: RecursiveConfig
    fused_step: Callable[[RecursiveModel, States, Context], States | None] | None = None
    initial_h: Tensor  # (D,)
    initial_l: Tensor

    def __init__(self, config: RecursiveConfig, shape: Shape, dtype: torch.dtype = torch.float32):
        super().__init__(config, shape, dtype)
        self.random_start = config.initial == "random"
        self.update = update_of(config.dt)  # of one network call, and with the noise of training
        self.noisy_update = update_of(config.dt, config.sigma if config.noise == "additive" else 0.0)
        width = config.hidden_size
        self.tokens = embedding(config.embeddings(shape), width)
        self.puzzle_embedding: nn.Embedding | None = None
        if config.puzzle_emb_len:  # sparse: a step changes only its batch's rows; starts at 0, as in HRM and TRM
            count = shape.num_puzzle_identifiers
            self.puzzle_embedding = nn.Embedding(count, width, sparse=True, _weight=torch.zeros(count, width))
        self.positions = embedding(config.positions_of(shape), width) if config.positions == "learned" else None
        self.f_l = self._network()
        self.f_h = self._network() if config.separate_networks else None
        self.head = Linear(width, config.outputs(shape))
        self.q_head = nn.Linear(width, 2)  # float32, starts at 0 and −5: almost never halts at first
        with torch.no_grad():
            self.q_head.weight.zero_()
            self.q_head.bias.fill_(-5.0)
        self.register_buffer("initial_h", truncated_normal_(torch.empty(width), 1.0))
        self.register_buffer("initial_l", truncated_normal_(torch.empty(width), 1.0))

    def _network(self) -> Stack:
        c = self.config
        blocks = list[Block | StructuredBlock]()
        for _ in range(c.num_layers):
            if c.mixer in MIXERS:
                blocks.append(StructuredBlock(build_mixer(c, self.shape)))
            else:
                length = c.positions_of(self.shape)
                blocks.append(Block(c.hidden_size, length, c.mixer, c.num_heads, c.expansion, c.activation))
        return Stack(blocks, c.repeats)

    def encode(self, batch: Batch) -> Context:
        """Return x̂ = √D · [puzzle embedding, zeros, token embeddings]; learned positions: √D · (… + positions)/√2.

        Embeddings are cast to the states' type before they are scaled, as in the code of HRM and TRM.
        """
        layout = self.layout_of(batch.inputs, batch.shape)
        x = self.tokens(layout.embedding_rows(batch.inputs, batch.relations)).to(self.dtype)  # (B, S·K, D)
        if self.puzzle_embedding is not None:
            own = self.puzzle_embedding(batch.identifiers).to(self.dtype)[:, None]  # (B, 1, D)
            own = nn.functional.pad(own, (0, 0, 0, self.config.puzzle_emb_len - 1))  # (B, P, D)
            x = torch.cat([own, x], dim=1)
        if self.positions is not None:
            x = math.sqrt(0.5) * (x + self.positions.weight.to(self.dtype))
        mask = layout.active_positions(batch.inputs, x.dtype)
        x = masked(math.sqrt(self.config.hidden_size) * x, mask)
        if self.config.mixer == "mlp" or self.config.structured_mixer.by_group:
            x = sequence_first(x)
        return Context(x, mask, batch.relations, layout)

    def initial_state(self, context: Context) -> States:
        """Return fixed vectors, or z_H = x̂ (no gradient through it: ours) and z_L = 0, or unit normals.

        At positions beyond the edge (`mixer=local`) x̂ is 0, so z_H starts from the buffer there: a network without
        biases would keep it at 0, and the head could not answer (ours). Inactive positions stay at 0.
        """
        x = context.x
        mask = context.mask
        match self.config.initial:
            case "buffer":
                z_h, z_l = self.initial_h.to(x.dtype).expand_as(x), self.initial_l.to(x.dtype).expand_as(x)
            case "input":  # CMM
                start = 0 if mask is None else (1 - mask) * self.initial_h.to(x.dtype)
                z_h, z_l = x.detach() + start, torch.zeros_like(x)
            case "random":
                z_h = normal_like(x)
                z_l = z_h if self.config.states == 1 else normal_like(x)  # a single state takes one draw
        if mask is not None and self.config.open_only:
            z_h, z_l = z_h * mask, z_l * mask
        return OneState(z_h) if self.config.states == 1 else RecursiveState(z_h, z_l)

    def step(self, state: States, context: Context) -> States:
        """Run N_H cycles. The last `cycles.gradient_calls` calls build a graph. Noise is added only in training."""
        if self.fused_step is not None and (after := self.fused_step(self, state, context)) is not None:
            return after
        with self.autocast():
            return final_state(self.calls(state, context, self.config.cycles, self.training))

    def path(self, state: States, context: Context) -> list[States]:
        """Return the state after each network call of a step, without noise."""
        with self.autocast():
            return list(self.calls(state, context, self.config.cycles))

    def calls(self, state: States, context: Context, cycles: Cycles, training: bool = False) -> Iterator[States]:
        """Yield the state after each network call of `cycles`; `training` adds noise and gradient checkpointing."""
        f_l, f_h = self.functions(context, training)
        update = self.noisy_update if training else self.update
        if isinstance(state, OneState):
            return one_state(f_l, state, context.x, cycles, update)
        return two_states(f_l, f_h, state, context.x, cycles, update)

    def functions(self, context: Context, training: bool = False) -> tuple[Network, Network]:
        """Return F_L and F_H as functions of the state alone, for the puzzles of `context`."""
        low, high, geometry = self.f_l, self.networks()[-1], context.geometry
        f_l, f_h = lambda h: low(h, geometry), lambda h: high(h, geometry)
        return (recomputed(f_l), recomputed(f_h)) if training and self.config.gradient_checkpointing else (f_l, f_h)

    def readout(self, state: States, context: Context, step: int | None = None) -> Readout:
        """Return cell logits from z_H without prefix, and q in float32 from its first position (or the cells' mean)."""
        layout = self.layout(context)
        cells = context.cells(state.z_h)
        slot = state.z_h[:, 0] if self.config.q_from == "first" else cells.mean(dim=1)
        halt, q_continue = self.q_head(slot.to(self.q_head.weight.dtype)).unbind(-1)
        with self.autocast():
            logits = layout.logits(self.head(cells), context.mask)
        logits = logits if self.training else unmarked(logits, self.shape.marks)
        return Readout(logits, halt, q_continue)

    def networks(self) -> list[Stack]:
        """Return F_L, and F_H if it has its own weights."""
        return [self.f_l] if self.f_h is None else [self.f_l, self.f_h]

    def balance_weights(self) -> list[Tensor]:
        """Return the output projection of F_H's last block and the token embedding (ours: rep_x depends only on x̂)."""
        return [self.networks()[-1].output, self.tokens.weight]

    def freeze_embedding(self) -> None:
        """Freeze token, position and puzzle embeddings: x̂ becomes a fixed function of the puzzle."""
        for part in (self.tokens, self.positions, self.puzzle_embedding):
            if part is not None:
                part.requires_grad_(False)

    def map(self, state: States, context: Context, kind: MapKind) -> tuple[Callable[[Tensor], Tensor], Tensor]:
        """Return a map of the state, and the state as its argument.

        f_h maps z_H at fixed z_L. cycle and step map the whole state, one tensor (B, 2, S', D) or (B, 1, S', D), to
        that after one H-cycle or all N_H of them. No gradient truncation shortens a map.
        """
        if kind == "f_h":
            _, f_h = self.functions(context)
            return lambda z: f_h(z if isinstance(state, OneState) else z + state.z_l), state.z_h
        whole = self.config.cycles
        cycles = whole._replace(high=whole.high if kind == "step" else 1, gradient_calls=whole.calls)

        def mapped(parts: Tensor) -> Tensor:
            return torch.stack(final_state(self.calls(type(state)(*parts.unbind(1)), context, cycles)), dim=1)

        return mapped, torch.stack(state, dim=1)


def unmarked(logits: Tensor, marks: tuple[int, ...]) -> Tensor:
    """Map logits (..., V + n) to (..., V): a token gets the larger of its marked and unmarked logits (ours)."""
    if not marks:
        return logits
    plain, marked = logits.split([logits.shape[-1] - len(marks), len(marks)], dim=-1)
    columns = list(plain.unbind(-1))  # the tokens, not a tensor of them, which would be copied to the device
    for token, other in zip(marks, marked.unbind(-1), strict=True):
        columns[token] = torch.maximum(columns[token], other)
    return torch.stack(columns, dim=-1)


def final_state(calls: Iterator[States]) -> States:
    """Return the last state; each earlier one is freed when the next one exists."""
    return deque(calls, maxlen=1).pop()
