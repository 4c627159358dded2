"""The entry of the kernels in the core's table of accelerators: their installation in a model, and their limits."""

from __future__ import annotations

import torch

from reason.extensions.kernels.library import DTYPES, works
from reason.extensions.kernels.step import INNER, WIDTH
from reason.extensions.kernels.wiring import WholeStep
from reason.models.base import ModelConfig, Reasoner
from reason.models.mixing import inner_of
from reason.models.recursive import RecursiveModel
from reason.models.recursive_config import RecursiveConfig
from reason.nn.dtypes import Dtypes
from reason.training.accelerate import ACCELERATORS, Accelerator


def lacks(config: ModelConfig, computed: Dtypes, device: torch.device) -> str | None:
    """Return why no kernel computes the model (family, width, equation, device, type, machine, …), or None."""
    if not isinstance(config, RecursiveConfig):
        return "models of this family have no kernel"
    if config.hidden_size % (multiple := 2 * WIDTH if config.mixer == "group-attention" else WIDTH):
        return f"model.hidden_size={config.hidden_size} is not a multiple of {multiple}"
    if config.mixer not in ("local", "groups", "group-attention"):
        return f"the kernel has no model.mixer={config.mixer}"
    if inner_of(config) % INNER:
        return f"the inner width {inner_of(config)} (model.expansion) is not a multiple of {INNER}"
    if config.mixer == "local" and config.neighbourhood != "von-neumann":
        return f"the kernel has no model.neighbourhood={config.neighbourhood}"
    if not config.plain_update:
        return "the kernel only computes z ← F(z) (model.dt, noise, integrator, substeps, equation)"
    if config.gradient_checkpointing:
        return "the kernel recomputes nothing (model.gradient_checkpointing=true)"
    if device.type != "cpu":
        return f"the kernel runs on CPUs, this is {device}"
    if computed.products is not None or computed.states not in DTYPES:
        return f"the kernel computes in bf16 or fp32 (training.precision), this model in {computed}"
    needs = "AVX2" if computed.states == torch.float32 else "AVX-512 BF16, without AMX,"
    return None if works(computed.states) else f"the kernel needs a CPU with {needs} and a C++ compiler"


def install(model: Reasoner) -> None:
    """Compute whole steps in one kernel call."""
    assert isinstance(model, RecursiveModel)
    model.fused_step = WholeStep()


ACCELERATORS["kernels"] = Accelerator(lacks, install)
