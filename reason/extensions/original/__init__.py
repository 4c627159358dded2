"""Checkpoints of the original HRM and TRM code as runs."""

from reason.extensions.original.words import answer
from reason.plugins import COMMANDS, ELSEWHERE, Command

COMMANDS["import-weights"] = Command(
    "reason.extensions.original.command:main", "make a run from a checkpoint of the original HRM or TRM code"
)
ELSEWHERE.append(answer)
