"""Schedules: a factor by optimizer step for the learning rate or the weight of a loss term (docs/math.md §15)."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Annotated, Literal

from pydantic import Field, model_validator

from reason.settings.base import BaseConfig, When

Share = Annotated[float, Field(ge=0, le=1)]
DECAYS = When("kind", "cosine", "exponential")


class ScheduleConfig(BaseConfig):
    """A factor by step: linear warm-up, a decay from 1 to `min_ratio`, then the factors of `points`.

    Positions are fractions of the run: 0.5 is its middle.
    """

    kind: Literal["constant", "cosine", "exponential"] = Field(
        "constant", description="after the warm-up: constant, or a decay until the first of `points`, or the run's end"
    )
    warmup_steps: int = Field(0, ge=0, description="optimizer steps of linear warm-up")
    min_ratio: Annotated[Share, DECAYS] = Field(0.0, description="the factor at the end of a decay")
    start: Annotated[Share, DECAYS] = Field(
        0.0, description="where the decay begins, after the warm-up, as a share of the run"
    )
    points: tuple[tuple[Share, Share], ...] = Field(
        (), description="[[position,factor],…]: a factor holds from its position, a share of the run, on"
    )

    @model_validator(mode="after")
    def _is_consistent(self) -> ScheduleConfig:
        if self.kind == "exponential" and self.min_ratio == 0:
            raise ValueError("an exponential decay never reaches 0: type min_ratio=0.1, for example")
        if any(a >= b for (a, _), (b, _) in pairwise(self.points)):
            raise ValueError(f"points {[list(p) for p in self.points]} must rise in position")
        return self

    def factor(self, step: int, steps: int) -> float:
        """Return the factor at optimizer step `step` (from 0) of a run of `steps`."""
        rise = (step + 1) / self.warmup_steps if step < self.warmup_steps else 1.0
        return rise * self._descent(step, steps)

    def turns(self, steps: int) -> list[int]:
        """Return the optimizer steps from which `points` hold."""
        begin = 0.0 if self.kind == "constant" else self._begin(steps)
        return [math.ceil(max(position * steps, begin)) for position, _ in self.points]

    def _begin(self, steps: int) -> float:
        return max(self.start * steps, self.warmup_steps)

    def _descent(self, step: int, steps: int) -> float:
        begin = self._begin(steps)
        reached = [share for position, share in self.points if step >= position * steps]
        if reached and (self.kind == "constant" or step >= begin):
            return reached[-1]
        if self.kind == "constant" or step < begin:
            return 1.0
        end = self.points[0][0] * steps if self.points else steps
        progress = min(1.0, (step - begin) / max(1.0, end - begin))
        if self.kind == "cosine":
            return self.min_ratio + (1 - self.min_ratio) * 0.5 * (1 + math.cos(math.pi * progress))
        return self.min_ratio**progress
