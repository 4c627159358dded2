"""The extensions: folders of datasets_gen/extensions, which add to the tables of the core.

The core imports these files of an extension, if they exist, when they are first needed:

    puzzles.py     before the family of a set is looked up (datasets_gen/puzzles.py)
    commands.py    before the command line is parsed (datasets_gen/commands.py)
    importers.py   before `import` is parsed (datasets_gen/importers)
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterable
from pathlib import Path


def nearest(word: str, known: Iterable[str]) -> str:
    """Return the hint "did you mean NAME? " for an error, or "" if no known name is close."""
    return "".join(f"did you mean {name}? " for name in difflib.get_close_matches(word, list(known), n=1))


class Extensions:
    """The extensions in PACKAGE/extensions; each file is imported at its first use."""

    def __init__(self, package: str, folder: Path):
        self.package, self.folder = package, folder / "extensions"

    def load_parts(self, part: str) -> None:
        """Import the file `part`.py of every extension that has one, so that the tables have its entries."""
        for file in sorted(self.folder.glob(f"*/{part}.py")):
            importlib.import_module(f"{self.package}.extensions.{file.parent.name}.{part}")

    def names(self) -> list[str]:
        """Return the names of the installed extensions."""
        return sorted(file.parent.name for file in self.folder.glob("*/__init__.py"))

    def installed(self) -> str:
        """Return a sentence with the installed extensions, as the end of an error message."""
        return f"this installation has the extensions {', '.join(self.names()) or '(none)'}"


PACKAGED = Extensions("datasets_gen", Path(__file__).parent)
load_parts, extensions, installed = PACKAGED.load_parts, PACKAGED.names, PACKAGED.installed
