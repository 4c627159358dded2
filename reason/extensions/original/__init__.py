"""Reads checkpoints and command lines of the original HRM and TRM code."""

from collections.abc import Sequence

from reason.plugins import COMMANDS, FOREIGN_COMMANDS, Command


def _answer(words: Sequence[str]) -> str | None:
    from reason.extensions.original.words import answer  # which loads the presets

    return answer(words)


COMMANDS["import-weights"] = Command(
    "reason.extensions.original.command:main", "make a run from a checkpoint of the original HRM or TRM code"
)
FOREIGN_COMMANDS.append(_answer)
