"""torch.compile of network calls or of the supervision step: static shapes, no graph breaks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from reason.errors import ConfigError
from reason.models.base import Reasoner
from reason.rollout import Carry
from reason.training.config import TrainingConfig

GRAPHS = 64  # of one function: puzzle sizes × kinds of call (with and without gradient, of a full and of a last batch)


def compile_model(model: Reasoner, config: TrainingConfig, device: torch.device) -> None:
    """Compile every network call or the supervision step, in place; a graph break is an error (fullgraph).

    Raises:
        ConfigError: CUDA graphs were asked of another device.
    """
    if config.compile == "none":
        return
    if records_graphs(config) and device.type != "cuda":
        raise ConfigError(
            f"training.compile_mode=reduce-overhead records CUDA graphs, this is {device}; "
            "type training.compile_mode=default"
        )
    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, GRAPHS)
    options: dict[str, Any] = {"backend": config.compile, "dynamic": False, "fullgraph": True}
    if config.compile == "inductor":
        options["mode"] = config.compile_mode
    if config.compile_scope == "step":
        model.step = torch.compile(model.step, **options)  # type: ignore[method-assign]
    else:
        for network in model.networks():
            network.compile(**options)


def records_graphs(config: TrainingConfig) -> bool:
    """Does compiled code record CUDA graphs, whose outputs the next replay overwrites?"""
    return config.compile == "inductor" and config.compile_mode == "reduce-overhead"


def out_of_graph(carries: list[Carry]) -> list[Carry]:
    """Copy the carries out of a CUDA graph's memory, and allow the next replay."""
    moved = [replace(carry, state=type(carry.state)(*(z.clone() for z in carry.state))) for carry in carries]
    torch.compiler.cudagraph_mark_step_begin()
    return moved
