"""The entry `group-attention` in the core's table of mixers."""

from __future__ import annotations

import numpy as np

from reason.extensions.group_attention.mixer import GroupAttention
from reason.models.base import Shape
from reason.models.mixing import MIXERS, MixingConfig, StructuredMixer, gating, inner_of, lacks_groups


def _build(c: MixingConfig, shape: Shape) -> GroupAttention:
    partitions = [shape.structure.partition(name) for name in shape.structure.groups]
    return GroupAttention(c.hidden_size, inner_of(c), partitions, c.symbols, *gating(c))


def _missing_structure(c: MixingConfig, shape: Shape) -> str | None:
    for name in shape.structure.groups:
        if len(set(np.bincount(shape.structure.partition(name)))) > 1:
            return f"model.mixer={c.mixer} needs groups of one size, and the groups {name} of the set differ"
    return lacks_groups(c, shape)


MIXERS["group-attention"] = StructuredMixer(
    _build, "softmax within the set's groups, which have one size", _missing_structure, by_group=True
)
