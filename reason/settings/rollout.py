"""Settings of `reason.rollout`: supervision steps, carry, halting, loops (docs/math.md §3; docs/math.md §8)."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from reason.settings.base import BaseConfig, TabledConfig

Halting = Literal["bce", "q-learning", "none"]


class LoopsConfig(BaseConfig):
    """T: the number of model steps in one backward pass, and which of these steps are read out."""

    count: int = Field(1, ge=1, le=10_000, description="T")
    supervision: Literal["terminal", "per-loop"] = Field(
        "terminal", description="states that are scored: terminal: the last; per-loop: all T, their losses averaged"
    )

    @property
    def allows_several(self) -> str | None:
        """Return the setting that allows T > 1, or None if T is 1."""
        return f"count={self.count}" if self.count > 1 else None

    def draw(self, seed: int, index: int, step: int) -> int:
        """Return T of backward pass number `index`, in optimizer step `step`, both counted from 0."""
        return self.count

    @property
    def typical(self) -> int:
        """Return the T that counts as the number of trained loops."""
        return self.count

    @property
    def most(self) -> int:
        """Return the largest T."""
        return self.count


ROLLOUT_SECTIONS: dict[str, type[BaseConfig]] = {"loops": LoopsConfig}  # extensions/looped puts random loops there


class RolloutConfig(TabledConfig):
    """Supervision steps, accumulation, carry, halting and loops."""

    entries: ClassVar = ROLLOUT_SECTIONS
    supervision_steps: int = Field(
        16, ge=1, le=100_000, description="N_super: maximum number of supervision steps per puzzle"
    )
    accum_steps: int = Field(1, ge=1, description="N_accum: supervision steps per loader batch; 1 for carry=persistent")
    grad_steps: int = Field(1, ge=1, le=100_000, description="N_grad: supervision steps per optimizer step")
    carry: Literal["persistent", "same-batch", "handover"] = Field(
        "persistent",
        description="persistent: a row keeps its puzzle until it halts, then takes a new one; same-batch: then takes "
        "its row of the current loader batch, often the same puzzle again; handover: every loader batch replaces all "
        "puzzles, and rows that have not halted keep their states",
    )
    halting: Halting = Field(
        "bce",
        description="bce: halt when q_halt > 0 (TRM); q-learning: when q_halt > q_continue (HRM); none: at N_super",
    )
    halt_exploration_prob: float = Field(
        0.1,
        ge=0,
        le=1,
        description="ε: probability, at each step, that a row may halt only if m ≥ a random number, uniform in "
        "{2..N_super}",
    )

    staggered: bool = Field(
        False,
        description="whether row i begins its first puzzle at m = i mod N_super, so that rows halt one after the other "
        "and every optimizer step sees new puzzles (ours); else all rows begin together at m = 0",
    )

    @classmethod
    def fields_of(cls, name: str, section: type[BaseConfig]) -> dict[str, tuple[Any, Any]]:
        """Return the section as one setting."""
        return {name: (section, section())}

    @model_validator(mode="after")
    def _fits(self) -> RolloutConfig:
        if self.carry == "persistent" and self.accum_steps > 1:
            raise ValueError(
                f"accum_steps={self.accum_steps} has no effect under carry=persistent, which draws at every step: type "
                "rollout.carry=same-batch, or rollout.accum_steps=1"
            )
        return self

    @property
    def trained_steps(self) -> int:
        """Return the model steps of a puzzle in training: N_super · T, with the typical T if T is random."""
        typical: int = self.loops.typical
        return self.supervision_steps * typical
