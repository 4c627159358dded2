"""Plugins: extensions of the package, and user files (`--import FILE`, `FILE.py:PRESET`).

Both use the same tables: `COMMANDS` here, `reason.models.FAMILIES`, `reason.losses.TERMS` and others
(docs/extending.md). An extension is a folder of reason/extensions. The core imports these of its files, if they
exist, when they are first needed:

    __init__.py   before a command is looked up; light: it adds to `COMMANDS`
    settings.py   before the first config: models, mixers, loss terms, evaluations (reason/config/schema.py)
    presets.py    before a preset that is not in reason/presets/papers (reason/presets)
    report.py     before the first evaluation: consumers and sections of the page (reason/evaluation/suite.py)
    solve.py      before the first `reason solve`: models that write text (reason/solve.py)

A few are requested by name (`extension`): gif, graph, torchrun, pack, export and memory.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from datasets_gen.plugins import Extensions, nearest
from reason.errors import ConfigError

PACKAGED = Extensions("reason", Path(__file__).parent)
load_parts, extensions, installed = PACKAGED.load_parts, PACKAGED.names, PACKAGED.installed


class Command(NamedTuple):
    """A command `reason NAME`: the module of its function, and a line of help."""

    entry_point: str  # "module:function", called with the words after NAME; returns the exit status
    summary: str


COMMANDS: dict[str, Command] = {}  # of extensions and user files; those of the core are in reason.cli
FOREIGN_COMMANDS: list[Callable[[list[str]], str | None]] = []  # words of another program -> our command, or None
IMPORTED: dict[str, ModuleType] = {}  # by absolute path, in the order in which they were imported
ADD_IMPORT = "if your file defines it, add --import FILE.py"  # ends an error about an unknown name


def load_extensions() -> None:
    """Import every extension, so that its commands are known."""
    for name in extensions():
        importlib.import_module(f"reason.extensions.{name}")


def extension(name: str, part: str) -> Any:
    """Import `part`.py of an extension. Raises ConfigError if this installation lacks it."""
    if name not in extensions():
        raise ConfigError(f"the extension {name} is needed for this; {installed()}")
    return importlib.import_module(f"reason.extensions.{name}.{part}")


def import_file(file: Path | str) -> ModuleType:
    """Run a Python file once, so that its registrations are known. Raises ConfigError if it fails."""
    path = Path(file).resolve()
    if str(path) in IMPORTED:
        return IMPORTED[str(path)]
    name = f"own_{path.stem}"  # must not shadow an installed module
    spec = importlib.util.spec_from_file_location(name, path)
    if path.suffix != ".py" or not path.is_file() or spec is None or spec.loader is None:
        near = nearest(path.name, (other.name for other in path.parent.glob("*.py")))
        raise ConfigError(f"{file} is not a Python file; {near}type one that ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = IMPORTED[str(path)] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        fault = user_fault(error)
        del sys.modules[name], IMPORTED[str(path)]
        raise ConfigError(f"{file} cannot be imported: {fault or repr(error)}") from error
    return module


def defined(thing: Any) -> str:
    """Return "FILE, line N: NAME" of a function or class, for an error message; only NAME if it is not in a file."""
    name = getattr(thing, "__qualname__", type(thing).__name__)
    try:
        return f"{inspect.getsourcefile(thing)}, line {inspect.getsourcelines(thing)[1]}: {name}"
    except (OSError, TypeError):
        return str(name)


def user_fault(error: BaseException) -> str | None:
    """Return "FILE, line N: the exception" if a user file raised it, else None."""
    places = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    if isinstance(error, SyntaxError):
        places.append((str(error.filename), error.lineno))
    user_places = [f"{file}, line {line}" for file, line in places if file in IMPORTED]
    message = (str(error) or "no message").splitlines()[0]
    return f"{user_places[-1]}: {type(error).__name__}: {message}" if user_places else None


def import_user_files(arguments: list[str]) -> list[str]:
    """Import the FILE of every `--import FILE` or `--import=FILE`; return the other words."""
    words: list[str] = []
    left = iter(arguments)
    for word in left:
        option, equals, value = word.partition("=")
        if option != "--import":
            words.append(word)
        elif file := value if equals else next(left, ""):
            import_file(file)
        else:
            raise ConfigError("--import needs a Python file: --import my_idea.py")
    return words


def missing_import(files: Iterable[str]) -> str | None:
    """Return the first of a run's user files (perhaps moved since) that has not been imported, or None."""
    names = {Path(file).name for file in IMPORTED}
    return next((file for file in files if Path(file).name not in names), None)


def user_preset(word: str) -> Callable[[], object] | None:
    """Import FILE of `FILE.py:NAME`, return NAME; None for other words. Raises ConfigError if NAME is not callable."""
    file, colon, name = word.rpartition(":")
    if not colon or not file.endswith(".py"):
        return None
    recipe = getattr(import_file(file), name, None)
    if not callable(recipe):
        raise ConfigError(f"{file} has no function {name}; `def {name}(): return derive(…)` returns a config")
    return recipe
