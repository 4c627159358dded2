"""The conditions of decimation: requested by the user, or automatic for puzzles that it helps."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from reason.errors import ConfigError
from reason.evaluation.config import SEARCHES, STUDIES, EvaluationConfig, Search, Study
from reason.settings.base import Need

if TYPE_CHECKING:
    from datasets_gen.puzzles import Puzzle
    from reason.config.schema import Config

ROUNDS = 16  # if the user gives no number of steps


def _needs(config: Config) -> Iterator[Need]:
    if config.evaluation.asked["decimation"] != "none":
        causal = getattr(config.model, "causal", False)
        yield Need(not causal, "a model that sees all cells at once", "model.causal=false")
        yield Need(not _compares_plain(config.evaluation), "no other study on unchanged puzzles")


def _compares_plain(settings: EvaluationConfig) -> bool:
    return any(STUDIES[name].plain for name in settings.asked)


def search(settings: EvaluationConfig, puzzle: Puzzle | None, trained_steps: int, stuck: bool) -> Search | None:
    """Return the search that adds a clue after every K steps, or None.

    Without a requested K it adds one after every N_super steps if puzzles have several solutions or are `stuck`, unless
    a study compares the steps of an unchanged puzzle.
    """
    asked = settings.asked.get("decimation")
    if asked is None:
        helps = puzzle is not None and (puzzle.multiple_solutions or stuck) and not _compares_plain(settings)
        every = trained_steps if helps else 0
    else:
        every = 0 if asked == "none" else int(asked)
    if not every:
        return None
    if puzzle is None:
        raise ConfigError("studies=decimation: the set is of no known family, so open cells are unknown; remove it")
    from reason.extensions.decimation.rule import unroller  # torch only if it is needed

    return Search(ROUNDS * every, partial(unroller, every))


STUDIES["decimation"] = Study(
    "decimation=K: after every K steps the surest open cell becomes a clue, and the puzzle restarts from the initial "
    "state; if the clues lead to no valid answer, they are removed. Default: K = N_super for puzzles that may have "
    "several solutions, else decimation=none",
    _needs,
    argument=r"[1-9]\d{0,4}|none",
)
SEARCHES["decimation"] = search
