"""Faster code than torch in eager mode: accelerators of extensions, and torch.compile."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch

from reason.errors import ConfigError
from reason.models.base import ModelConfig, Reasoner
from reason.nn.dtypes import Dtypes
from reason.plugins import installed
from reason.training.precision import bfloat16_is_faster

UNROLLED = 32  # shorter sums are unrolled on a GPU, 1.75 × as fast (docs/log/performance.md)
GRAPHS = 64  # per function: puzzle sizes × kinds of call (with and without gradient, full and last batch)


class Accelerator(NamedTuple):
    """Faster code for the supervision steps of a model."""

    lacks: Callable[[ModelConfig, Dtypes, torch.device], str | None]  # why it cannot compute this model; None: it can
    install: Callable[[Reasoner], None]  # into a built model: `RecursiveModel.fused_step`; nothing is left to compile


ACCELERATORS: dict[str, Accelerator] = {}  # by name; extensions fill it; the first that can compute a model is used


def fused(config: ModelConfig) -> bool | str:
    """Return the setting `model.fused`: true, false or auto; false if the family has no such setting."""
    return getattr(config, "fused", False)


def accelerator(config: ModelConfig, computed: Dtypes, device: torch.device) -> Accelerator | None:
    """Return the first accelerator that can compute this model here, or None.

    With `model.fused=auto` only if float32 is computed, or bfloat16 where the processor multiplies faster in it.
    """
    faster = computed.states == torch.float32 or bfloat16_is_faster()
    if fused(config) is not True and not (fused(config) == "auto" and faster):
        return None
    return next((each for each in ACCELERATORS.values() if each.lacks(config, computed, device) is None), None)


def lacking(config: ModelConfig, computed: Dtypes, device: torch.device) -> str:
    """Return the reasons why no accelerator computes the model."""
    reasons = [each.lacks(config, computed, device) for each in ACCELERATORS.values()]
    return "; ".join(filter(None, reasons)) or f"kernels are an extension; {installed()}"


def accelerate(model: Reasoner, config: ModelConfig, computed: Dtypes, device: torch.device) -> None:
    """Install the accelerator of a model, if there is one."""
    if (chosen := accelerator(config, computed, device)) is not None:
        chosen.install(model)


def inductor_works(device: torch.device) -> bool:
    """Return whether torch.compile can generate code here, by compiling a minimal function."""
    try:
        torch.compile(torch.sin, dynamic=False)(torch.ones(2, device=device))
    except Exception:  # without compiler, headers or Triton the types differ
        return False
    return True


def compile_networks(model: Reasoner, backend: str = "inductor", setting: str = "training.compile") -> None:
    """Compile every network call in place, as `setting` requests. A graph break is an error (fullgraph).

    Products are in float32 on a CPU on which bfloat16 is not faster.
    """
    device = next(model.parameters()).device
    if backend == "inductor" and not inductor_works(device):
        makes = f"{setting}=inductor makes no code for {device} here (on a CPU it needs a C++ compiler)"
        raise ConfigError(f"{makes}; type {setting}=none")
    for module in model.modules():
        if hasattr(module, "widened"):
            module.widened = device.type == "cpu" and not bfloat16_is_faster()  # type: ignore[assignment]
    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, GRAPHS)
    if device.type != "cpu":
        from torch._inductor import config  # half a second, only on a GPU

        config.unroll_reductions_threshold = UNROLLED
    for network in model.networks():
        network.compile(backend=backend, dynamic=False, fullgraph=True)
