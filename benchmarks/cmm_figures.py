"""CMM's figures 7 and 8: what the repulsion loss does to directions, and how a phase point jumps between trajectories.

    python benchmarks/cmm_figures.py repulsion FILE.png
    python benchmarks/cmm_figures.py jumps FILE.png RUN [--puzzles 4] [--steps 8]

repulsion (figure 7): points of a narrow cone in three dimensions, their projection to the unit sphere, the projection
after gradient descent on the repulsion of eq. 33 and 34, and the points after it; cosines before and after below.

jumps (figure 8): z_H of a trained recursive RUN after each supervision step, on the plane of its two widest directions.
Left one puzzle that keeps its row (carry=persistent, same-batch, fresh), for each of the first puzzles of the run's
test split; right one row whose puzzle is replaced after every second step while the state stays (carry=handover): the
point turns towards another puzzle's solution each time. Crosses are where the puzzles themselves end.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import torch
from torch import Tensor

from reason.config.overrides import read_config
from reason.data import PuzzleData
from reason.losses.repulsion import repulsion
from reason.models.base import Batch, Reasoner
from reason.runs.directory import load_run

POINTS, DESCENT, RATE = 60, 400, 0.5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = parser.add_subparsers(dest="kind", required=True)
    kinds.add_parser("repulsion").add_argument("file", type=Path)
    jumps = kinds.add_parser("jumps")
    jumps.add_argument("file", type=Path)
    jumps.add_argument("run", type=Path)
    jumps.add_argument("--puzzles", type=int, default=4)
    jumps.add_argument("--steps", type=int, default=8)
    options = parser.parse_args()
    if options.kind == "repulsion":
        draw_repulsion(options.file)
    else:
        draw_jumps(options.file, options.run, options.puzzles, options.steps)
    print(options.file)


def repelled(points: Tensor, steps: int = DESCENT, rate: float = RATE) -> list[Tensor]:
    """The points at every step of gradient descent on their repulsion; (n, d) each."""
    everyone, course = torch.ones(len(points), dtype=torch.bool), [points]
    for _ in range(steps):
        moved = course[-1].detach().requires_grad_()
        (gradient,) = torch.autograd.grad(len(points) * repulsion(moved, everyone), moved)
        course.append((moved - rate * gradient).detach())
    return course


def cosines(points: Tensor) -> Tensor:
    """⟨u_i, u_j⟩ of all pairs i < j."""
    u = torch.nn.functional.normalize(points, dim=1)
    return (u @ u.T)[tuple(torch.triu_indices(len(u), len(u), 1))]


def draw_repulsion(file: Path) -> None:
    torch.manual_seed(0)
    start = torch.tensor([2.0, 1.0, 1.5]) + 0.4 * torch.randn(POINTS, 3)
    end = repelled(start)[-1]
    unit = torch.nn.functional.normalize
    panels = {
        "(a) hidden representations": start,
        "(b) on the unit sphere": unit(start, dim=1),
        "(c) after repulsion": unit(end, dim=1),
        "(d) hidden representations after": end,
    }
    figure = plt.figure(figsize=(14, 6.5), layout="constrained")
    for index, (title, points) in enumerate(panels.items()):
        axes = figure.add_subplot(2, 4, index + 1, projection="3d")
        axes.scatter(*points.T, s=8, c=range(POINTS), cmap="viridis")
        axes.set_title(title, fontsize=9)
        axes.set_box_aspect((1, 1, 1))
    everyone = torch.ones(POINTS, dtype=torch.bool)
    for place, (title, points) in ((5, ("before", start)), (7, ("after", end))):
        axes = figure.add_subplot(2, 4, (place, place + 1))
        axes.hist(cosines(points).numpy(), bins=60, range=(-1, 1), color="#4477aa")
        axes.set_title(f"cosines of pairs {title}: repulsion {repulsion(points, everyone).item():.3f}", fontsize=9)
    figure.savefig(file, dpi=130)


@torch.no_grad()
def path(model: Reasoner, batch: Batch, steps: int, every: int | None = None) -> Tensor:
    """z_H of each row after each step, (rows, steps + 1, numbers); with `every` the rows' puzzles move on by one."""
    state = model.initial_state(model.encode(batch))
    seen = [state[0].flatten(1)]
    for step in range(steps):
        shift = 0 if every is None else step // every
        state = model.step(state, model.encode(batch.each(lambda part, shift=shift: part.roll(-shift, 0))))
        seen.append(state[0].flatten(1))
    return torch.stack(seen, dim=1).float()


def draw_jumps(file: Path, run: Path, puzzles: int, steps: int) -> None:
    config = read_config(run / "config.json")
    model = load_run(run, torch.device("cpu"), config).model
    assert config.data.directory is not None, "a run that train.py made names its set"
    batch = PuzzleData(config.data.directory, "test").take(torch.arange(puzzles))
    kept, handed = path(model, batch, steps), path(model, batch, steps, every=2)[:1]
    flat = torch.cat([kept.flatten(0, 1), handed.flatten(0, 1)])
    centre = flat.mean(0)
    plane = torch.linalg.svd(flat - centre, full_matrices=False).Vh[:2].T
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 5), sharex=True, sharey=True, layout="constrained")
    ends = (kept[:, -1] - centre) @ plane
    for axes, rows, title in (
        (left, kept, "(a) each puzzle keeps its row"),
        (right, handed, "(b–d) one row, its puzzle replaced after every second step"),
    ):
        for row in rows:
            points = (row - centre) @ plane
            axes.plot(*points.T, "o-", markersize=3, linewidth=1)
        axes.scatter(*ends.T, marker="x", color="black", zorder=3)
        axes.set_title(title, fontsize=9)
    figure.supxlabel("first principal component of z_H")
    figure.supylabel("second")
    figure.savefig(file, dpi=130)


if __name__ == "__main__":
    main()
