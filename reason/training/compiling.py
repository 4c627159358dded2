"""torch.compile of network calls or of the supervision step: static shapes, no graph breaks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from reason.errors import ConfigError
from reason.models.base import Reasoner
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


def compile_model(model: Reasoner, config: TrainingConfig, device: torch.device, fused: bool = False) -> bool:
    """Compile every network call or the supervision step, in place; a graph break is an error (fullgraph).

    Returns whether anything is compiled; `reason.runs.decided` has decided what compile=auto comes to, and whether
    gated layers are `fused`.

    Raises:
        ConfigError: CUDA graphs were asked of another device, or no code can be generated here.
    """
    backend = config.compile
    assert backend != "auto", "decided before"
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
        _prepare(model, fused)
        model.step = torch.compile(model.step, backend=backend, **STATIC, **options)  # type: ignore[method-assign]
    else:
        compile_networks(model, backend, fused, **options)
    return True


def compile_networks(model: Reasoner, backend: str = "inductor", fused: bool = False, **options: Any) -> None:
    """Compile every network call, in place, its gated layers as one kernel each where `fused`."""
    _prepare(model, fused)
    for network in model.networks():
        network.compile(backend=backend, **STATIC, **options)


def require_inductor(device: torch.device, setting: str) -> None:
    """Raises ConfigError where no code can be generated; `setting` is what asked for it."""
    if not inductor_works(device):
        raise ConfigError(
            f"{setting}=inductor makes no code for {device} here (on a CPU it needs a C++ compiler); "
            f"type {setting}=none"
        )


def _prepare(model: Reasoner, fused: bool) -> None:
    """Allow as many graphs as shapes need; on a CPU that is no faster in bfloat16, products are in float32."""
    on_cpu = next(model.parameters()).device.type == "cpu"
    for module in model.modules():
        if hasattr(module, "widened"):
            setattr(module, "widened", on_cpu and not bfloat16_is_faster())  # noqa: B010  (of any class that has it)
    model.fuse(fused)
    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, GRAPHS)


def records_graphs(config: TrainingConfig) -> bool:
    """Does compiled code record CUDA graphs, whose outputs the next replay overwrites?"""
    return config.compile == "inductor" and config.compile_mode == "reduce-overhead"


def out_of_graph(carries: list[Carry]) -> list[Carry]:
    """Copy the carries out of a CUDA graph's memory, and allow the next replay."""
    moved = [replace(carry, state=type(carry.state)(*(z.clone() for z in carry.state))) for carry in carries]
    torch.compiler.cudagraph_mark_step_begin()
    return moved
