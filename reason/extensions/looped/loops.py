"""T, the number of loops of a backward pass, drawn at random (STARS tables 1 and 3; docs/math.md §8)."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field, model_validator

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
        "fixed", description="distribution of T; a random T is rounded and clipped to min..max (STARS tables 1 and 3)"
    )
    count: int = Field(1, ge=1, le=10_000, description="T of the fixed distribution")
    start: Annotated[int, RANDOM] = Field(0, ge=0, description="optimizer steps with T = count, before T is random")
    mu: Annotated[float, LOG_NORMAL] = Field(2.0, ge=-10, le=10, description="log-normal: mean of log T")
    sigma: Annotated[float, LOG_NORMAL] = Field(0.7, gt=0, le=10, description="log-normal: standard deviation of log T")
    mean: Annotated[float, POISSON] = Field(5.0, gt=0, le=10_000, description="poisson: mean of T")
    min: Annotated[int, RANDOM] = Field(1, ge=1, le=10_000, description="smallest random T")
    max: Annotated[int, RANDOM] = Field(100, ge=1, le=10_000, description="largest random T")

    @model_validator(mode="after")
    def _ordered(self) -> RandomLoops:
        if self.min > self.max:
            raise ValueError(f"min={self.min} is greater than max={self.max}: type rollout.loops.min=1")
        return self

    def draw(self, seed: int, index: int, step: int) -> int:
        """T of backward pass number `index`, in optimizer step `step`, both counted from 0."""
        if self.distribution == "fixed" or step < self.start:
            return self.count
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(index,)))
        return int(self.draws(rng, 1)[0])

    def draws(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """(count,) random T."""
        numbers: np.ndarray
        match self.distribution:
            case "fixed":
                return np.full(count, self.count)
            case "log-normal":
                numbers = rng.lognormal(self.mu, self.sigma, count)
            case "poisson":
                numbers = rng.poisson(self.mean, count)
            case "uniform":
                numbers = rng.integers(self.min, self.max + 1, count)
        return np.rint(numbers).clip(self.min, self.max).astype(int)

    @property
    def several(self) -> str | None:
        """The setting by which T may be above 1; None: it is 1."""
        return super().several if self.distribution == "fixed" else f"distribution={self.distribution}"

    @property
    def typical(self) -> int:
        """The T that a run is said to be trained for: the fixed one, the law's median (log-normal) or mean."""
        middle = {"log-normal": np.exp(self.mu), "poisson": self.mean, "uniform": (self.min + self.max) / 2}
        if self.distribution == "fixed":
            return self.count
        return round(min(max(middle[self.distribution], self.min), self.max))

    @property
    def most(self) -> int:
        """The largest T."""
        return self.count if self.distribution == "fixed" else self.max
