"""A generator for every page, and for PUZZLE.py, a user's file."""

from __future__ import annotations

import argparse

from datasets_gen.commands import COMMANDS, FILES
from datasets_gen.extensions.declared.generate import add_parser
from datasets_gen.extensions.declared.pages import pages


def add_pages(commands: argparse._SubParsersAction) -> None:
    """Add a command for each page of the package."""
    for name in pages():
        add_parser(commands, name)


COMMANDS.append(add_pages)
FILES[".py"] = add_parser
