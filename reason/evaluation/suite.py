"""Everything that an evaluation may hold: the dictionary of results.json (docs/evaluation.md states its fields)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from reason.evaluation.accuracy import Accuracy
from reason.evaluation.blind_spot import BlindSpot
from reason.evaluation.boards import Boards
from reason.evaluation.caches import Caches
from reason.evaluation.difficulty import Difficulty
from reason.evaluation.dynamics import Dynamics
from reason.evaluation.early_exit import Policies
from reason.evaluation.evaluator import Consumer, Evaluator
from reason.evaluation.exit_gate import ExitGate
from reason.evaluation.halting_head import HaltingHead
from reason.evaluation.halting_signals import Signals
from reason.evaluation.restarts import Restarts
from reason.evaluation.rules import Rules
from reason.evaluation.votes import Votes
from reason.nn.dtypes import finite

CONSUMERS: dict[type[Consumer], Callable[[Evaluator], object]] = {  # each with what asks for it, or makes it possible
    Accuracy: lambda _: True,
    Rules: lambda _: True,
    Signals: lambda _: True,
    Votes: lambda evaluator: evaluator.puzzle and evaluator.puzzle.vote and evaluator.data.split == "test",
    Difficulty: lambda _: True,
    HaltingHead: lambda _: True,
    ExitGate: lambda evaluator: evaluator.heads.gate is not None,
    Policies: lambda evaluator: evaluator.settings.policies,
    Restarts: lambda evaluator: evaluator.settings.restarts > 1,
    Caches: lambda evaluator: evaluator.settings.caches,
    Dynamics: lambda evaluator: evaluator.settings.probes,
    BlindSpot: lambda evaluator: evaluator.settings.blind_spot,
    Boards: lambda evaluator: evaluator.settings.boards and evaluator.puzzle,
}


def consumers_of(evaluator: Evaluator) -> list[Consumer]:
    """What the settings ask for and the model can be asked.

    Raises:
        ConfigError: what was asked for cannot be had.
    """
    return [consumer(evaluator) for consumer, wanted in CONSUMERS.items() if wanted(evaluator)]


def evaluate(evaluator: Evaluator, consumers: list[Consumer]) -> dict[str, Any]:
    """One pass, and what every consumer makes of it; nothing in processes other than the first.

    What is random draws from the evaluator's seed, each process from a stream of its own.
    """
    with evaluator.own_randomness():
        with torch.inference_mode():
            seen, seconds = evaluator.observe(consumers)
        if not evaluator.world.first:
            return {}
        found: dict[str, Any] = {"puzzles": len(evaluator.examples), "unscored": evaluator.unscored, "seconds": seconds}
        with torch.compiler.set_stance("force_eager"):  # a few puzzles, or batches that shrink: other shapes each time
            for consumer in consumers:
                found |= consumer.result(seen)
    return finite(found)
