"""The mixer `linear`: an entry of the core's table of mixers."""

from __future__ import annotations

from reason.extensions.declared.linear import LinearMixer
from reason.extensions.declared.sums import LinearConstraints
from reason.models.base import Shape
from reason.models.mixing import MIXERS, AnySet, MixingConfig, StructuredMixer, gating, inner_of

OTHER_TOKENS = 3  # that `linear` reads besides values: no cell, an open cell, a wall
HIDDEN = 2 + OTHER_TOKENS  # embedding index of hidden booleans


def missing(c: MixingConfig, shape: Shape) -> str | None:
    """Return what the set or the config lacks for the mixer: symbols or values, and the numbers of values."""
    if not c.symbols:
        return "model.mixer=linear has a position for every value of a cell: type model.symbols=true"
    if (others := shape.vocab_size - len(shape.structure.alphabet)) > OTHER_TOKENS:
        named = f"{OTHER_TOKENS} tokens other than values (no cell, an open cell, a wall)"
        return f"model.mixer=linear reads {named}, and the set has {others}: name fewer in shown_only and black"
    if shape.structure.values and shape.structure.lowest is None:
        return "model.mixer=linear reads what values stand for, which sets of older versions do not say"
    return None


MIXERS["linear"] = StructuredMixer(
    lambda c, shape: LinearMixer(c.hidden_size, inner_of(c), *gating(c)),
    "messages between values of cells and the linear constraints that all rules amount to: one network for any puzzle",
    missing,
    by_group=True,
    any_set=AnySet(HIDDEN + 1, 1 + OTHER_TOKENS, lambda shape: LinearConstraints(shape, HIDDEN)),
)
