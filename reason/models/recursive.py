"""The recursive reasoner: HRM, TRM and CMM as configs of one model (docs/math.md §1)."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial, reduce
from typing import Annotated, Literal, NamedTuple

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import reason.config.capabilities as can
from reason.dynamics.integrate import Integrator, Noise, euler_maruyama, integrate
from reason.errors import ConfigError
from reason.models.base import Batch, MapKind, Readout, Reasoner, Shape
from reason.models.layout import GROUPED, STRUCTURED, Layouts
from reason.models.mixing import MixingConfig, needs_of, refuse_unfit, structured_mixer
from reason.nn.block import Block, Stack, StructuredBlock, sequence_first
from reason.nn.gate import build_gate
from reason.nn.geometry import Geometry
from reason.nn.linear import Embedding, Linear, truncated_normal_
from reason.nn.mlp import Activation
from reason.nn.norms import rms_norm


class RecursiveConfig(MixingConfig):
    """The settings in which HRM, TRM and CMM differ."""

    kind: Literal["recursive"] = "recursive"
    num_layers: int = Field(2, ge=1, le=1024, description="layers of each reasoning network")
    num_h_layers: int | None = Field(
        None, ge=1, le=1024, description="layers of F_H where it has its own weights; none: as layers"
    )
    repeats: int = Field(
        1, ge=1, le=1024, description="times the layers are applied in a call (CMM identical layers: 2 × 1)"
    )
    separate_networks: bool = Field(False, description="HRM: F_H and F_L have their own weights")
    activation: Activation = Field("silu", description="of the gates")
    puzzle_emb_len: int = Field(
        16, ge=0, le=100_000, description="P, puzzle tokens before the cells; they hold the identifier"
    )
    puzzle_emb_ndim: int | None = Field(
        None, ge=1, description="learned numbers of a puzzle's P·D, the rest is 0; none: D, the first token's"
    )
    h_cycles: int = Field(3, ge=1, le=10_000, description="N_H: updates of the high state in a supervision step")
    l_cycles: int = Field(6, ge=1, le=10_000, description="N_L: updates of the low state in each of them")
    states: int = Field(2, ge=1, le=2, description="2: z_H and z_L; 1: TRM's single z")
    gradient: Literal["last-call", "last-cycle", "all-cycles"] | Annotated[int, Field(ge=1)] = Field(
        "last-cycle", description="how far back it reaches: HRM, TRM, every cycle of the step, or the last k calls"
    )
    initial: Literal["buffer", "input", "random"] = Field(
        "buffer", description="state of a new puzzle: fixed random vectors, (x̂, 0), or fresh noise"
    )
    dt: float = Field(1.0, gt=0, le=1, description="time Δt of a call in dz/dt = F(z) − z; Euler: z ← z + Δt(F(z) − z)")
    integrator: Integrator = Field("euler", description="of that equation; adaptive (torchdiffeq) at evaluation only")
    substeps: int = Field(1, ge=1, le=10_000, description="equal integration steps in each Δt")
    tolerance: float = Field(1e-4, gt=0, description="adaptive: relative and absolute")
    equation: Literal["impulse", "averaged"] = Field(
        "impulse", description="z_H moves once a cycle (CMM eq. 16), or with z_L at 1/N_L of its speed (eq. 19)"
    )
    noise: Noise = Field("none", description="added after every call (NSDE), additive, or multiplied with F(z)")
    sigma: float = Field(0.01, gt=0, description="its magnitude σ")
    noise_when: Literal["training", "always"] = Field("training", description="always: at evaluation too")
    gradient_checkpointing: bool = Field(
        False, description="compute each call again in the backward pass: less memory, about 1.3 × the time"
    )
    q_from: Literal["first", "mean"] = Field(
        "first", description="halting is read from the first slot, or the mean over cells"
    )
    readout: Literal["raw", "norm"] = Field("raw", description="the head reads raw: z_H; norm: rms(z_H)")

    @model_validator(mode="after")
    def _fits(self) -> RecursiveConfig:
        refuse_unfit(self)
        if self.mixer in STRUCTURED and self.puzzle_emb_len:
            raise ValueError(f"the mixer {self.mixer} knows no cells but the puzzle's: type model.puzzle_emb_len=0")
        if isinstance(self.gradient, int) and self.gradient > self.h_cycles * (self.l_cycles + 1):
            raise ValueError(f"gradient={self.gradient}: a step has {self.h_cycles * (self.l_cycles + 1)} calls")
        if self.num_h_layers is not None and not self.separate_networks:
            raise ValueError(
                "num_h_layers are those of HRM's F_H: type model.separate_networks=true, or num_h_layers=none"
            )
        if self.puzzle_emb_ndim is not None and self.puzzle_emb_ndim > self.puzzle_emb_len * self.hidden_size:
            needed = -(-self.puzzle_emb_ndim // self.hidden_size)
            raise ValueError(
                f"puzzle_emb_ndim={self.puzzle_emb_ndim} does not go into {self.puzzle_emb_len} tokens of "
                f"{self.hidden_size}: type model.puzzle_emb_len={needed}"
            )
        if self.states == 1 and self.separate_networks:
            raise ValueError("a single state has one network: type model.separate_networks=false")
        if self.noise != "none" and self.integrator != "euler":
            raise ValueError(
                f"integrator {self.integrator} solves the equation without noise: type model.noise=none, or "
                "model.integrator=euler"
            )
        by_cycle = self.gradient in ("last-cycle", "all-cycles")
        if self.equation == "averaged" and (self.noise != "none" or self.states == 1 or not by_cycle):
            raise ValueError(
                "equation averaged moves z_H and z_L together, without noise: type model.noise=none, model.states=2 "
                "and model.gradient=last-cycle, or model.equation=impulse"
            )
        return self

    @property
    def gradient_from(self) -> tuple[int, int]:
        """The first call that carries a gradient: the cycle, and in it the low call (N_L: the high one)."""
        last_h, last_l = self.h_cycles - 1, self.l_cycles - 1
        if isinstance(self.gradient, int):
            return divmod(self.h_cycles * (self.l_cycles + 1) - self.gradient, self.l_cycles + 1)
        return {"last-call": (last_h, last_l), "last-cycle": (last_h, 0), "all-cycles": (0, 0)}[self.gradient]

    def capabilities(self) -> can.Offers:
        """Both Q values, maps, balancing always; a low state, a gate, a gradient across steps as the settings say."""
        always = (can.ALL_CELLS, can.PUZZLE_IDENTIFIERS, can.HALTING_HEAD, can.Q_CONTINUE, can.FREEZABLE_EMBEDDING)
        offers: can.Offers = dict.fromkeys(
            (*always, can.MAPS, can.NETWORKS, can.BALANCE_WEIGHTS, can.MIXED_PRECISION), True
        )
        return offers | {
            can.SEVERAL_MAPS: True,
            can.PUZZLE_EMBEDDING: self.puzzle_emb_len > 0 or "model.puzzle_emb_len=16",
            can.LOW_STATE: self.states == 2 or "model.states=2",
            can.EXIT_GATE: self.gate != "none" or "model.gate=position",
            can.PUZZLE_GATE: self.gate == "puzzle" or "model.gate=puzzle",
            can.GRADIENT_ACROSS_STEPS: self.gradient == "all-cycles" or "model.gradient=all-cycles",
            can.GRADIENT_CHECKPOINTING: self.gradient_checkpointing or "model.gradient_checkpointing=true",
        }

    def inert(self) -> dict[str, str]:
        """What attention alone has; the size of noise that there is not; what evaluation or memory alone know of."""
        found = {
            "tolerance": "adaptive steps are taken at evaluation alone",
            "noise_when": "training has its noise in any case",
            "gradient_checkpointing": "the same numbers are computed again",
        }
        if self.mixer != "attention":
            found["num_heads"] = f"model.mixer={self.mixer} has no heads"
        if self.positions != "rotary":
            found["rope_theta"] = f"model.positions={self.positions} does not rotate"
        if self.noise == "none":
            found["sigma"] = "model.noise=none"
        return found

    def used_with(self) -> dict[str, can.Capability]:
        """Where q is read from, once it is trained."""
        return {"q_from": can.trained(can.HALTING_HEAD)}

    def refuse_training(self) -> None:
        """Raise ConfigError where steps are adaptive."""
        if self.integrator == "adaptive":
            raise ConfigError("model.integrator=adaptive is for evaluation: type euler, heun or rk4 to train")

    def per_process(self) -> list[str]:
        """What is drawn in training."""
        drawn = {"model.initial=random": self.initial == "random", "model.noise": self.noise != "none"}
        return [f"{setting} draws per process" for setting, used in drawn.items() if used]


class RecursiveState(NamedTuple):
    """z_H and z_L, each (B, S', D); with one state z_l is z_h."""

    z_h: Tensor
    z_l: Tensor


class RecursiveModel(Reasoner):
    """N_H × (N_L × z_L ← F_L(z_L + (z_H + x̂)), then z_H ← F_H(z_H + z_L)), read out from z_H (docs/math.md §1)."""

    initial_h: Tensor
    initial_l: Tensor

    def __init__(self, config: RecursiveConfig, shape: Shape, dtype: torch.dtype = torch.float32):
        super().__init__()
        self.config, self.shape, self.dtype = config, shape, dtype
        self.layouts = Layouts(needs_of(config, config.puzzle_emb_len), shape)
        needs, width, self.prefix = self.layouts.needs, config.hidden_size, config.puzzle_emb_len
        length = needs.positions_of(shape)
        self.tokens = Embedding(needs.embeddings(shape), width)
        self.puzzle_embedding: nn.Embedding | None = None
        if config.puzzle_emb_len:
            count, learned = shape.num_puzzle_identifiers, config.puzzle_emb_ndim or width
            self.puzzle_embedding = nn.Embedding(count, learned, sparse=True, _weight=torch.zeros(count, learned))
        self.positions = Embedding(length, width) if config.positions == "learned" else None
        self.f_l = self._network(length, config.num_layers)
        self.f_h = self._network(length, config.num_h_layers or config.num_layers) if config.separate_networks else None
        self.head = Linear(width, 1 if config.symbols else shape.vocab_size)
        self.q_head = nn.Linear(width, 2)  # float32, from 0 and −5: almost never halts at first
        with torch.no_grad():
            self.q_head.weight.zero_()
            self.q_head.bias.fill_(-5.0)
        self.gate = build_gate(width, config.gate)
        self.register_buffer("initial_h", truncated_normal_(torch.empty(width), 1.0))
        self.register_buffer("initial_l", truncated_normal_(torch.empty(width), 1.0))

    def _network(self, length: int, layers: int) -> Stack:
        c = self.config
        if c.mixer in STRUCTURED:
            return Stack(
                [StructuredBlock(structured_mixer(c, self.shape, c.activation)) for _ in range(layers)], c.repeats
            )
        blocks = [Block(c.hidden_size, length, c.mixer, c.num_heads, c.expansion, c.activation) for _ in range(layers)]
        return Stack(blocks, c.repeats)

    def encode(self, batch: Batch) -> Tensor:
        """x̂ = √D · [puzzle embedding, zeros, token embeddings]; learned positions: √D · (… + positions)/√2.

        Every table is rounded to the states' type before it is scaled, as in the code of HRM and TRM.
        """
        layout = self.layouts.of_cells(batch.inputs)
        x = self.tokens(layout.embedded(batch.inputs)).to(self.dtype)  # (B, S·K, D)
        if self.puzzle_embedding is not None:
            own = self.puzzle_embedding(batch.identifiers).to(self.dtype)
            own = nn.functional.pad(own, (0, self.config.puzzle_emb_len * x.shape[-1] - own.shape[-1]))  # (B, P·D)
            x = torch.cat([own.view(len(own), -1, x.shape[-1]), x], dim=1)
        if self.positions is not None:
            x = math.sqrt(0.5) * (x + self.positions.weight.to(self.dtype))
        x = layout.masked(math.sqrt(self.config.hidden_size) * x, batch.inputs)
        return sequence_first(x) if self.config.mixer in ("mlp", *GROUPED) else x

    def initial_state(self, x: Tensor) -> RecursiveState:
        """Fixed buffers at every position, or z_H = x̂ (no gradient through it: ours) and z_L = 0, or unit normals."""
        match self.config.initial:
            case "buffer":
                z_h, z_l = self.initial_h.to(x.dtype).expand_as(x), self.initial_l.to(x.dtype).expand_as(x)
            case "input":
                z_h, z_l = x.detach(), torch.zeros_like(x)
            case "random":
                z_h, z_l = torch.randn_like(x), torch.randn_like(x)
        return RecursiveState(z_h, z_h if self.config.states == 1 else z_l)

    def step(self, state: RecursiveState, x: Tensor) -> RecursiveState:
        """N_H cycles; only the last call of each network, the last cycle, or every cycle carries a gradient."""
        c = self.config
        noisy = self.training or c.noise_when == "always"
        recompute = c.gradient_checkpointing and self.training
        with self.autocast():
            return self._recursion(state, x, c.h_cycles, c.gradient_from, c.noise if noisy else "none", recompute)

    def path(self, state: RecursiveState, x: Tensor) -> list[RecursiveState]:
        """The state after every network call of a supervision step, without noise."""
        states: list[RecursiveState] = []
        with self.autocast():
            self._recursion(state, x, self.config.h_cycles, visit=states.append)
        return states

    def _recursion(
        self,
        state: RecursiveState,
        x: Tensor,
        cycles: int,
        gradient_from: tuple[int, int] = (0, 0),
        noise: Noise = "none",
        recompute: bool = False,
        visit: Callable[[RecursiveState], object] = lambda _: None,
    ) -> RecursiveState:
        """`cycles` × (N_L × z_L ← F_L(z_L + (z_H + x̂)), then z_H ← F_H(z_H + z_L)); one state: F(z + x̂), then F(z)."""
        z_h, z_l = state
        first_h, single = gradient_from[0], self.config.states == 1
        learns, geometry = torch.is_grad_enabled(), self.layouts.geometry(x)
        move = partial(self._move, geometry=geometry, noise=noise, recompute=recompute)
        for h_step in range(cycles):
            with torch.set_grad_enabled(learns and h_step >= first_h):
                if self.config.equation == "averaged":
                    z_h, z_l = self._averaged_cycle(z_h, z_l, x, geometry, recompute)
                    visit(RecursiveState(z_h, z_l))
                    continue
                for l_step in range(self.config.l_cycles):
                    with torch.set_grad_enabled(learns and (h_step, l_step) >= gradient_from):
                        z_l = move(self.f_l, z_l, x) if single else move(self.f_l, z_l, z_h, x)
                    visit(RecursiveState(z_l if single else z_h, z_l))
                z_h = move(self._f_h, z_l) if single else move(self._f_h, z_h, z_l)
                z_l = z_h if single else z_l
                visit(RecursiveState(z_h, z_l))
        return RecursiveState(z_h, z_l)

    def _averaged_cycle(
        self, z_h: Tensor, z_l: Tensor, x: Tensor, geometry: Geometry, recompute: bool
    ) -> tuple[Tensor, ...]:
        """(z_H, z_L) after a time N_L·Δt of CMM eq. 18 and 19."""
        c = self.config

        def velocity(pair: Tensor) -> Tensor:
            z_h, z_l = pair.unbind(1)
            high = (self._call(self._f_h, z_h + z_l, geometry, recompute) - z_h) / c.l_cycles
            return torch.stack([high, self._call(self.f_l, z_l + (z_h + x), geometry, recompute) - z_l], dim=1)

        steps, start = c.l_cycles * c.substeps, torch.stack([z_h, z_l], dim=1)
        return integrate(velocity, start, c.l_cycles * c.dt, steps, c.integrator, c.tolerance).unbind(1)

    def _move(
        self, network: Stack, z: Tensor, *injected: Tensor, geometry: Geometry, noise: Noise, recompute: bool
    ) -> Tensor:
        """z after a time Δt of dz/dt = F(z + injected) − z, or of its Euler-Maruyama form where there is noise."""
        c = self.config

        def f(z: Tensor) -> Tensor:
            return self._call(network, z + reduce(torch.add, injected) if injected else z, geometry, recompute)

        if c.integrator != "euler":
            return integrate(lambda z: f(z) - z, z, c.dt, c.substeps, c.integrator, c.tolerance)
        for _ in range(c.substeps):
            z = euler_maruyama(z, f(z), c.dt / c.substeps, noise, c.sigma)
        return z

    def _call(self, network: Stack, h: Tensor, geometry: Geometry, recompute: bool) -> Tensor:
        if recompute and torch.is_grad_enabled():
            return checkpoint(network, h, geometry, use_reentrant=False, preserve_rng_state=False)
        return network(h, geometry)

    @property
    def _f_h(self) -> Stack:
        return self.f_h or self.f_l

    def readout(self, state: RecursiveState, step: int | None = None) -> Readout:
        """Cell logits from z_H without the prefix; q in float32 from its first slot (or the mean over cells)."""
        cells = state.z_h[:, self.config.puzzle_emb_len :]  # (B, S, D)
        slot = state.z_h[:, 0] if self.config.q_from == "first" else cells.mean(dim=1)
        halt, q_continue = self.q_head(slot.to(self.q_head.weight.dtype)).unbind(-1)
        read = rms_norm(cells) if self.config.readout == "norm" else cells
        with self.autocast():
            logits = self.layouts.of_positions(state.z_h).logits(self.head(read))
        return Readout(logits, halt, q_continue, None if self.gate is None else self.gate(read))

    def networks(self) -> list[nn.Module]:
        """F_L, and F_H where it is another."""
        return [self.f_l] if self.f_h is None else [self.f_l, self.f_h]

    def reads(self, shape: Shape) -> bool:
        """Any size of its family, where no weight is bound to one."""
        return self.layouts.reads(shape)

    def add_shape(self, shape: Shape) -> None:
        """Its geometry is looked up from now on."""
        self.layouts.add(shape)

    def balance_weights(self) -> list[nn.Parameter]:
        """The output projection of F_H's last block, and the token embedding (ours: rep x reaches no other)."""
        return [self._f_h.output, self.tokens.weight]

    def freeze_embedding(self) -> None:
        """Token, position and puzzle embeddings: x̂ is a fixed function of the puzzle from now on."""
        for part in (self.tokens, self.positions, self.puzzle_embedding):
            if part is not None:
                part.requires_grad_(False)

    def map(self, state: RecursiveState, x: Tensor, kind: MapKind) -> tuple[Callable[[Tensor], Tensor], Tensor]:
        """f_h: z_H at fixed z_L; cycle: (z_H, z_L) after one H-cycle; step: after the N_H of a supervision step.

        The pair is one tensor (B, 2, S', D) (with one state (B, 1, S', D)). No gradient truncation shortens a map.
        """
        parts = self.config.states
        if kind == "f_h":
            f_h, geometry = self._f_h, self.layouts.geometry(x)
            return lambda z: f_h(z if parts == 1 else z + state.z_l, geometry), state.z_h
        cycles = self.config.h_cycles if kind == "step" else 1

        def mapped(pair: Tensor) -> Tensor:
            moved = RecursiveState(pair[:, 0], pair[:, parts - 1])
            return torch.stack(self._recursion(moved, x, cycles)[:parts], dim=1)

        return mapped, torch.stack(state[:parts], dim=1)
