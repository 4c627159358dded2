"""reason figures: draws a paper's figure for trained runs."""

from __future__ import annotations

from pathlib import Path

import torch
from matplotlib.figure import Figure

from datasets_gen.typed import Parser
from reason.api import Dataset, Run, load
from reason.errors import ConfigError
from reason.extensions.figures import draw
from reason.files import published
from reason.models.base import Batch

FIGURES = """Draw a figure of the papers from trained runs; FILE is a .png, .svg or .pdf.

  reason figures spectrum FILE RUN          the largest eigenvalues of the Jacobian, by supervision step
  reason figures determinants FILE RUN      Routh-Hurwitz determinants of a cell's Jacobian (CMM eq. 24 to 28)
  reason figures portrait FILE RUN          phase portraits at up to four checkpoints of the run (CMM figure 5)
  reason figures trajectories FILE RUN…     states of several runs in one plane with one scale (STARS figures 2, 5)
  reason figures jumps FILE RUN             a row whose puzzle is replaced (CMM figure 8)
  reason figures repulsion FILE             what repulsion does to directions (CMM figure 7); no run

A run keeps its newest checkpoints. For `portrait`, training.keep_checkpoints=100 keeps those of a whole training:
four of them, evenly spaced, are drawn.
"""
DRAWN = {  # function, and number of runs; None: any
    "spectrum": (draw.spectrum, 1),
    "determinants": (draw.determinants, 1),
    "portrait": (draw.portrait, 1),
    "jumps": (draw.jumps, 1),
    "trajectories": (draw.trajectories, None),
    "repulsion": (draw.repulsion, 0),
}


def main(argv: list[str]) -> int:
    """Draw one figure; returns the exit status."""
    parser = Parser(prog="reason figures", description=FIGURES)
    parser.add_argument("kind", choices=DRAWN)
    parser.add_argument("file", metavar="FILE", type=Path)
    parser.add_argument("runs", nargs="*", metavar="RUN")
    parser.add_argument(
        "--puzzles", type=int, default=4, help="number of puzzles (default 4); spectrum and determinants use the first"
    )
    parser.add_argument("--steps", type=int, default=16, help="supervision steps (default 16)")
    options = parser.parse_args(argv)
    if options.file.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise ConfigError(f"{options.file}: type a file name that ends in .png, .svg or .pdf")
    if options.puzzles < 1 or options.steps < 1:
        raise ConfigError(f"--puzzles {options.puzzles} --steps {options.steps}: type 1 or more")
    drawn, needed = DRAWN[options.kind]
    if len(options.runs) != needed and (needed is not None or not options.runs):
        wanted = {0: "no run", 1: "one run", None: "one run or more"}[needed]
        raise ConfigError(f"{options.kind} needs {wanted}, got {len(options.runs)}")
    runs = [load(name, device="cpu") for name in options.runs]
    batches = [_puzzles(run, options.puzzles) for run in runs]
    figure = Figure(dpi=130, layout="constrained")
    torch.manual_seed(0)
    try:
        drawn(figure, runs, batches, options.steps)
    except NotImplementedError as error:
        raise ConfigError(f"{options.kind} needs a model whose map is known: {error}") from None
    options.file.parent.mkdir(parents=True, exist_ok=True)
    with published(options.file, replace=True) as part:
        figure.savefig(part, format=options.file.suffix[1:].lower())
    print(options.file)
    return 0


def _puzzles(run: Run, count: int) -> Batch:
    """Return the first puzzles of the test split of the set that a run was trained on."""
    if not run.config.data.directories:
        raise ConfigError(f"{run.directory} does not state the set that it was trained on")
    dataset = Dataset(run.config.data.directories[0])
    run.accept(dataset)
    return dataset.batch("test" if "test" in dataset.splits else dataset.splits[0], rows=count)
