"""Warm start from a run's weights: unchanged, or on other constraints (docs/math.md §12)."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping
from pathlib import Path

import torch
from torch import Tensor

from reason.errors import ConfigError
from reason.models.base import Reasoner
from reason.training.checkpoint import load_weights, readable

_MESSAGES = re.compile(r"^(?P<mixer>.*\bmixer)\.(?P<messages>\w+\.\d+)\.(?P<rest>.*)$")


def warm_start(
    model: Reasoner,
    run: Path,
    had: Mapping[str, Hashable] | None = None,
    has: Mapping[str, Hashable] | None = None,
) -> None:
    """Load the newest readable checkpoint of `run` into the model: its EMA if it has one, as evaluation does (ours).

    `had` and `has` name the constraint behind each part of the mixers' messages, in the run and in this model: see
    `moved`. Everything else must be there, in the same shape, once the model's `begun_from` has seen it.

    Raises:
        ConfigError: there is no checkpoint, or a weight of the two differs.
    """
    if (folder := next(readable(run), None)) is None:
        raise ConfigError(f"init_from={run} holds no checkpoint; name a folder that train.py made and finished")
    weights = load_weights(folder, "ema" if (folder / "ema.safetensors").exists() else "raw")
    own = model.state_dict()
    if had != has:
        weights = moved(weights, own, had or {}, has or {})
    weights = model.begun_from(weights)
    fault = _difference(weights, own)
    if fault is not None:
        raise ConfigError(f"init_from={run}: {fault}")
    model.load_state_dict(weights)


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


def _difference(weights: Mapping[str, Tensor], own: Mapping[str, Tensor]) -> str | None:
    """The first reason why `weights` do not fit a model with `own`, and what to type."""
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
