"""T, the number of loops of a backward pass, drawn at random (STARS tables 1 and 3; docs/math.md §9)."""

from __future__ import annotations

from typing import Any

import numpy as np
from pydantic import Field, field_validator

from reason.settings.rollout import LoopsConfig

LAWS = {"log-normal": {"mean", "sigma", "max"}, "poisson": {"mean", "max"}, "uniform": {"max"}}
TYPED = 'type {"law": "log-normal", "mean": 2, "sigma": 0.7, "max": 100} (of log T), poisson (mean, max), uniform (max)'


class RandomLoops(LoopsConfig):
    """The number of loops T, fixed or random.

    T of backward pass number i depends only on the run's seed and on i: a checkpoint need not hold it. It is
    drawn on the host, so nothing waits for the device.
    """

    random: dict[str, Any] = Field({}, description=f"law of T, rounded and clipped to 1..max; {{}}: T = count; {TYPED}")
    start: int = Field(0, ge=0, description="optimizer steps with T = count, before T is random")

    @field_validator("random")
    @classmethod
    def _is_a_law(cls, random: dict[str, Any]) -> dict[str, Any]:
        numbers = {key: value for key, value in random.items() if key != "law"}
        positive = all(isinstance(value, int | float) and 0 < value <= 10_000 for value in numbers.values())
        if random and (LAWS.get(str(random.get("law"))) != numbers.keys() or not positive or random["max"] < 1):
            raise ValueError(f"{random} is not a law of positive numbers: {TYPED}")
        return random

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
    def allows_several(self) -> str | None:
        """The setting by which T may be above 1; None: it is 1."""
        return "random" if self.random else super().allows_several

    @property
    def typical(self) -> int:
        """The trained T of a run: the fixed one, the law's median (log-normal) or mean."""
        if not self.random:
            return self.count
        mean = self.random.get("mean", (1 + self.most) / 2)
        return self._clipped(np.exp(mean) if self.random["law"] == "log-normal" else mean)

    @property
    def most(self) -> int:
        """The largest T."""
        return int(self.random["max"]) if self.random else self.count
