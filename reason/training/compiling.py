"""torch.compile of every network call: static shapes, no graph breaks."""

from __future__ import annotations

import torch

from reason.config.schema import Config
from reason.errors import ConfigError
from reason.models.base import Reasoner
from reason.training.accelerate import accelerate
from reason.training.precision import bfloat16_is_faster, dtypes

UNROLLED = 32  # sums of fewer numbers are written out on a GPU, 1.75 × as fast (docs/log/performance.md)
GRAPHS = 64  # of one function: puzzle sizes × kinds of call (with and without gradient, of a full and of a last batch)


def inductor_works(device: torch.device) -> bool:
    """Can torch.compile generate code here? Asked with the smallest function that needs some."""
    try:
        torch.compile(torch.sin, dynamic=False)(torch.ones(2, device=device))
    except Exception:  # no compiler, no headers, no Triton: each has its own
        return False
    return True


def make_fast(model: Reasoner, config: Config, device: torch.device) -> bool:
    """Put the model's accelerator into it and compile its networks, as the config says; whether they are compiled."""
    accelerate(model, config.model, dtypes(config.training.precision, device), device)
    compiled = config.training.compile == "inductor"
    if compiled:
        require_inductor(device, "training.compile")
        compile_networks(model)
    return compiled


def compile_networks(model: Reasoner, backend: str = "inductor") -> None:
    """Compile every network call, in place.

    A graph break is an error (fullgraph). On a CPU that is no faster in bfloat16, products are in float32.
    """
    on_cpu = next(model.parameters()).device.type == "cpu"
    for module in model.modules():
        if hasattr(module, "widened"):
            setattr(module, "widened", on_cpu and not bfloat16_is_faster())  # noqa: B010  (of any class that has it)
    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, GRAPHS)
    if not on_cpu:
        from torch._inductor import config  # half a second, on a GPU alone

        config.unroll_reductions_threshold = UNROLLED
    for network in model.networks():
        network.compile(backend=backend, dynamic=False, fullgraph=True)


def require_inductor(device: torch.device, setting: str) -> None:
    """Raises ConfigError where no code can be generated; `setting` is what asked for it."""
    if not inductor_works(device):
        raise ConfigError(
            f"{setting}=inductor makes no code for {device} here (on a CPU it needs a C++ compiler); "
            f"type {setting}=none"
        )
