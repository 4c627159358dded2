"""The commands of `reason`; train.py and evaluate.py call the same code."""

from __future__ import annotations

import importlib
import os
import shutil
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable

from datasets_gen.plugins import nearest
from datasets_gen.typed import typed
from reason.cli.help import PAGES, settings_asked, show_settings
from reason.errors import ConfigError, Diverged, PartnerLost, has_controls, printable
from reason.plugins import COMMANDS, Command, import_user_files, installed, load_extensions, user_fault
from reason.version import __version__

USAGE = """usage: reason COMMAND …

{commands}

`reason COMMAND --help` describes a command; `reason --version` prints the version.
`--import FILE.py` after any command: models, loss terms and puzzles of your own (docs/extending.md).
"""

WIDTH = 80  # the least width of tables

CORE = {
    "generate": Command("datasets_gen.__main__:main", "generate, import, verify or show a puzzle set"),
    "train": Command("reason.cli.train:main", "train a reasoner from a preset"),
    "evaluate": Command("reason.cli.evaluate:main", "measure the accuracy by supervision step"),
    "solve": Command("reason.cli.solve:main", "solve a puzzle from the command line, step by step"),
    "compare": Command("reason.cli.compare:main", "compare several runs in one table and one plot"),
    "presets": Command("reason.cli.presets:main", "list every preset with its size and source"),
}


def main(argv: list[str] | None = None) -> int:
    """Run `reason COMMAND …`; return the exit status."""
    return guarded(_run_command, sys.argv[1:] if argv is None else argv)


def _run_command(arguments: list[str]) -> int:
    """Run the command that the first word names, or print its help or the settings that are asked for."""
    name, *words = arguments or [""]
    if name == "--version":
        print(f"reason {__version__}")
        return 0
    load_extensions()
    known = CORE | COMMANDS
    if name in ("", "-h", "--help"):
        print(USAGE.format(commands="\n".join(f"  {name:15}{each.summary}" for name, each in known.items())))
        return 0 if name else 2
    if name not in known:
        hint = f"{nearest(name, known)}`reason --help` lists the commands; {installed()}"
        print(f"error: unknown command {printable(name)}; {hint}", file=sys.stderr)
        return 2
    if name in PAGES and (asked := settings_asked(words)) is not None:
        if asked:
            show_settings(name, asked)
        else:
            print(typed(PAGES[name]))
        return 0
    module, _, function = known[name].entry_point.partition(":")
    status: int = getattr(importlib.import_module(module), function)(words)
    return status


def guarded(command: Callable[[list[str]], int], arguments: list[str]) -> int:
    """Run a command; every error becomes one line on stderr and status 1, Ctrl-C status 130."""
    warnings.showwarning = lambda message, *_, **__: print(f"warning: {printable(message)}", file=sys.stderr)
    for stream in (sys.stdout, sys.stderr):  # a file's name need not be UTF-8
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    if os.environ.get("COLUMNS") == "0" or shutil.get_terminal_size().columns < WIDTH:
        os.environ["COLUMNS"] = str(WIDTH)  # the terminal wraps a line that is longer: narrower tables lose words
    try:
        os.getcwd()  # fails if the working folder was removed: torch's libraries would abort
        for word in arguments:
            if has_controls(word, "\n\t"):  # newline and tab are allowed: puzzles contain them
                raise ConfigError(f"{word} holds control characters; leave them out")
        status = command(import_user_files(arguments))
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # the reader of our output has left, as `| head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except Exception as error:
        if _interrupted(error):
            print("interrupted", file=sys.stderr)
            return 130
        print(f"error: {printable(typed(_message(error)))}", file=sys.stderr)
        return 1


def _interrupted(error: BaseException | None) -> bool:
    """Return whether Ctrl-C caused this error: numba and the import system raise their own exception for it."""
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return True
        error = error.__cause__ or error.__context__
    return False


def _message(error: BaseException) -> str:
    """Return one line for an error.

    An error that the user can fix gives its own message. An error of the system or of memory gives the reason. Any
    other gives its type, its message, the user's file if one raised it, and the file with the traceback.
    """
    from datasets_gen.layout import DatasetError  # imports numpy only after an error

    if isinstance(error, ConfigError | DatasetError | Diverged | PartnerLost):
        return str(error)
    if _is_out_of_memory(error):
        first = (str(error) or "no memory is left").splitlines()[0]
        fix = "halve training.batch_size (in an evaluation: evaluation.batch_size), or train with "
        return f"out of memory ({first}): {fix}model.gradient_checkpointing=true"
    if (user_file := user_fault(error)) is not None:
        return f"{user_file}; this is a fault of your file: its traceback is in {_log_error(error)}"
    if isinstance(error, OSError):
        where = f" ({error.filename})" if error.filename else ""
        return f"{error.strerror or error}{where}"
    first = (str(error) or "no message").splitlines()[0]
    return f"{type(error).__name__}: {first}; this is a fault of the program: its traceback is in {_log_error(error)}"


def _is_out_of_memory(error: BaseException) -> bool:
    """Return whether Python, CUDA or torch's CPU allocator (which raises a plain RuntimeError) is out of memory."""
    text = str(error)
    return (
        isinstance(error, MemoryError)
        or type(error).__name__ == "OutOfMemoryError"
        or (isinstance(error, RuntimeError) and ("allocate memory" in text or "out of memory" in text))
    )


def _log_error(error: BaseException) -> str:
    """Write the traceback to a file; return its name."""
    try:
        handle, name = tempfile.mkstemp(prefix="reason-traceback-", suffix=".txt", text=True)
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(f"reason {' '.join(map(printable, sys.argv[1:]))}\n\n")
            traceback.print_exception(error, file=file)
    except OSError as failed:
        return f"no file ({failed.strerror})"
    return name
