"""Puzzles that are declared by their constraints: presets, and the starting file of a puzzle of one's own."""

from reason.plugins import COMMANDS, Command

COMMANDS["new-puzzle"] = Command(
    "reason.extensions.declared.command:main", "write a template for a puzzle of your own: cells, values, constraints"
)
