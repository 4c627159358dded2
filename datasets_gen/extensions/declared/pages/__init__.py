"""Declared puzzles, one file each."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import sys
from functools import cache
from pathlib import Path

from datasets_gen.extensions.declared import Declared
from datasets_gen.extensions.declared.user_code import user_code
from datasets_gen.layout import DatasetError


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
    return classes[0]


def _is_page(each: object, module: str) -> bool:
    return isinstance(each, type) and issubclass(each, Declared) and each.__module__ == module
