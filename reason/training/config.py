"""Settings of the training loop."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from reason.section import Section
from reason.training.precision import Precision


class TrainingConfig(Section):
    """How long, how many rows at once, and what is written down."""

    steps: int = Field(1000, ge=1, description="optimizer steps; puzzle-steps = steps × N_grad × batch_size")
    batch_size: int = Field(128, ge=1, description="rows B, each with a puzzle of its own")
    only: Literal["all", "gate"] = Field(
        "all", description="gate: the exit gate alone is trained, all else stays as init_from left it (Ouro stage II)"
    )
    precision: Precision = Field(
        "auto", description="of activations: auto takes bf16 where the hardware computes in it"
    )
    compile: Literal["none", "inductor", "aot_eager"] = Field(
        "none", description="torch.compile of every network call; inductor needs a C++ compiler on a CPU"
    )
    log_every: int = Field(20, ge=1, description="optimizer steps between lines of metrics.jsonl")
    checkpoint_every: int = Field(500, ge=1, description="optimizer steps between checkpoints")
    keep: int = Field(2, ge=1, description="checkpoints kept, the newest")
