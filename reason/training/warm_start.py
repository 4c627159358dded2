"""Warm start from the weights of a run on another puzzle (docs/math.md §12)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

Weights = dict[str, Tensor]
BEGINNINGS: dict[str, Callable[[Any, Weights], Weights]] = {}  # by kind of model: fit a run's weights to a new model
_MESSAGES = re.compile(r"^(.*\bmixer\.relations)\.(\d+)\.weight$")  # of `GroupMixer`


def moved(
    weights: Mapping[str, Tensor], initial: Mapping[str, Tensor], had: Sequence[str], has: Sequence[str]
) -> Weights:
    """Convert weights of a run on one puzzle for a model of a puzzle with other groups (ours).

    `had` and `has`: names of the groups of the run's puzzle and of the model's; `initial`: the model's initial weights.
    Messages in groups of a shared name keep their weights. Messages in new groups start at zero, so the model starts as
    the run's network, which ignores these groups.
    """
    result = {name: tensor for name, tensor in weights.items() if not _MESSAGES.match(name)}
    for name, tensor in initial.items():
        if part := _MESSAGES.match(name):
            group = has[int(part[2])]
            before = f"{part[1]}.{had.index(group)}.weight" if group in had else ""
            result[name] = weights.get(before, torch.zeros_like(tensor))
    return result
