"""Warm start from a run's weights: unchanged, on other constraints, or in a deeper stack (docs/math.md §12)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor, nn

from reason.errors import ConfigError
from reason.training.checkpoint import load_weights, readable

LayerOrder = Literal["same", "cycle", "repeat"]
_LAYER = re.compile(r"^(?P<stack>.*\bblocks)\.(?P<index>\d+)\.(?P<rest>.*)$")
_MESSAGES = re.compile(r"^(?P<mixer>.*\bmixer)\.(?P<messages>\w+\.\d+)\.(?P<rest>.*)$")


def warm_start(
    model: nn.Module,
    run: Path,
    order: LayerOrder,
    had: Mapping[str, Hashable] | None = None,
    has: Mapping[str, Hashable] | None = None,
) -> None:
    """Load the newest readable checkpoint of `run` into the model: its EMA if it has one, as evaluation does (ours).

    A gate that the run did not have keeps its initial weights. `had` and `has` name the constraint behind each part of
    the mixers' messages, in the run and in this model: see `moved`. Everything else must be there, in the same shape.

    Raises:
        ConfigError: there is no checkpoint, or a weight of the two differs.
    """
    if (folder := next(readable(run), None)) is None:
        raise ConfigError(f"init_from={run} holds no checkpoint; name a folder that train.py made and finished")
    weights = load_weights(folder, "ema" if (folder / "ema.safetensors").exists() else "raw")
    own = model.state_dict()
    if had != has:
        weights = moved(weights, own, had or {}, has or {})
    if order != "same":
        weights = duplicated(weights, own, order)
    fresh = {name: tensor for name, tensor in own.items() if name.startswith("gate.") and name not in weights}
    fault = _difference(weights | fresh, own)
    if fault is not None:
        raise ConfigError(f"init_from={run}: {fault}")
    model.load_state_dict(weights | fresh)


def moved(
    weights: Mapping[str, Tensor],
    own: Mapping[str, Tensor],
    had: Mapping[str, Hashable],
    has: Mapping[str, Hashable],
) -> dict[str, Tensor]:
    """Weights of a run on one puzzle for a model of another, whose cells stand under other constraints (ours).

    Messages along a constraint that both have keep their weights. Those of one that only this model has start at
    zero, so the model begins as the run's network, which does not see that constraint.
    """
    where = {constraint: part for part, constraint in has.items()}
    found, mixers = {}, set()
    for name, tensor in weights.items():
        part = _MESSAGES.match(name)
        if part is None or part["messages"] not in had:
            found[name] = tensor
            continue
        mixers.add(part["mixer"])
        if (constraint := had[part["messages"]]) in where:
            found[f"{part['mixer']}.{where[constraint]}.{part['rest']}"] = tensor
    for name, tensor in own.items():
        part = _MESSAGES.match(name)
        if part is not None and part["messages"] in has and part["mixer"] in mixers and name not in found:
            last = part["rest"] in ("weight", "answer.weight")  # matrix of these messages
            found[name] = torch.zeros_like(tensor) if last else tensor
    return found


def duplicated(weights: Mapping[str, Tensor], target: Mapping[str, Tensor], order: LayerOrder) -> dict[str, Tensor]:
    """Weights of stacks of L layers for the deeper stacks, of n·L, of `target`.

    Layer i of the new stack is layer i mod L of the old one (`cycle`: one loop through the new stack is n loops
    through the old) or layer i div n (`repeat`); the paper leaves the order open (ours). Stacks as deep as before
    stay as they are.
    """
    had, has = _depths(weights), _depths(target)
    made = {name: tensor for name, tensor in weights.items() if not _LAYER.match(name)}
    for name in target:
        layer = _LAYER.match(name)
        if layer is None:
            continue
        stack, index = layer["stack"], int(layer["index"])
        if not had[stack] or has[stack] % had[stack]:
            continue  # refused by its depth
        source = index % had[stack] if order == "cycle" else index // (has[stack] // had[stack])
        old = f"{stack}.{source}.{layer['rest']}"
        if old in weights:
            made[name] = weights[old]
    return made


def _depths(weights: Mapping[str, Tensor]) -> Counter[str]:
    found = {(layer["stack"], layer["index"]) for name in weights if (layer := _LAYER.match(name))}
    return Counter(stack for stack, _ in found)


def _difference(weights: Mapping[str, Tensor], own: Mapping[str, Tensor]) -> str | None:
    """The first reason why `weights` do not fit a model with `own`, and what to type."""
    if _depths(weights) != _depths(own):
        stack = next(s for s in {**_depths(weights), **_depths(own)} if _depths(weights)[s] != _depths(own)[s])
        return (
            f"its {stack} holds {_depths(weights)[stack]} layers, this model's {_depths(own)[stack]}; type "
            "init_layers=cycle for a whole multiple of them, or change model.num_layers"
        )
    for name in sorted({*weights, *own}):
        if name not in own:
            return f"it has the weight {name}, which this model lacks; give the model the settings of that run"
        if name not in weights:
            return f"it lacks the weight {name} of this model; give the model the settings of that run"
        if weights[name].shape != own[name].shape:
            return (
                f"{name} is {list(weights[name].shape)} there and {list(own[name].shape)} here; take the sizes and the "
                "kind of data set of that run"
            )
    return None


def train_gate_alone(model: nn.Module) -> None:
    """Freeze every weight but the exit gate's."""
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name.startswith("gate."))
