"""Declared puzzles, one file each."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import re
import sys
from functools import cache
from pathlib import Path

from datasets_gen.extensions.declared import Declared
from datasets_gen.extensions.declared.puzzle import MOST_VALUES
from datasets_gen.extensions.declared.user_code import user_code
from datasets_gen.layout import DatasetError

NAME = "[a-z][a-z0-9]*(-[a-z0-9]+)*"  # of a user's puzzle
WHOLE = "type a whole number"
WANTED = {  # the mend of a faulty attribute
    "shown_only": "type some of the values, and leave others for open cells",
    "lowest": WHOLE, "fewest": WHOLE, "unique": "type True or False",
}  # fmt: skip


@cache
def pages() -> dict[str, type[Declared]]:
    """Return the puzzles of this folder by name."""
    modules = [importlib.import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__)]
    classes = [each for module in modules for each in vars(module).values() if _is_page(each, module.__name__)]
    return {page.name: page for page in classes}


@cache
def page_named(name: str) -> type[Declared]:
    """Return the puzzle of this name, or the one in a user's Python file."""
    if name in pages():
        return pages()[name]
    path = Path(name).resolve()
    spec = importlib.util.spec_from_file_location(f"own_{path.stem}", path)
    if path.suffix != ".py" or not path.is_file() or spec is None or spec.loader is None:
        raise DatasetError(f"there is no puzzle {name}; type one of {', '.join(pages())}, or the path of your file")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    with user_code(str(path)):
        spec.loader.exec_module(module)
    classes = [each for each in vars(module).values() if _is_page(each, module.__name__)]
    if len(classes) != 1:
        raise DatasetError(f"{name} has {len(classes)} subclasses of Declared; write one")
    refuse_faults(classes[0], name)
    return classes[0]


def refuse_faults(page: type[Declared], file: str) -> None:
    """Raise DatasetError if an attribute of a file's puzzle is not valid, or if its name is another puzzle's."""
    from datasets_gen.puzzles import FAMILIES  # imports this module

    if "name" not in vars(page) or not re.fullmatch(NAME, str(page.name)):
        stated = f"name = {page.name!r}" if "name" in vars(page) else f"the class {page.__name__} has no name"
        raise DatasetError(f'{file}: {stated}; type small letters, digits and -, as in name = "my-puzzle"')
    if page.name in FAMILIES:
        raise DatasetError(f"{file}: name = {page.name!r} belongs to a puzzle of the package; choose another")
    if wrong := page().wrong:
        if callable(getattr(page, wrong)):
            raise DatasetError(f"{file}: {wrong} is an attribute of Declared; give your method another name")
        mend = (
            "a shape is (rows, columns), values are a text with a different character for each, no space and none of "
            f".{page.reserved}, and `black` has as many; both have at most {MOST_VALUES} together"
        )
        raise DatasetError(f"{file}: {wrong} = {getattr(page, wrong)!r:.60}; {WANTED.get(wrong, mend)}")


def _is_page(each: object, module: str) -> bool:
    return isinstance(each, type) and issubclass(each, Declared) and each.__module__ == module
