"""torch.compile of network calls or of the supervision step: static shapes, no graph breaks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from reason.errors import ConfigError
from reason.models import RecursiveConfig, RecursiveModel
from reason.models.base import Reasoner
from reason.models.layout import STRUCTURED
from reason.nn import fused_swiglu
from reason.nn.block import Block
from reason.nn.dtypes import Dtypes
from reason.rollout import Carry
from reason.training.config import TrainingConfig
from reason.training.precision import bfloat16_is_faster

GRAPHS = 64  # of one function: puzzle sizes × kinds of call (with and without gradient, of a full and of a last batch)
STATIC: dict[str, Any] = {"dynamic": False, "fullgraph": True}


def inductor_works(device: torch.device) -> bool:
    """Can torch.compile generate code here? Asked with the smallest function that needs some."""
    try:
        torch.compile(torch.sin, dynamic=False)(torch.ones(2, device=device))
    except Exception:  # no compiler, no headers, no Triton: each has its own
        return False
    return True


def compile_model(model: Reasoner, config: TrainingConfig, device: torch.device) -> bool:
    """Compile every network call or the supervision step, in place; a graph break is an error (fullgraph).

    Returns whether anything is compiled; `reason.runs.decided` has decided what compile=auto comes to.

    Raises:
        ConfigError: CUDA graphs or fused layers were asked where there are none, or no code can be generated here.
    """
    backend = config.compile
    assert backend != "auto", "decided before"
    if isinstance(model, RecursiveModel) and model.config.fused_swiglu is True:
        why = "nothing is compiled (training.compile=inductor)" if backend == "none" else None
        why = why or unfused(model.config, Dtypes(model.dtype, model.products), device)
        if why is not None:
            raise ConfigError(f"model.fused_swiglu=true: {why}; type model.fused_swiglu=false")
    if backend == "none":
        return False
    if records_graphs(config) and device.type != "cuda":
        raise ConfigError(
            f"training.compile_mode=reduce-overhead records CUDA graphs, this is {device}; "
            "type training.compile_mode=default"
        )
    if backend == "inductor":
        require_inductor(device, "training.compile")
    if records_graphs(config):
        torch.compiler.cudagraph_mark_step_begin()  # else every call of a network counts as a step of its own
    options: dict[str, Any] = {"mode": config.compile_mode} if backend == "inductor" else {}
    if config.compile_scope == "step":
        _prepare(model)
        model.step = torch.compile(model.step, backend=backend, **STATIC, **options)  # type: ignore[method-assign]
    else:
        compile_networks(model, backend, **options)
    return True


def compile_networks(model: Reasoner, backend: str = "inductor", **options: Any) -> None:
    """Compile every network call, in place."""
    _prepare(model)
    for network in model.networks():
        network.compile(backend=backend, **STATIC, **options)


def require_inductor(device: torch.device, setting: str) -> None:
    """Raises ConfigError where no code can be generated; `setting` is what asked for it."""
    if not inductor_works(device):
        raise ConfigError(
            f"{setting}=inductor makes no code for {device} here (on a CPU it needs a C++ compiler); "
            f"type {setting}=none"
        )


def fuses(config: RecursiveConfig, computed: Dtypes, device: torch.device) -> bool:
    """Are its gated layers one kernel each, once compiled? `auto`: where bfloat16 is the faster type.

    What another machine decided holds as far as it can here.
    """
    asked = config.fused_swiglu is True or (config.fused_swiglu == "auto" and bfloat16_is_faster())
    return asked and unfused(config, computed, device) is None


def unfused(config: RecursiveConfig, computed: Dtypes, device: torch.device) -> str | None:
    """What keeps the gated layers of a model from one kernel (`reason.nn.fused_swiglu`); None where nothing does."""
    if config.mixer in STRUCTURED:
        return f"the mixer {config.mixer} has no SwiGLU"
    if config.hidden_size % fused_swiglu.WIDTH:
        return f"model.hidden_size={config.hidden_size} is no multiple of {fused_swiglu.WIDTH}"
    if device.type != "cpu":
        return f"it is of CPUs, this is {device}"
    if computed != Dtypes(torch.bfloat16):
        return f"it is of bfloat16 (training.precision=bf16), this computes in {computed}"
    return None if fused_swiglu.works() else "it needs a CPU with AVX-512 BF16 and without AMX, and a C++ compiler"


def _prepare(model: Reasoner) -> None:
    """Allow as many graphs as shapes need; on a CPU that is no faster in bfloat16, products are in float32."""
    device = next(model.parameters()).device
    for module in model.modules():
        if hasattr(module, "widened"):
            widened = device.type == "cpu" and not bfloat16_is_faster()
            setattr(module, "widened", widened)  # noqa: B010  (of any class that has it)
    if isinstance(model, RecursiveModel):
        fused = fuses(model.config, Dtypes(model.dtype, model.products), device)
        for module in model.modules():
            if isinstance(module, Block):
                module.fuse(fused)
    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, GRAPHS)


def records_graphs(config: TrainingConfig) -> bool:
    """Does compiled code record CUDA graphs, whose outputs the next replay overwrites?"""
    return config.compile == "inductor" and config.compile_mode == "reduce-overhead"


def out_of_graph(carries: list[Carry]) -> list[Carry]:
    """Copy the carries out of a CUDA graph's memory, and allow the next replay."""
    moved = [replace(carry, state=type(carry.state)(*(z.clone() for z in carry.state))) for carry in carries]
    torch.compiler.cudagraph_mark_step_begin()
    return moved
