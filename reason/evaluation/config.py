"""Settings of an evaluation."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from reason.section import Section


class EvaluationConfig(Section):
    """How a trained model is read."""

    steps: int | None = Field(
        None, ge=1, description="T supervision steps; none: twice the trained ones; steps=T for short"
    )
    split: str = Field("test", description="which split of the data set")
    batch_size: int = Field(256, ge=1, description="puzzles at a time; changes no number beyond rounding")
    weights: Literal["auto", "ema", "raw"] = Field("auto", description="auto: the EMA where the run keeps one")
    checkpoint: Literal["newest", "best"] = Field(
        "newest", description="best: the one that read best on the monitor's split in training"
    )
    blind_spot: bool = Field(
        False, description="also probe what the readout does not see: norms, radial gradients, clamps, in float64"
    )
    caches: bool = Field(False, description="also decode with each way of sharing keys and values (causal models)")
    limit: int | None = Field(None, ge=1, description="only the first so many puzzles")
