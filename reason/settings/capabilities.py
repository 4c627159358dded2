"""What a part of a run can do and what another part needs: declared by each section, compared in one place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from reason.errors import ConfigError

Capability = str  # as an error names it; a new one is a new string
Offers = dict[Capability, int | str]  # True (or how many) where it is there, else what to type for it

# of a model
CAUSAL = "a causal model"
ALL_CELLS = "a model that sees all cells at once"
PUZZLE_IDENTIFIERS = "a model that reads puzzle identifiers"
MARKS = "a head that can have marks"
LOW_STATE = "a low state z_L"
HALTING_HEAD = "a halting head (q_halt)"
Q_CONTINUE = "a value of going on (q_continue)"
EXIT_GATE = "an exit gate"
PUZZLE_GATE = "an exit gate per puzzle"
MAPS = "maps of the state (Reasoner.map)"
NETWORKS = "networks to compile one by one (Reasoner.networks)"
PUZZLE_EMBEDDING = "puzzle embeddings"
BALANCE_WEIGHTS = "weights at which gradients are measured (Reasoner.balance_weights)"
FREEZABLE_EMBEDDING = "an embedding that can be frozen alone"
GRADIENT_ACROSS_STEPS = "a gradient from one step of the model to the one before"
GRADIENT_CHECKPOINTING = "gradient checkpointing"
MIXED_PRECISION = "products in mixed precision (Reasoner.autocast)"
CACHES = "a causal model that keeps keys and values"
# of the rollout
TRAINED_STEPS = "steps of the model in training"  # a count
ONE_SUPERVISION_STEP = "puzzles of one supervision step"
SEVERAL_LOOPS = "several loops in one backward pass"
SEVERAL_READOUTS = "readouts of several loops of one backward pass"
EVERY_READOUT = "a readout of every loop"
NEXT_READOUT = "the readout of one step further"
# of the loss, the balancer, the start
LEARNED_GATE = "an exit gate that learns or has learned"
SEVERAL_TERMS = "several loss terms"
CONSTANT_WEIGHTS = "loss weights that no balancer moves"
BALANCER = "a balancer"
TRAINED_RUN = "a trained run to start from"


def trained(head: Capability) -> Capability:
    """A loss term that trains a part of the model."""
    return f"a loss that trains {head}"


def term(name: str) -> Capability:
    """A loss term of that name, its weight above 0."""
    return f"the loss term {name}"


def counted(offers: Iterable[Offers]) -> Counter[Capability]:
    """How many of each capability there are."""
    has: Counter[Capability] = Counter()
    for offer in offers:
        has.update({capability: value for capability, value in offer.items() if not isinstance(value, str)})
    return has


class Need(NamedTuple):
    """What a setting asks of the rest of a config."""

    setting: str  # section.key=value
    capability: Capability
    without: str  # what to type to do without; {have} stands for the count that there is
    least: int = 1  # of a capability that is a count


def refuse_unmet(needs: Iterable[Need], offers: Iterable[Offers]) -> None:
    """Compare needs with what the sections of a config offer.

    Raises:
        ConfigError: the first need that is not met: what there is, and what to type to have it or to do without.
    """
    offers = list(offers)
    has = counted(offers)
    remedies = {capability: value for offer in offers for capability, value in offer.items() if isinstance(value, str)}
    for need in needs:
        have = has[need.capability]
        if have < need.least:
            wanted = f"{need.least} {need.capability}" if need.least > 1 else need.capability
            mends = filter(None, (remedies.get(need.capability), need.without.replace("{have}", str(have))))
            raise ConfigError(
                f"{need.setting} needs {wanted}, and this config has {have or 'none'}: type {', or '.join(mends)}"
            )
