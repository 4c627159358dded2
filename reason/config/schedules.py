"""What changes in the course of a run: a learning rate, the weight of a loss term."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Annotated, Literal, NamedTuple

from pydantic import Field, model_validator

from reason.config.base import BaseConfig

Position = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(ge=0)]


class Horizon(NamedTuple):
    """How long a run is, in optimizer steps."""

    steps: int  # of the whole run
    epoch: float  # of one pass over the base puzzles


class ScheduleConfig(BaseConfig):
    """A course of shares, to multiply a value with: a linear warm-up, then `kind` between `start` and `end`."""

    kind: Literal["constant", "cosine", "exponential", "piecewise"] = Field(
        "constant",
        description="after the warm-up: constant, cosine or exponential down to `min_ratio`, or steps (`points`)",
    )
    warmup_steps: int = Field(0, ge=0, description="optimizer steps of linear warm-up")
    min_ratio: float = Field(0.0, ge=0, description="cosine, exponential: the share reached at `end`")
    start: Position = Field(0.0, description="cosine, exponential: where the descent begins; a warm-up comes first")
    end: Position | None = Field(None, description="cosine, exponential: where it ends; none: with the run")
    after: Share | None = Field(None, description="the share from `end` on; none: min_ratio")
    unit: Literal["step", "epoch"] = Field("step", description="of start, end and points: optimizer steps or epochs")
    points: tuple[tuple[Position, Share], ...] = Field(
        (), description="piecewise: [[position,share],…], each share from its position on, before the first one 1"
    )

    @model_validator(mode="after")
    def _is_a_course(self) -> ScheduleConfig:
        if self.kind == "exponential" and self.min_ratio == 0:
            raise ValueError("an exponential descent never reaches 0: give it a floor, such as min_ratio=0.1")
        if self.end is not None and self.end <= self.start:
            raise ValueError(f"end={self.end:g} must lie beyond start={self.start:g}")
        if (self.kind == "piecewise") != bool(self.points):
            raise ValueError("kind=piecewise and points go together: points=[[0,1],[1000,0.5]] halves at 1000")
        if any(a >= b for (a, _), (b, _) in pairwise(self.points)):
            raise ValueError(f"points {[list(p) for p in self.points]} must rise in position")
        return self

    @property
    def vanishes(self) -> bool:
        """Is the share 0 at some time before the run ends?"""
        early = self.kind == "cosine" and self.min_ratio == 0 and self.end is not None and self.after is None
        return early or self.after == 0 or any(share == 0 for _, share in self.points)

    @property
    def peak(self) -> float:
        """A share that is never exceeded."""
        return max(1.0, self.min_ratio, self.after or 0.0, *(share for _, share in self.points))

    def factor(self, step: int, horizon: Horizon) -> float:
        """The share at optimizer step `step` (from 0)."""
        rise = (step + 1) / self.warmup_steps if step < self.warmup_steps else 1.0
        return rise * self._descent(step, horizon)

    def _descent(self, step: int, horizon: Horizon) -> float:
        unit = horizon.epoch if self.unit == "epoch" else 1.0
        if self.kind == "constant":
            return 1.0
        if self.kind == "piecewise":
            return next((share for position, share in reversed(self.points) if step >= position * unit), 1.0)
        begin = max(self.start * unit, self.warmup_steps)
        end = horizon.steps if self.end is None else self.end * unit
        if step < begin:
            return 1.0
        progress = min(1.0, (step - begin) / max(1.0, end - begin))
        if progress == 1.0 and self.after is not None:
            return self.after
        if self.kind == "cosine":
            return self.min_ratio + (1 - self.min_ratio) * 0.5 * (1 + math.cos(math.pi * progress))
        return self.min_ratio**progress
