"""The extensions: folders of datasets_gen/extensions, which add to the tables of the core.

The core imports these files of an extension, where it has them, when they are first needed:

    puzzles.py     before the family of a set is looked up (datasets_gen/puzzles.py)
    commands.py    before the command line is read (datasets_gen/commands.py)
    importers.py   before `import` is read (datasets_gen/importers)
"""

from __future__ import annotations

import importlib
from pathlib import Path

EXTENSIONS = Path(__file__).parent / "extensions"


def load_parts(part: str) -> None:
    """Import the file `part`.py of every extension that has one, so that what it adds to the tables is known."""
    for file in sorted(EXTENSIONS.glob(f"*/{part}.py")):
        importlib.import_module(f"datasets_gen.extensions.{file.parent.name}.{part}")


def extensions() -> list[str]:
    """The names of the extensions that this installation has."""
    return sorted(file.parent.name for file in EXTENSIONS.glob("*/__init__.py"))


def installed() -> str:
    """Which extensions there are, as the end of an error."""
    return f"this installation has the extensions {', '.join(extensions()) or '(none)'}"
