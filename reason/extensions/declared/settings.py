"""The mixer `relations`: an entry of the core's table of mixers."""

from __future__ import annotations

from torch import nn

from datasets_gen.structure import Relation
from reason.extensions.declared.linear import LinearMixer
from reason.extensions.declared.mixer import Instances, RelationMixer
from reason.extensions.declared.sums import LinearConstraints
from reason.models.base import Shape
from reason.models.mixing import (
    MIXERS,
    OTHER_TOKENS,
    Constraints,
    MixingConfig,
    StructuredMixer,
    constraints_of_groups,
    gating,
    inner_of,
)


def seen(shape: Shape) -> dict[int, Relation]:
    """The relations that networks read, by their index."""
    return {index: relation for index, relation in enumerate(shape.structure.relations) if relation.seen}


def build(c: MixingConfig, shape: Shape) -> nn.Module:
    """The mixer for the groups and relations of a shape."""
    groups, values = len(shape.structure.groups), c.values_of(shape) > 0
    return RelationMixer(c.hidden_size, inner_of(c), groups, [*seen(shape).values()], c.symbols, values, *gating(c))


def lacking(c: MixingConfig, shape: Shape) -> str | None:
    """Groups, relations or symbols."""
    there = shape.structure.groups or shape.structure.relations or c.symbols
    return None if there else "model.mixer=relations looks at groups and relations of cells, and the set declares none"


def constants(shape: Shape) -> nn.Module | None:
    """The instances of the set; None: networks read no relation of it."""
    return Instances(seen(shape), shape.seq_len) if seen(shape) else None


def constraints(shape: Shape) -> Constraints:
    """The groups, and the relations without their instances."""
    of = [(each.name, each.places, each.clues, each.highest) for each in seen(shape).values()]
    return constraints_of_groups(shape) | {f"messages.{index}": relation for index, relation in enumerate(of)}


MIXERS["relations"] = StructuredMixer(
    build,
    "as groups, and messages within every instance of the set's relations (less than, sum with a number), if any",
    lacking,
    by_group=True,
    by_value=True,
    constants=constants,
    constraints=constraints,
)


def lacking_linear(c: MixingConfig, shape: Shape) -> str | None:
    """Symbols or values; and what values stand for, where constraints compare them with numbers."""
    if not c.symbols:
        return "model.mixer=linear has a position for every value of a cell: type model.symbols=true"
    if shape.vocab_size - len(shape.structure.alphabet) > OTHER_TOKENS:
        return f"model.mixer=linear reads {OTHER_TOKENS} tokens other than values, fewer than the set has"
    if shape.structure.values and shape.structure.lowest is None:
        return "model.mixer=linear reads what values stand for, which sets of older versions do not say"
    return None


MIXERS["linear"] = StructuredMixer(
    lambda c, shape: LinearMixer(c.hidden_size, inner_of(c), *gating(c)),
    "messages between values of cells and the linear constraints that all rules amount to: one network for any puzzle",
    lacking_linear,
    by_group=True,
    by_value=True,
    of_any=True,
    constants=LinearConstraints,
)
