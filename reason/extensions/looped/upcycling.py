"""A deeper stack from the weights of a shallower one: Ouro's upcycling (docs/math.md §12)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Literal

from torch import Tensor

LayerOrder = Literal["same", "cycle", "repeat"]
_LAYER = re.compile(r"^(?P<stack>.*\bblocks)\.(?P<index>\d+)\.(?P<rest>.*)$")


def duplicated(weights: Mapping[str, Tensor], target: Mapping[str, Tensor], order: LayerOrder) -> dict[str, Tensor]:
    """Weights of stacks of L layers for the deeper stacks, of n·L, of `target`.

    Layer i of the new stack is layer i mod L of the old one (`cycle`: one loop through the new stack is n loops
    through the old) or layer i div n (`repeat`); the paper leaves the order open (ours). Stacks as deep as before
    stay as they are.
    """
    had, has = depths(weights), depths(target)
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


def depths(weights: Mapping[str, Tensor]) -> Counter[str]:
    """Layers of each stack by its name."""
    found = {(layer["stack"], layer["index"]) for name in weights if (layer := _LAYER.match(name))}
    return Counter(stack for stack, _ in found)
