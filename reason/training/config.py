"""Settings of the training loop."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from reason.settings.base import BaseConfig, Outside, Readable, Resumable, When
from reason.training.precision import Precision


class MonitorConfig(BaseConfig):
    """Validation during training: how many puzzles, how often."""

    every: Annotated[int | None, When("puzzles")] = Field(
        None, ge=1, description="optimizer steps between validations; none: training.checkpoint_every"
    )
    puzzles: int = Field(
        512,
        ge=0,
        description="number of puzzles, the first of the validation split; 0, or no validation split: no validation",
    )


class TrainingConfig(BaseConfig):
    """Length, batch size, precision, compilation, logging and checkpoints."""

    steps: int = Field(1000, ge=1, description="optimizer steps; puzzle-steps = steps × N_grad × batch_size")
    batch_size: int = Field(128, ge=1, description="rows B, one puzzle each")
    precision: Readable[Resumable[Precision]] = Field(
        "auto",
        description="fp32; bf16, fp16: states and matrix products; amp-bf16, amp-fp16: matrix products only "
        "(autocast), states and noise in float32; fp16 uses loss scaling; auto, amp: the fastest safe type",
    )
    compile: Resumable[Literal["none", "auto", "inductor", "graph"]] = Field(
        "auto",
        description="inductor: torch.compile of every network call (on a CPU it needs a C++ compiler); graph: also the "
        "whole optimizer step as one CUDA graph; auto: inductor if it works and training takes minutes; config.json "
        "records the choice",
    )
    tracker: Outside[str] = Field(
        "none", description="log the metrics also to TensorBoard (folder RUN/tensorboard) or Weights & Biases"
    )
    log_every: Outside[int] = Field(20, ge=1, description="optimizer steps between lines of metrics.jsonl")
    checkpoint_every: Outside[int] = Field(500, ge=1, description="optimizer steps between checkpoints")
    keep_checkpoints: Outside[int] = Field(
        2, ge=1, description="newest checkpoints that are kept, in addition to the best"
    )
    monitor: MonitorConfig = MonitorConfig()
