"""Settings of the training loop."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

import reason.settings.capabilities as can
from reason.settings.base import Automatic, BaseConfig, Elsewhere, Outside, Readable, Resumable
from reason.training.monitor import MonitorConfig
from reason.training.precision import Precision


class TrainingConfig(BaseConfig):
    """Length, batch size, precision, compilation, logging and checkpoints."""

    steps: int = Field(1000, ge=1, description="optimizer steps; puzzle-steps = steps × N_grad × batch_size")
    batch_size: int = Field(128, ge=1, description="rows B, one puzzle each")
    only: Literal["all", "gate"] = Field(
        "all", description="gate: train only the exit gate; the other weights stay those of init_from (Ouro stage II)"
    )
    precision: Readable[Resumable[Precision]] = Field(
        "auto",
        description="fp32; bf16, fp16: states and matrix products; amp-bf16, amp-fp16: matrix products only "
        "(autocast), states and noise in float32; fp16 uses loss scaling; auto, amp: the fastest safe type",
    )
    compile: Automatic[Literal["none", "auto", "inductor"]] = Field(
        "auto",
        description="torch.compile of every network call; on a CPU inductor needs a C++ compiler; auto: inductor if it "
        "works and training takes minutes; the choice is recorded",
    )
    tracker: Outside[Literal["none", "tensorboard", "wandb"]] = Field(
        "none", description="log the metrics also to TensorBoard (folder RUN/tensorboard) or Weights & Biases"
    )
    log_every: Outside[int] = Field(20, ge=1, description="optimizer steps between lines of metrics.jsonl")
    checkpoint_every: Outside[int] = Field(500, ge=1, description="optimizer steps between checkpoints")
    keep_checkpoints: Outside[int] = Field(
        2, ge=1, description="number of newest checkpoints kept, in addition to the best"
    )
    monitor: MonitorConfig = MonitorConfig()

    def unused(self) -> dict[str, str]:
        """What is written down, and which checkpoint is chosen."""
        kept = Elsewhere("it is about what is kept")
        found: dict[str, str] = dict.fromkeys(("tracker", "log_every", "checkpoint_every", "keep_checkpoints"), kept)
        found["monitor"] = Elsewhere("it chooses the best checkpoint")
        return found

    def needs(self) -> list[can.Need]:
        """A loss for a gate trained alone, from a finished run; networks to compile alone; products to halve alone."""
        found = []
        if self.only == "gate":
            wanted = (can.trained(can.EXIT_GATE), can.TRAINED_RUN)
            found += [can.Need("training.only=gate", needed, "training.only=all") for needed in wanted]
        if self.compile == "inductor":
            found.append(can.Need("training.compile=inductor", can.NETWORKS, "training.compile=none"))
        if self.precision.startswith("amp"):
            found.append(
                can.Need(f"training.precision={self.precision}", can.MIXED_PRECISION, "training.precision=auto")
            )
        return found
