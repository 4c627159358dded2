"""Warm start from the weights of a run on another puzzle (docs/math.md §12)."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping
from typing import Any

import torch
from torch import Tensor

Weights = dict[str, Tensor]
BEGINNINGS: dict[str, Callable[[Any, Weights], Weights]] = {}  # by kind of model: fit a run's weights to a new model
_MESSAGES = re.compile(r"^(?P<mixer>.*\bmixer)\.(?P<messages>\w+\.\d+)\.(?P<rest>.*)$")


def moved(
    weights: Mapping[str, Tensor],
    initial: Mapping[str, Tensor],
    had: Mapping[str, Hashable],
    has: Mapping[str, Hashable],
) -> dict[str, Tensor]:
    """Convert weights of a run on one puzzle for a model of a puzzle with other constraints (ours).

    `had` and `has` name the constraint of each part of the mixers' messages, in the run and in the model; `initial`:
    the model's initial weights. Messages along a shared constraint keep their weights. Messages along a new constraint
    start at zero, so the model starts as the run's network, which ignores that constraint.
    """
    here = {constraint: part for part, constraint in has.items()}
    result: dict[str, Tensor] = {}
    mixers = set()
    for name, tensor in weights.items():
        part = _MESSAGES.match(name)
        if part is None or part["messages"] not in had:
            result[name] = tensor
            continue
        mixers.add(part["mixer"])
        if (constraint := had[part["messages"]]) in here:
            result[f"{part['mixer']}.{here[constraint]}.{part['rest']}"] = tensor
    for name, tensor in initial.items():
        part = _MESSAGES.match(name)
        if name not in result and part is not None and part["messages"] in has and part["mixer"] in mixers:
            last = part["rest"] in ("weight", "answer.weight")  # matrix of these messages
            result[name] = torch.zeros_like(tensor) if last else tensor
    return result
