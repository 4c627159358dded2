"""T, the number of loops of a backward pass, drawn at random (STARS tables 1 and 3; docs/math.md §9)."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from reason.settings.base import When
from reason.settings.loops import LoopsConfig

LOG_NORMAL, POISSON = When("distribution", "log-normal"), When("distribution", "poisson")
RANDOM = When("distribution", "log-normal", "poisson", "uniform")


class RandomLoops(LoopsConfig):
    """T, fixed or random.

    T of backward pass number i is a function of the run's seed and of i alone: a checkpoint need not hold it. It is
    drawn on the host, so nothing waits for the device.
    """

    distribution: Literal["fixed", "log-normal", "poisson", "uniform"] = Field(
        "fixed", description="distribution of T; a random T is rounded and clipped to 1..max (STARS tables 1 and 3)"
    )
    count: int = Field(1, ge=1, le=10_000, description="T of the fixed distribution")
    start: Annotated[int, RANDOM] = Field(0, ge=0, description="optimizer steps with T = count, before T is random")
    mu: Annotated[float, LOG_NORMAL] = Field(2.0, ge=-10, le=10, description="log-normal: mean of log T")
    sigma: Annotated[float, LOG_NORMAL] = Field(0.7, gt=0, le=10, description="log-normal: standard deviation of log T")
    mean: Annotated[float, POISSON] = Field(5.0, gt=0, le=10_000, description="poisson: mean of T")
    max: Annotated[int, RANDOM] = Field(100, ge=1, le=10_000, description="largest random T")

    def draw(self, seed: int, index: int, step: int) -> int:
        """T of backward pass number `index`, in optimizer step `step`, both counted from 0."""
        if self.distribution == "fixed" or step < self.start:
            return self.count
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(index,)))
        match self.distribution:
            case "log-normal":
                return self._clipped(rng.lognormal(self.mu, self.sigma))
            case "poisson":
                return self._clipped(rng.poisson(self.mean))
        return int(rng.integers(1, self.max + 1))

    def _clipped(self, loops: float | np.integer) -> int:
        return int(np.clip(np.rint(loops), 1, self.max))

    @property
    def several(self) -> str | None:
        """The setting by which T may be above 1; None: it is 1."""
        return super().several if self.distribution == "fixed" else f"distribution={self.distribution}"

    @property
    def typical(self) -> int:
        """The T that a run is said to be trained for: the fixed one, the law's median (log-normal) or mean."""
        if self.distribution == "fixed":
            return self.count
        middle = {"log-normal": np.exp(self.mu), "poisson": self.mean, "uniform": (1 + self.max) / 2}
        return self._clipped(middle[self.distribution])

    @property
    def most(self) -> int:
        """The largest T."""
        return self.count if self.distribution == "fixed" else self.max
