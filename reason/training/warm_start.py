"""Warm start from a run's weights: unchanged, or on other constraints (docs/math.md §12)."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping
from pathlib import Path

import torch
from torch import Tensor

from reason.errors import ConfigError
from reason.models.base import Reasoner
from reason.training.checkpoint import load_fitting, load_weights, readable

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
    if had != has:
        weights = moved(weights, model.state_dict(), had or {}, has or {})
    advice = "give the model the settings and the kind of data set of that run"
    load_fitting(model, model.begun_from(weights), f"init_from={run}", advice)


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
    here = {constraint: part for part, constraint in has.items()}
    kept: dict[str, Tensor] = {}
    mixers = set()
    for name, tensor in weights.items():
        part = _MESSAGES.match(name)
        if part is None or part["messages"] not in had:
            kept[name] = tensor
            continue
        mixers.add(part["mixer"])
        if (constraint := had[part["messages"]]) in here:
            kept[f"{part['mixer']}.{here[constraint]}.{part['rest']}"] = tensor
    for name, tensor in own.items():
        part = _MESSAGES.match(name)
        if name not in kept and part is not None and part["messages"] in has and part["mixer"] in mixers:
            last = part["rest"] in ("weight", "answer.weight")  # matrix of these messages
            kept[name] = torch.zeros_like(tensor) if last else tensor
    return kept
