"""Models, terms, puzzles and presets in a file of one's own: `--import FILE`, `FILE.py:PRESET`."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType

from reason.errors import ConfigError

IMPORTED: dict[str, ModuleType] = {}  # by absolute path, in the order in which they were imported


def import_file(file: Path | str) -> ModuleType:
    """Run a Python file once, so that what it registers is known from now on.

    Raises:
        ConfigError: it is missing, fails, or ends the program.
    """
    path = Path(file).resolve()
    if str(path) in IMPORTED:
        return IMPORTED[str(path)]
    name = f"own_{path.stem}"  # never that of a module which is there
    spec = importlib.util.spec_from_file_location(name, path)
    if path.suffix != ".py" or not path.is_file() or spec is None or spec.loader is None:
        raise ConfigError(f"{file} is no Python file; name one that ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except SystemExit:
        del sys.modules[name]
        raise ConfigError(
            f"{file} ends the program when it is imported; put that under if __name__ == '__main__':"
        ) from None
    except Exception as error:
        del sys.modules[name]
        raise ConfigError(f"{file} cannot be imported: {type(error).__name__}: {error}") from error
    IMPORTED[str(path)] = module
    return module


def import_asked(arguments: list[str]) -> list[str]:
    """Import the FILE of every `--import FILE` or `--import=FILE`; the other words.

    Raises:
        ConfigError: a file is missing or fails, or `--import` names none.
    """
    words: list[str] = []
    left = iter(arguments)
    for word in left:
        option, equals, value = word.partition("=")
        if option == "--import":
            file = value if equals else next(left, "")
            if not file:
                raise ConfigError("--import needs a Python file: --import my_idea.py")
            import_file(file)
            continue
        words.append(word)
    return words


def require_imports(files: Iterable[str], run: Path) -> None:
    """Raises ConfigError where a file that a run was made with, perhaps elsewhere now, has not been imported."""
    names = {Path(file).name for file in IMPORTED}
    for file in files:
        if Path(file).name not in names:
            raise ConfigError(f"{run} was made with {file}, which may change what is trained: add --import {file}")


def own_recipe(word: str) -> Callable[[], object] | None:
    """What `FILE.py:NAME` names, its file imported; None for a word of another form.

    Raises:
        ConfigError: the file fails or has nothing of that name that can be called.
    """
    file, colon, name = word.rpartition(":")
    if not colon or not file.endswith(".py"):
        return None
    recipe = getattr(import_file(file), name, None)
    if not callable(recipe):
        raise ConfigError(f"{file} has no function {name}; `def {name}(): return derive(…)` returns a config")
    return recipe
