"""Trained looped models side by side: accuracy, state norm, residual and spectral radius against the number of loops.

    python benchmarks/looped_table.py RUN… [--puzzles 500] [--spectra 4] [--loops 1,2,4,8,16,32,64,100]

Everything is read from each run's newest checkpoint in float64, on the first puzzles of its set's test split; ρ is
ARPACK's, its mean over the first `--spectra` of them. The last table holds ρ against what JSRR would estimate there:
√mean‖j‖² over 64 puzzles with K products, from random directions, and warm: K = 4, the direction carried from loop to
loop. Prints Markdown.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import torch
from tqdm import tqdm

from reason.config.overrides import read_config
from reason.data import PuzzleData
from reason.dynamics.jacobian import power_iteration, unit_normal_like
from reason.evaluation.probes import norm, parts, precise, radius, residual, rows_of
from reason.models.base import Batch, Reasoner
from reason.rollout import unroll
from reason.runs.directory import load_run
from reason.training.log import read_metrics

ESTIMATED = 64  # puzzles of an estimate


@dataclass(frozen=True)
class StepProbe:
    """Means over puzzles after `step` loops."""

    step: int
    exact: float
    token_norm: float  # ‖z‖/√(parts · S), what one token holds
    residual: float
    radius: float  # ρ of one cycle's map, over the first `spectra` puzzles


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--puzzles", type=int, default=500)
    parser.add_argument("--spectra", type=int, default=4)
    parser.add_argument("--loops", default="1,2,4,8,16,32,64,100")
    options = parser.parse_args()
    loops = sorted({int(t) for t in options.loops.split(",")})
    found, estimates = {}, {}
    for run in tqdm(options.runs, unit="run"):
        model, batch = trained(run, options.puzzles)
        found[run.name] = probe_steps(model, batch, loops, spectra=options.spectra)
        estimates[run.name] = {t: estimated(model, batch, t) for t in loops if t in (4, 16, 100)}
    for title, field, form in (
        (f"exact, n = {options.puzzles}", "exact", "{:.1%}"),
        ("‖z‖₂ of a token", "token_norm", "{:.3g}"),
        ("residual ‖z_t − z_{t−1}‖/‖z_{t−1}‖", "residual", "{:.2g}"),
        (f"spectral radius, {options.spectra} puzzles", "radius", "{:.2f}"),
    ):
        table(title, [f"T = {t}" for t in loops], {n: cells(p, field, form) for n, p in found.items()})
    columns = ["T", "ρ (ARPACK)", "K = 1", "K = 4", "K = 16", "K = 4, warm"]
    rows = {
        f"{name} at {t}": [str(t), f"{radius_at(found[name], t):.2f}", *(f"{value:.2f}" for value in values)]
        for name, by_loops in estimates.items()
        for t, values in by_loops.items()
    }
    table("JSRR's estimate", columns, rows)
    table("training", ["steps", "minutes", "mean T"], {run.name: cost(run) for run in options.runs})


def trained(run: Path, puzzles: int) -> tuple[Reasoner, Batch]:
    config, device = read_config(run / "config.json"), torch.device("cpu")
    assert config.data.directory is not None
    data = PuzzleData(config.data.directory, "test", device)
    return precise(load_run(run, device, config).model), data.take(torch.arange(min(puzzles, len(data))))


@torch.no_grad()
def probe_steps(model: Reasoner, batch: Batch, at: list[int], spectra: int) -> list[StepProbe]:
    """Accuracy, norm, residual and spectral radius after each number of loops in `at`, in one pass."""
    found = []
    for record in unroll(model, batch, max(at)):
        if record.step in at:
            few = slice(0, spectra)
            radii = radius(model, rows_of(record.state, few), record.context.rows(few))
            tokens = sum(z.shape[1] for z in parts(record.state).values())
            found.append(
                StepProbe(
                    record.step,
                    record.exact.double().mean().item(),
                    norm(record.state).mean().item() / tokens**0.5,
                    residual(record.before, record.state).mean().item(),
                    sum(radii) / len(radii) if radii else float("nan"),
                )
            )
    return found


@torch.no_grad()
def estimated(model: Reasoner, batch: Batch, loops: int) -> list[float]:
    """√mean‖j‖² for K = 1, 4, 16 from random directions, and for K = 4 with the direction carried along."""
    torch.manual_seed(0)
    warm = None
    for record in unroll(model, Batch(*(part[:ESTIMATED] for part in batch)), loops):
        f, z = model.map(rows_of(record.state, slice(None)), record.context, "cycle")
        warm = power_iteration(f, z, unit_normal_like(z) if warm is None else warm.direction, 4)
    assert warm is not None
    cold = [power_iteration(f, z, unit_normal_like(z), k).growth for k in (1, 4, 16)]
    return [growth.square().mean().sqrt().item() for growth in (*cold, warm.growth)]


def cells(probes: list[StepProbe], field: str, form: str) -> list[str]:
    return [form.format(getattr(probe, field)) for probe in probes]


def radius_at(probes: list[StepProbe], loops: int) -> float:
    return next(probe.radius for probe in probes if probe.step == loops)


def cost(run: Path) -> list[str]:
    lines = [line for line in read_metrics(run) if "loops" in line]  # the others are readings of the monitor
    mean = sum(line["loops"] for line in lines) / len(lines)
    return [str(lines[-1]["step"]), f"{lines[-1]['seconds'] / 60:.1f}", f"{mean:.1f}"]


def table(title: str, columns: list[str], rows: dict[str, list[str]]) -> None:
    print(f"\n{title}\n\n| run | {' | '.join(columns)} |\n|{'---|' * (len(columns) + 1)}")
    for name, values in rows.items():
        print(f"| {name} | {' | '.join(values)} |")


if __name__ == "__main__":
    main()
