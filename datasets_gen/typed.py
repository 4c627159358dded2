"""Converts commands in help and errors to the form that the user can type."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path
from typing import Any

from datasets_gen.plugins import installed, nearest

ROOT = Path(__file__).parents[1]  # in a checkout, the scripts are next to the packages
INSTALLED = {
    "python train.py": "reason train",
    "python evaluate.py": "reason evaluate",
    "python -m datasets_gen": "reason generate",
    "make demo": "reason demo",
}


def typed(text: str) -> str:
    """Write a text's commands for this installation: `python train.py` in a checkout, else `reason train`."""
    called = Path(sys.argv[0])
    in_checkout = Path("train.py").is_file() and Path.cwd() == ROOT
    if in_checkout or "reason" not in (called.stem, called.parent.name):
        return text
    for script, command in INSTALLED.items():
        text = text.replace(script, command)
    return text


def quoted(path: Path | str) -> str:
    """Return a path as a word of a command: quoted if a shell would split it, and distinct from key=value."""
    text = str(path)
    return shlex.quote(f"./{text}" if "=" in text and "/" not in text.partition("=")[0] else text)


class Parser(argparse.ArgumentParser):
    """A parser whose pages of help keep their lines and name commands as they can be typed."""

    def __init__(self, *, prog: str | None = None, **settings: Any) -> None:
        settings.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(prog=prog and typed(prog), **settings)

    def format_help(self) -> str:
        """Return the page of help, with commands as the user can type them."""
        return typed(super().format_help())

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Print one line for an unknown command, which may be that of a missing extension."""
        if isinstance(action, argparse._SubParsersAction) and value not in action.choices:
            hint = nearest(value, action.choices)
            listed = f"`{self.prog} --help` lists the commands; {installed()}"
            self.exit(2, f"error: unknown {str(action.metavar).lower()} {value}; {hint}{listed}\n")
        super()._check_value(action, value)
