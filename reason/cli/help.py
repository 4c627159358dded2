"""The command lines of train.py and evaluate.py: options, `section.key=value`, and the pages of --help."""

from __future__ import annotations

import argparse
from typing import NoReturn

from datasets_gen.plugins import nearest
from reason.errors import ConfigError

SECTION_HELP = {
    "data": "the puzzle set: its directory, the command that makes it, augmentation",
    "model": "recursive (HRM, TRM, CMM) or of an extension: sizes, mixer, cycles, gradient, noise",
    "rollout": "supervision steps, carry, halting, gradient accumulation, loops",
    "loss": "likelihood, the weight λ of every term, schedules of the weights",
    "balance": "AlgGradNorm: weights λ that follow gradient norms",
    "optimizer": "Adam-atan2, AdamW or Muon: learning rates, weight decay, clipping, schedule",
    "ema": "the exponential moving average of the weights",
    "training": "steps, batch size, precision, compilation, logs, checkpoints, monitor",
    "evaluation": "steps, split, weights; studies beyond accuracy",
}
LISTED = "\n".join(f"  {name:12}{text}" for name, text in SECTION_HELP.items())

TRAIN = f"""usage: python train.py PRESET [data=DIR] [run=DIR] [section.key=value …] [options]

Train a tiny recursive reasoner. `reason presets` lists the presets.

  python train.py sudoku-6x6                                 generates its data set if it is missing
  python train.py sudoku-6x6 data=data/mine run=runs/mine    another data set and run folder
  python train.py sudoku-6x6 model.activation=tanh optimizer.lr=1e-3   in runs/sudoku-6x6-1, -2, …
  python train.py run=runs/mine --resume                     or run=mine.tar.gz (reason pack)
  torchrun --nproc-per-node 8 train.py trm-mlp-sudoku        the same batch on eight GPUs
  torchrun … --max-restarts 3 train.py PRESET run=DIR        after a restart, continues this run

options
  --resume            continue from the newest checkpoint of run=DIR, or of the newest run
  --max-steps N       save and stop at optimizer step N of the run
  --max-minutes M     save and stop after M minutes
  --import FILE.py    your own models, terms and puzzles; FILE.py:NAME as PRESET: your own preset
  --help [SECTION]    this page, or a section's settings: default, allowed values, meaning

settings, section.key=value; without a section: seed, device, init_from
{LISTED}

  python train.py --help model           every setting of a section, or only optimizer.lr
  reason presets sudoku-6x6              the settings that a preset changes

Ctrl-C saves and stops; --resume then gives the same numbers as a run that never stopped."""

EVALUATE = """usage: python evaluate.py [RUN] [data=DIR] [steps=T] [name=NAME] [section.key=value …]

Exact, cell and rule-valid accuracy at every supervision step, from 1 to beyond training.

  python evaluate.py                                        the newest run, twice its trained steps
  python evaluate.py runs/sudoku-6x6-1 steps=64             more supervision steps
  python evaluate.py runs/mine data=data/other              another set of the same shape
  python evaluate.py runs/mine evaluation.weights=raw evaluation.split=train
  torchrun --nproc-per-node 8 evaluate.py runs/mine         each GPU evaluates some of the puzzles

beyond accuracy, at the cost of more passes
  studies=policies,restarts=8              of the extensions; --help evaluation.studies lists them
  model.integrator=rk4 model.substeps=4    as an ODE, not its Euler map

  python evaluate.py --help evaluation    a section's settings: default, allowed values, meaning
  python evaluate.py --help model         those of the model that may change after training

Writes RUN/evaluation/NAME/: results.json, boards.json, accuracy_by_step.csv, plots, report.html,
a page that needs no network (docs/evaluation.md states every field)."""

PAGES = {"train": TRAIN, "evaluate": EVALUATE}


def settings_asked(arguments: list[str]) -> list[str] | None:
    """Return the sections and settings that are named after --help or -h, or None without that option."""
    asked = [i for i, word in enumerate(arguments) if word in ("--help", "-h")]
    return arguments[asked[-1] + 1 :] if asked else None


def show_settings(command: str, asked: list[str]) -> None:
    """Print the command's settings of sections, or single ones. Raises ConfigError for an unknown name."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from reason.config.describe import describe_settings, has_mark
    from reason.settings.base import Mark

    rows = [row for row in describe_settings() if command == "train" or has_mark(row.key, Mark.READABLE)]
    sections = [name for name in SECTION_HELP if any(row.key.startswith(f"{name}.") for row in rows)]
    console = Console(highlight=False)
    for name in asked:
        shown = [row for row in rows if row.key == name or row.key.startswith(f"{name}.")]
        if not shown:
            if name.partition(".")[0] in SECTION_HELP.keys() - sections:
                see = f"python train.py --help {name}"
                raise ConfigError(f"--help {name}: no such setting may change in an evaluation; see: {see}")
            hint = nearest(name, [*sections, *(row.key for row in rows)])
            known = f"sections are {', '.join(sections)}"
            raise ConfigError(f"--help {name}: no such section or setting; {hint}{known}")
        if name in SECTION_HELP:
            console.print(f"{name}: {SECTION_HELP[name]}", markup=False)
        for family in dict.fromkeys(row.family for row in shown):
            console.print(f"\n{family} models" if family else "", markup=False)
            view = Table.grid(padding=(0, 2, 0, 0))
            view.add_column(overflow="fold")  # a name is typed: it is never cut
            for row in shown:
                if row.family == family:
                    view.add_row(*map(Text, (f"{row.key}={row.default}", row.allowed, row.text)))
            console.print(view)


class Parser(argparse.ArgumentParser):
    """A parser whose errors are a `ConfigError` of one line; `show_settings` answers --help."""

    def __init__(self, prog: str):
        super().__init__(prog=prog, add_help=False, allow_abbrev=False)
        self.add_argument("words", nargs="*")

    def error(self, message: str) -> NoReturn:
        """Raise ConfigError; argparse calls this if a value is missing or has the wrong type."""
        raise ConfigError(f"{message}; see: python {self.prog} --help")

    def parsed(self, arguments: list[str]) -> argparse.Namespace:
        """Parse a command line. Raises ConfigError for an unknown option; the error names the closest setting."""
        found, unknown = self.parse_known_intermixed_args(arguments)
        if unknown:
            from reason.config.overrides import nearest_setting  # imported only after an error

            name = unknown[0].partition("=")[0]
            options = [option for action in self._actions for option in action.option_strings]
            setting = nearest_setting(name.lstrip("-"))
            hint = nearest(name, options) or (f"did you mean {setting}=…? " if setting else "")
            raise ConfigError(f"{name} is not an option; {hint}settings are typed section.key=value, without --")
        return found
