"""Puzzles by declaration, one file each; a file more is a puzzle more."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import sys
from functools import cache
from pathlib import Path

from datasets_gen.extensions.declared import Declared
from datasets_gen.extensions.declared.own import own_code
from datasets_gen.layout import DatasetError


@cache
def pages() -> dict[str, type[Declared]]:
    """The pages of this folder by name."""
    modules = [importlib.import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__)]
    found = [each for module in modules for each in vars(module).values() if _is_page(each, module.__name__)]
    return {page.name: page for page in found}


@cache
def page_named(name: str) -> type[Declared]:
    """The puzzle of that name, or the one in a Python file of one's own."""
    if name in pages():
        return pages()[name]
    path = Path(name).resolve()
    spec = importlib.util.spec_from_file_location(f"own_{path.stem}", path)
    if path.suffix != ".py" or not path.is_file() or spec is None or spec.loader is None:
        raise DatasetError(f"no puzzle {name}; there are {', '.join(pages())}, or name a Python file of your own")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    with own_code(str(path)):
        spec.loader.exec_module(module)
    found = [each for each in vars(module).values() if _is_page(each, module.__name__)]
    if len(found) != 1:
        raise DatasetError(f"{name} has {len(found)} classes that derive from Declared; write one")
    return found[0]


def _is_page(each: object, module: str) -> bool:
    return isinstance(each, type) and issubclass(each, Declared) and each.__module__ == module
