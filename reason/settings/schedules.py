"""Schedules: a factor by optimizer step for the learning rate or the weight of a loss term (docs/math.md §15)."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Annotated, Literal, NamedTuple

from pydantic import Field, model_validator

from reason.settings.base import BaseConfig, When

Position = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(ge=0)]
DECAYS = When("kind", "cosine", "exponential")


class Horizon(NamedTuple):
    """Length of a run and of an epoch, in optimizer steps."""

    steps: int  # of the whole run
    epoch: float  # of one pass over the base puzzles


class ScheduleConfig(BaseConfig):
    """A factor by step: linear warm-up, then `kind` between `start` and `end`."""

    kind: Literal["constant", "cosine", "exponential", "piecewise"] = Field(
        "constant",
        description="after the warm-up: constant, cosine or exponential down to `min_ratio`, or piecewise (`points`)",
    )
    warmup_steps: int = Field(0, ge=0, description="optimizer steps of linear warm-up")
    min_ratio: Annotated[float, DECAYS] = Field(0.0, ge=0, description="the factor at the end of a decay")
    start: Annotated[Position, DECAYS] = Field(0.0, description="position at which the decay begins, after the warm-up")
    end: Annotated[Position | None, DECAYS] = Field(
        None, description="position at which the decay ends; none: the end of the run"
    )
    after: Annotated[Share | None, DECAYS] = Field(None, description="the factor after `end`; none: min_ratio")
    unit: Literal["step", "epoch"] = Field("step", description="unit of start, end and points: optimizer step or epoch")
    points: tuple[tuple[Position, Share], ...] = Field(
        (), description="piecewise: [[position,factor],…]; a factor holds from its position on; before the first: 1"
    )

    @model_validator(mode="after")
    def _is_consistent(self) -> ScheduleConfig:
        if self.kind == "exponential" and self.min_ratio == 0:
            raise ValueError("an exponential decay never reaches 0: type min_ratio=0.1, for example")
        if self.end is not None and self.end <= self.start:
            raise ValueError(f"end={self.end:g} must be greater than start={self.start:g}")
        if (self.kind == "piecewise") != bool(self.points):
            raise ValueError("kind=piecewise and points go together: points=[[0,1],[1000,0.5]] halves at 1000")
        if any(a >= b for (a, _), (b, _) in pairwise(self.points)):
            raise ValueError(f"points {[list(p) for p in self.points]} must rise in position")
        return self

    @property
    def vanishes(self) -> bool:
        """Is the factor 0 at some step before the run ends?"""
        early = self.kind == "cosine" and self.min_ratio == 0 and self.end is not None and self.after is None
        return early or self._afterwards == 0 or any(share == 0 for _, share in self.points)

    @property
    def peak(self) -> float:
        """An upper bound of the factor."""
        ratio = self.min_ratio if self._decays else 0.0
        return max(1.0, ratio, self._afterwards or 0.0, *(share for _, share in self.points))

    @property
    def _decays(self) -> bool:
        return self.kind in DECAYS.values

    @property
    def _afterwards(self) -> float | None:
        """`after`, where the decay ends before the run."""
        return self.after if self._decays and self.end is not None else None

    def factor(self, step: int, horizon: Horizon) -> float:
        """The factor at optimizer step `step` (from 0)."""
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
