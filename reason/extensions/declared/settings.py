"""The mixers `relations` and `linear`: entries of the core's table of mixers."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.nn.functional import pad

from datasets_gen.structure import Relation
from reason.extensions.declared.linear import LinearMixer
from reason.extensions.declared.mixer import Instances, RelationMixer
from reason.extensions.declared.sums import LinearConstraints
from reason.models.base import Shape
from reason.models.mixing import (
    MIXERS,
    AnySet,
    Constraints,
    MixingConfig,
    StructuredMixer,
    constraints_of_groups,
    gating,
    inner_of,
)


def seen(shape: Shape) -> dict[int, Relation]:
    """Return the relations that networks read, by their index."""
    return {index: relation for index, relation in enumerate(shape.structure.relations) if relation.seen}


def build(c: MixingConfig, shape: Shape) -> nn.Module:
    """Return the mixer for the groups and relations of a shape."""
    groups, values = len(shape.structure.groups), c.values_of(shape) > 0
    return RelationMixer(c.hidden_size, inner_of(c), groups, [*seen(shape).values()], c.symbols, values, *gating(c))


def missing(c: MixingConfig, shape: Shape) -> str | None:
    """Return a message if the set has neither groups nor relations and the model no symbols."""
    there = shape.structure.groups or shape.structure.relations or c.symbols
    return None if there else "model.mixer=relations needs groups or relations of cells, and the set declares none"


def constants(shape: Shape) -> nn.Module | None:
    """Return the instances of the set; None: networks read no relation of it."""
    return Instances(seen(shape), shape.seq_len) if seen(shape) else None


def constraints(shape: Shape) -> Constraints:
    """Return the groups, and the relations without their instances."""
    keys = [(each.name, each.places, each.clues, each.highest) for each in seen(shape).values()]
    return constraints_of_groups(shape) | {f"messages.{index}": relation for index, relation in enumerate(keys)}


MIXERS["relations"] = StructuredMixer(
    build,
    "as groups, and messages within every instance of the set's relations (less than, sum with a number), if any",
    missing,
    by_group=True,
    by_value=True,
    constants=constants,
    constraints=constraints,
)


OTHER_TOKENS = 3  # that `linear` reads besides values: no cell, an open cell, a wall


def missing_for_linear(c: MixingConfig, shape: Shape) -> str | None:
    """Return what the set or the config lacks for the mixer `linear`: symbols or values, and the numbers of values."""
    if not c.symbols:
        return "model.mixer=linear has a position for every value of a cell: type model.symbols=true"
    if (others := shape.vocab_size - len(shape.structure.alphabet)) > OTHER_TOKENS:
        named = f"{OTHER_TOKENS} tokens other than values (no cell, an open cell, a wall)"
        return f"model.mixer=linear reads {named}, and the set has {others}: name fewer in shown_only and black"
    if shape.structure.values and shape.structure.lowest is None:
        return "model.mixer=linear reads what values stand for, which sets of older versions do not say"
    return None


def add_hidden(index: Tensor, constraints: Any, relations: tuple[Tensor, ...]) -> Tensor:
    """Add the embedding index of the hidden booleans of the constraints, (B, S·K) -> (B, S·K + hidden)."""
    return pad(index, (0, constraints.hidden_of(relations)), value=2 + OTHER_TOKENS)


MIXERS["linear"] = StructuredMixer(
    lambda c, shape: LinearMixer(c.hidden_size, inner_of(c), *gating(c)),
    "messages between values of cells and the linear constraints that all rules amount to: one network for any puzzle",
    missing_for_linear,
    by_group=True,
    by_value=True,
    any_set=AnySet(2 + OTHER_TOKENS + 1, 1 + OTHER_TOKENS, add_hidden),  # 1: hidden booleans
    constants=LinearConstraints,
)
