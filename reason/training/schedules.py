"""What changes with the optimizer step."""

from __future__ import annotations

import math
from typing import Literal

from pydantic import Field

from reason.section import Section


class ScheduleConfig(Section):
    """A learning rate's course: linear warm-up, then constant or cosine down to `floor`."""

    kind: Literal["constant", "cosine"] = "constant"
    warmup: int = Field(0, ge=0, description="optimizer steps of linear warm-up")
    floor: float = Field(0.0, ge=0, le=1, description="cosine: the last share of the learning rate")

    def factor(self, step: int, total: int) -> float:
        """Share of the learning rate at optimizer step `step` (from 0) of `total`."""
        if step < self.warmup:
            return (step + 1) / self.warmup
        if self.kind == "constant":
            return 1.0
        progress = (step - self.warmup) / max(1, total - self.warmup)
        return self.floor + (1 - self.floor) * 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))
