"""The commands; train.py and evaluate.py call the same code."""

from __future__ import annotations

import difflib
import importlib
import sys
import warnings
from collections.abc import Callable

from reason.cli.help import PAGES, settings_asked, show_settings
from reason.errors import ConfigError, Diverged

USAGE = """usage: reason COMMAND …

  generate   make, import, verify or show a puzzle set        (= python -m datasets_gen)
  train      train a reasoner from a preset                   (= python train.py)
  evaluate   accuracy against supervision steps               (= python evaluate.py)
  pack       a run → one file, with which --resume continues on any machine
  solve      one puzzle from the command line, step by step
  compare    several runs in one table and one plot
  presets    every preset, its size and source
  bench      puzzle-steps per second of a preset and its variants
  import-weights  a checkpoint of the original HRM or TRM code → a run
  demo       a 6×6 Sudoku set, a trained model, accuracy by step  (= make demo)

`reason COMMAND --help` says more.
"""


COMMANDS = {
    "generate": "datasets_gen.__main__",
    "train": "reason.cli.train",
    "evaluate": "reason.cli.evaluate",
    "pack": "reason.cli.pack",
    "solve": "reason.cli.solve",
    "compare": "reason.cli.compare",
    "presets": "reason.cli.presets",
    "bench": "reason.cli.bench",
    "import-weights": "reason.cli.import_weights",
    "demo": "reason.cli.demo",
}


def main(argv: list[str] | None = None) -> int:
    """`reason COMMAND …`; returns the exit status."""
    arguments = sys.argv[1:] if argv is None else argv
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE)
        return 0 if arguments else 2
    command, *rest = arguments
    if command not in COMMANDS:
        near = difflib.get_close_matches(command, COMMANDS, n=1)
        print(
            f"error: unknown command {command}{f'; did you mean {near[0]}?' if near else ''}\n\n{USAGE}",
            file=sys.stderr,
        )
        return 2
    if command in PAGES and (named := settings_asked(rest)) is not None:
        if not named:
            print(PAGES[command])
            return 0
        return guarded(lambda names: show_settings(command, names), named)
    return guarded(lambda words: importlib.import_module(COMMANDS[command]).main(words), rest)  # torch only now


def guarded(command: Callable[[list[str]], int], arguments: list[str]) -> int:
    """Run a command; errors that a user can correct become one line on stderr and status 1, Ctrl-C status 130."""
    from datasets_gen.layout import DatasetError  # not for --help, which is a page of text

    warnings.showwarning = lambda message, *_, **__: print(f"warning: {message}", file=sys.stderr)
    try:
        return command(arguments)
    except (ConfigError, DatasetError, Diverged) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        print(f"error: {error.strerror or error}{where}", file=sys.stderr)
        return 1
    except MemoryError as error:
        print(f"error: out of memory ({error}); try a smaller model or batch_size", file=sys.stderr)
        return 1
    except SystemError as error:
        if not isinstance(error.__cause__ or error.__context__, KeyboardInterrupt):  # numba's way to pass one on
            raise
        print("interrupted", file=sys.stderr)
        return 130
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
