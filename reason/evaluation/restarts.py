"""More than one try: K answers to every puzzle, and ways to choose among them (docs/math.md §17)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from datasets_gen.puzzles import Puzzle
from reason.data import Moved, PuzzleData, draw_symmetries
from reason.evaluation.probes import mapped, residual, row_norm
from reason.evaluation.signals import halt_signal
from reason.models.base import IGNORE, Batch, Reasoner
from reason.rollout import Halting

Variation = Literal["initial", "symmetry", "noise"]
VARIATIONS: dict[Variation, str] = {
    "initial": "every try after the first starts from random normals of the initial state's size",
    "symmetry": "every try after the first sees the puzzle under a random symmetry; its answer is turned back",
    "noise": "every try after the first has noise added to its state after each supervision step",
}
CHOICES = ("majority", "q", "residual")  # by what an answer is chosen without a rule or a label


@dataclass(frozen=True)
class Tries:
    """K tries at N puzzles; the first is the plain pass."""

    right: np.ndarray  # (K, N) bool: exact
    valid: np.ndarray | None  # (K, N) bool: the rules hold; None: no rule tells
    answers: np.ndarray  # (K, N) uint64: equal for equal answers
    q: np.ndarray | None  # (K, N) what the halting head says of the last step
    residual: np.ndarray  # (K, N) of the last step


def variations_of(puzzle: Puzzle | None) -> list[Variation]:
    """What can be varied: of a puzzle without symmetries, only the state."""
    return ["initial", *(["symmetry"] if puzzle is not None and puzzle.symmetry is not None else []), "noise"]  # type: ignore[list-item]


@torch.inference_mode()
def tries_at(
    model: Reasoner,
    data: PuzzleData,
    steps: int,
    count: int,
    vary: Variation,
    batch_size: int,
    *,
    limit: int | None = None,
    puzzle: Puzzle | None = None,
    halting: Halting = "bce",
    sigma: float = 0.1,
    seed: int = 0,
    progress: bool = True,
) -> Tries:
    """`count` tries of `steps` supervision steps at every example of the split.

    sigma: of the noise, relative to the root mean square of a row's state.
    """
    model.eval()
    examples = min(len(data), limit or len(data))
    generator = torch.Generator(data.device).manual_seed(seed)
    key = torch.randint(1, 2**62, (data.shape.seq_len,), generator=generator, device=data.device)
    seen: list[dict[str, np.ndarray]] = []
    with tqdm(total=examples * count, unit="try", desc=f"{vary} ×{count}", disable=not progress) as bar:
        for first in range(0, examples, batch_size):
            batch = data.take(torch.arange(first, min(first + batch_size, examples), device=data.device))
            rows = []
            for k in range(count):
                rows.append(_try(model, batch, steps, None if k == 0 else vary, puzzle, halting, sigma, generator, key))
                bar.update(len(batch.inputs))
            seen.append({name: np.stack([row[name] for row in rows]) for name in rows[0]})
    whole = {name: np.concatenate([part[name] for part in seen], axis=1) for name in seen[0]}
    return Tries(whole["right"], whole.get("valid"), whole["answers"], whole.get("q"), whole["residual"])


def _try(
    model: Reasoner,
    batch: Batch,
    steps: int,
    vary: Variation | None,
    puzzle: Puzzle | None,
    halting: Halting,
    sigma: float,
    generator: torch.Generator,
    key: Tensor,
) -> dict[str, np.ndarray]:
    """(B,) arrays of one try at a batch."""
    moved = Moved(None, None)
    if vary == "symmetry":
        assert puzzle is not None
        assert puzzle.symmetry is not None
        moved = draw_symmetries(len(batch.inputs), puzzle.symmetry, generator)
    x = model.encode(batch._replace(inputs=moved.apply(batch.inputs)))
    state = model.initial_state(x)
    if vary == "initial":
        state = mapped(state, lambda z: _normal(z, generator) * _size(z))
    before = state
    for _ in range(steps):
        before, state = state, model.step(state, x)
        if vary == "noise":
            state = mapped(state, lambda z: z + sigma * _size(z) * _normal(z, generator))
    readout = model.readout(state, steps)
    answer = moved.undo(readout.logits.argmax(-1))
    scored = batch.labels != IGNORE
    found = {
        "right": ((answer == batch.labels) | ~scored).all(-1) & scored.any(-1),
        "answers": (torch.where(scored, answer + 1, 0) * key).sum(-1),  # wraps round: a hash
        "residual": residual(before, state),
    }
    q = halt_signal(readout, halting)
    if q is not None:
        found["q"] = q
    on_host = {name: values.cpu().numpy() for name, values in found.items()}
    if puzzle is not None and puzzle.judges:
        questions = batch.inputs.cpu().numpy().astype(np.uint8)
        on_host["valid"] = puzzle.solved(questions, answer.cpu().numpy().astype(np.uint8))
    return on_host


def _normal(z: Tensor, generator: torch.Generator) -> Tensor:
    return torch.randn(z.shape, generator=generator, device=z.device, dtype=torch.float32).to(z.dtype)


def _size(z: Tensor) -> Tensor:
    """Root mean square of each row, (B, 1, 1); 1 for a row of zeros."""
    size = row_norm(z) / z[0].numel() ** 0.5
    return torch.where(size > 0, size, 1.0).to(z.dtype).view(-1, 1, 1)


def chosen(tries: Tries, choice: str) -> np.ndarray:
    """Which try (N,) is taken: the most frequent answer, the highest q, the smallest residual; ties to the earliest."""
    match choice:
        case "majority":
            votes = (tries.answers[:, None] == tries.answers[None]).sum(1)
            return votes.argmax(0)
        case "q":
            assert tries.q is not None
            return tries.q.argmax(0)
        case "residual":
            return tries.residual.argmin(0)
    raise ValueError(choice)


def first_of(tries: Tries, count: int) -> Tries:
    """The first `count` tries."""
    valid, q = (None if a is None else a[:count] for a in (tries.valid, tries.q))
    return Tries(tries.right[:count], valid, tries.answers[:count], q, tries.residual[:count])


def restart_table(tries: Tries) -> list[dict[str, Any]]:
    """Exact for 1, 2, 4, … K tries: by choice; `verified` takes the first try whose rules hold (else the majority).

    `any` is the share with a right answer among the tries: what no choice can exceed.
    """
    total = len(tries.right)
    counts = sorted({*(2**k for k in range(total.bit_length()) if 2**k <= total), total})
    rows = []
    for count in counts:
        some = first_of(tries, count)

        def exact(pick: np.ndarray, some: Tries = some) -> float:
            return float(np.take_along_axis(some.right, pick[None], axis=0).mean())

        row: dict[str, Any] = {"tries": count}
        for choice in CHOICES:
            row[choice] = None if choice == "q" and some.q is None else exact(chosen(some, choice))
        row["verified"] = None
        if some.valid is not None:
            row["verified"] = exact(np.where(some.valid.any(0), some.valid.argmax(0), chosen(some, "majority")))
        row["any"] = float(some.right.any(0).mean())
        rows.append(row)
    return rows
