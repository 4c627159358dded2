"""Settings of `reason.rollout`: supervision steps, carry, halting, loops (docs/math.md §3; docs/math.md §8)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, field_validator, model_validator

from reason.settings.base import BaseConfig, When, value_text

Halting = Literal["bce", "q-learning", "none"]


LAWS = {"log-normal": {"mean", "sigma", "max"}, "poisson": {"mean", "max"}, "uniform": {"max"}}
TYPED = '{"law": "log-normal", "mean": 2, "sigma": 0.7, "max": 100} (of log T); poisson (mean, max); uniform (max)'


class LoopsConfig(BaseConfig):
    """T, the number of model steps in one backward pass, fixed or random (STARS tables 1 and 3; docs/math.md §9).

    T of backward pass number i depends only on the run's seed and on i: a checkpoint need not hold it. It is
    drawn on the host, so nothing waits for the device.
    """

    count: int = Field(1, ge=1, le=10_000, description="T, model steps in one backward pass")
    supervision: Literal["terminal", "per-loop"] = Field(
        "terminal", description="states that are scored: terminal: the last; per-loop: all T, their losses averaged"
    )
    random: dict[str, Any] = Field({}, description=f"law of T, rounded, at most max; {{}}: T = count; else {TYPED}")
    start: Annotated[int, When("random")] = Field(
        0, ge=0, description="optimizer steps with T = count, before T is random"
    )

    @field_validator("random")
    @classmethod
    def _is_a_law(cls, random: dict[str, Any]) -> dict[str, Any]:
        numbers = {key: value for key, value in random.items() if key != "law"}
        positive = all(isinstance(value, int | float) and 0 < value <= 10_000 for value in numbers.values())
        if random and (LAWS.get(str(random.get("law"))) != numbers.keys() or not positive or random["max"] < 1):
            raise ValueError(f"{random} is not a law of positive numbers: type {TYPED}")
        return random

    @property
    def idle(self) -> dict[str, str]:
        """Return the settings without effect: `count`, if T is random from the first step on."""
        random = {"count": f"random={value_text(self.random)}"}
        return super().idle | (random if self.random and not self.start else {})

    @property
    def allows_several(self) -> str | None:
        """Return the setting that allows T > 1, or None if T is 1."""
        return "random" if self.random else f"count={self.count}" if self.count > 1 else None

    def draw(self, seed: int, index: int, step: int) -> int:
        """Return T of backward pass number `index`, in optimizer step `step`, both counted from 0."""
        if not self.random or step < self.start:
            return self.count
        rng, law = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(index,))), self.random
        match law["law"]:
            case "log-normal":
                return self._clipped(rng.lognormal(law["mean"], law["sigma"]))
            case "poisson":
                return self._clipped(rng.poisson(law["mean"]))
        return int(rng.integers(1, self.most + 1))

    def _clipped(self, loops: float | np.integer) -> int:
        return int(np.clip(np.rint(loops), 1, self.most))

    @property
    def typical(self) -> int:
        """Return the T that counts as the number of trained loops: fixed, the law's median (log-normal) or mean."""
        if not self.random:
            return self.count
        mean = self.random.get("mean", (1 + self.most) / 2)
        return self._clipped(np.exp(mean) if self.random["law"] == "log-normal" else mean)

    @property
    def most(self) -> int:
        """Return the largest T."""
        return int(self.random["max"]) if self.random else self.count


class RolloutConfig(BaseConfig):
    """Supervision steps, accumulation, carry, halting and loops."""

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
    halt_exploration_prob: Annotated[float, When("halting", "bce", "q-learning")] = Field(
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
    loops: LoopsConfig = Field(default_factory=LoopsConfig)

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
        return self.supervision_steps * self.loops.typical
