"""The settings of the recursive reasoner, which select HRM, TRM or CMM (docs/math.md §1)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from reason.models.base import ModelConfig, Shape
from reason.models.mixing import MIXERS, MixingConfig, check_mixing
from reason.models.recursion import Cycles
from reason.nn.mlp import Activation
from reason.settings.base import Readable, Resumable, When, require


class RecursiveConfig(MixingConfig):
    """The settings in which HRM, TRM and CMM differ."""

    kind: Literal["recursive"] = "recursive"
    num_layers: int = Field(2, ge=1, le=1024, description="layers of each reasoning network")
    repeats: int = Field(
        1, ge=1, le=1024, description="times the layers are applied in a call (CMM identical layers: 2 × 1)"
    )
    separate_networks: bool = Field(False, description="HRM: F_H and F_L have their own weights")
    activation: Activation = Field("silu", description="activation function of the gates")
    open_only: bool = Field(
        False,
        description="leave out positions that take no part: with model.symbols=true those whose symbol the clues "
        "exclude (the cells of a group must hold different symbols); with model.mixer=local the cells outside the "
        "board, such as a maze's walls; a kernel (model.fused) then does a third to a half of the work",
    )
    puzzle_emb_len: int = Field(
        16, ge=0, le=100_000, description="P, number of tokens before the cells; they contain the puzzle embedding"
    )
    h_cycles: Readable[int] = Field(
        3, ge=1, le=10_000, description="N_H: updates of the high state in a supervision step"
    )
    l_cycles: Readable[int] = Field(6, ge=1, le=10_000, description="N_L: updates of the low state in each of them")
    states: int = Field(2, ge=1, le=2, description="2: z_H and z_L; 1: TRM's single z")
    gradient: Literal["last-call", "last-cycle", "all-cycles"] | Annotated[int, Field(ge=1)] = Field(
        "last-cycle",
        description="calls with a gradient: last-call: the last call of each network (HRM); last-cycle: all calls of "
        "the last cycle (TRM, CMM); all-cycles: all calls; k: the last k calls",
    )
    initial: Literal["buffer", "input", "random"] = Field(
        "buffer", description="state of a new puzzle: buffer: fixed random vectors; input: (x̂, 0); random: fresh noise"
    )
    dt: Readable[float] = Field(
        1.0, gt=0, le=1, description="Δt, time of a call in dz/dt = F(z) − z; Euler: z ← z + Δt(F(z) − z)"
    )
    noise: Readable[Literal["none", "additive"]] = Field(
        "none", description="additive: normal noise, added after every call in training (CMM's NSDE)"
    )
    sigma: Annotated[float, When("noise", "additive")] = Field(0.01, gt=0, description="σ, magnitude of the noise")
    gradient_checkpointing: Resumable[bool] = Field(
        False, description="recompute each call in the backward pass: less memory, about 1.3 × the time"
    )
    fused: Resumable[bool | Literal["auto"]] = Field(
        "auto",
        description="compute a supervision step in one call of a C++ kernel (mixers groups, local; on CPUs "
        "only): float32 with AVX2 or AVX-512, bfloat16 with AVX-512 BF16 and without AMX; auto: bfloat16 only on AMD "
        "CPUs; the choice is recorded",
    )
    q_from: Literal["first", "mean"] = Field(
        "first", description="input of the halting head: first: the first position; mean: the mean over the cells"
    )

    @model_validator(mode="after")
    def _fits(self) -> RecursiveConfig:
        check_mixing(self)
        if self.mixer in MIXERS and self.puzzle_emb_len:
            raise ValueError(f"the mixer {self.mixer} does not support prefix positions: type model.puzzle_emb_len=0")
        if self.cycles.gradient_calls > self.cycles.calls:
            raise ValueError(f"gradient={self.gradient} exceeds the {self.cycles.calls} calls of a step: name fewer")
        if self.open_only and not self.symbols and self.mixer != "local":
            raise ValueError("open_only=true leaves out symbols or cells: type model.symbols=true or model.mixer=local")
        if self.open_only and self.noise == "additive":
            raise ValueError(
                "additive noise would move positions that are left out: type model.noise=none, or model.open_only=false"
            )
        if self.states == 1 and self.separate_networks:
            raise ValueError("a single state has one network: type model.separate_networks=false")
        return self

    def missing_structure(self, shape: Shape) -> str | None:
        """Return the structure that `open_only` or the mixer needs and the set does not declare, or None."""
        structure = shape.structure
        if self.open_only and not self.symbols and structure.outside is None:
            return "model.open_only=true leaves out what lies beyond the edge, and the set declares no token for it"
        if self.open_only and self.symbols and (structure.values or not structure.groups):
            return "model.open_only=true is for symbols that groups hold once, and the set declares none"
        return super().missing_structure(shape)

    @property
    def cycles(self) -> Cycles:
        """Return N_H, N_L, and the number of last calls of a step that carry a gradient."""
        whole = Cycles(self.h_cycles, self.l_cycles, 0)
        named = {"last-call": 2, "last-cycle": self.l_cycles + 1, "all-cycles": whole.calls}
        calls = self.gradient if isinstance(self.gradient, int) else named[self.gradient]
        return whole._replace(gradient_calls=calls)

    @property
    def plain_update(self) -> bool:
        """Return whether the update of every call is that of HRM and TRM, z ← F(z + injected)."""
        return self.dt == 1.0 and self.noise == "none"

    @property
    def layer_calls(self) -> int:
        """Return the layer calls of a step: N_H·(N_L + 1) times the layers of a network."""
        return self.cycles.calls * self.num_layers * self.repeats

    @property
    def prefix(self) -> int:
        """Return P, the number of puzzle tokens."""
        return self.puzzle_emb_len

    @property
    def heads(self) -> frozenset[str]:
        """Return both Q values."""
        return frozenset({"q_halt", "q_continue"})

    def check(self, config: Any) -> None:
        """Check that several steps of one backward pass have a gradient through all of them."""
        several, whole = config.rollout.loops.allows_several, self.gradient == "all-cycles"
        what = "a gradient from one step of the model to the one before"
        require(not several or whole, f"rollout.loops.{several}", what, "model.gradient=all-cycles")


def takes_marks(c: ModelConfig) -> bool:
    """Return whether the head has a logit for each token, and so for marked ones (`Shape.marks`)."""
    return isinstance(c, RecursiveConfig) and not c.symbols
