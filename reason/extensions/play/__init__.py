"""Writes a page in which trained models solve puzzles in the browser."""

from reason.plugins import COMMANDS, Command

COMMANDS["play"] = Command(
    "reason.extensions.play.command:main", "write a page in which trained models solve puzzles in the browser"
)
