"""make demo: a puzzle set, a trained model and its accuracy by supervision step."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console

from reason.cli import evaluate, train
from reason.config.overrides import read_config
from reason.presets import preset
from reason.report import print_results
from reason.training.checkpoint import checkpoints, step_of

PRESET = "sudoku-6x6"
RUN = Path("runs/demo")

NEXT = """what to try next
  python evaluate.py {run} steps=64                         more supervision steps
  python -m datasets_gen show {data} --split test      the test puzzles
  python train.py {preset} model.activation=tanh              one setting changed: CMM's gate
  python train.py {preset} model.h_cycles=1                   fewer cycles
  reason presets                                                all presets"""


def main(argv: list[str]) -> int:
    """Generate, train (or resume an interrupted demo), evaluate, and explain the result."""
    argparse.ArgumentParser(prog="reason demo", description=__doc__).parse_args(argv)
    config = preset(PRESET).config()
    if not _finished():
        arguments = [f"run={RUN}", "--resume"] if (RUN / "config.json").exists() else [PRESET, f"run={RUN}"]
        print(f"demo: python train.py {' '.join(arguments)}")
        train.main(arguments)
        if not _finished():
            print("demo: interrupted; make demo resumes it")
            return 130
    print(f"demo: python evaluate.py {RUN}")
    results, folder = evaluate.evaluate_run(RUN, {})
    print_results(results, Console())
    print(f"picture {folder / 'accuracy_by_step.png'}\n")
    print(NEXT.format(run=RUN, data=config.data.directory, preset=PRESET))
    trained, exact = results["trained_steps"], results["exact_by_step"]
    print(
        f"demo: exact {100 * exact[trained - 1]:.1f}% at step {trained} of {trained} trained, "
        f"{100 * exact[0]:.1f}% at step 1, report {folder / 'report.html'}"
    )
    return 0


def _finished() -> bool:
    if not (RUN / "config.json").exists():
        return False
    saved = checkpoints(RUN)
    return bool(saved) and step_of(saved[-1]) >= read_config(RUN / "config.json").training.steps
