"""Settings of the training loop."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from reason.config.base import BaseConfig
from reason.training.monitor import MonitorConfig
from reason.training.precision import Precision


class TrainingConfig(BaseConfig):
    """How long, how many rows at once, and what is written down."""

    steps: int = Field(1000, ge=1, description="optimizer steps; puzzle-steps = steps × N_grad × batch_size")
    batch_size: int = Field(128, ge=1, description="rows B, each with a puzzle of its own")
    only: Literal["all", "gate"] = Field(
        "all", description="gate: the exit gate alone is trained, all else stays as init_from left it (Ouro stage II)"
    )
    precision: Precision = Field(
        "auto",
        description="fp32; bf16, fp16: states and products; amp-bf16, amp-fp16: products alone, states and noise stay "
        "float32 (autocast); fp16 scales the loss; auto, amp: in what the hardware is fast",
    )
    compile: Literal["none", "inductor", "aot_eager"] = Field(
        "none", description="torch.compile; inductor needs a C++ compiler on a CPU"
    )
    compile_scope: Literal["network", "step"] = Field(
        "network", description="what is compiled whole: every network call, or the supervision step"
    )
    compile_mode: Literal["default", "reduce-overhead", "max-autotune-no-cudagraphs"] = Field(
        "default", description="inductor's; reduce-overhead records CUDA graphs"
    )
    tracker: Literal["none", "tensorboard", "wandb"] = Field(
        "none", description="where metrics go besides metrics.jsonl: RUN/tensorboard, or Weights & Biases"
    )
    log_every: int = Field(20, ge=1, description="optimizer steps between lines of metrics.jsonl")
    checkpoint_every: int = Field(500, ge=1, description="optimizer steps between checkpoints")
    keep_checkpoints: int = Field(2, ge=1, description="checkpoints kept: the newest, and the best besides")
    monitor: MonitorConfig = MonitorConfig()

    @model_validator(mode="after")
    def _modes_are_inductors(self) -> TrainingConfig:
        if self.compile_mode != "default" and self.compile != "inductor":
            raise ValueError(f"compile_mode={self.compile_mode} is inductor's: type training.compile=inductor")
        return self
