"""Every puzzle has random numbers of its own: whatever else is read, and whatever stands beside it in a batch."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from evaluators import evaluator_of, small

from datasets_gen.sudoku import Sudoku
from reason.data import PuzzleData
from reason.evaluation.evaluator import Accuracy, Columns, PuzzleSeeds
from reason.evaluation.signals import Signals
from reason.evaluation.studies.boards import Boards
from reason.evaluation.studies.dynamics import Dynamics
from reason.evaluation.studies.restarts import Restarts
from reason.models.base import Reasoner


@pytest.fixture
def data(sudoku_4x4: Path) -> PuzzleData:
    return PuzzleData(sudoku_4x4, "test")


@pytest.fixture
def model(data: PuzzleData) -> Reasoner:
    """Its initial states are random; two cells of one token begin apart."""
    torch.manual_seed(0)
    return small(data.shape, torch.float64, initial="random").eval()


def columns(model: Reasoner, data: PuzzleData, batch_size: int, **settings: Any) -> Columns:
    evaluator = evaluator_of(model, data, 3, batch_size, **settings)
    consumers = [Accuracy(evaluator), Signals(evaluator), *([Restarts(evaluator)] if "restarts" in settings else [])]
    with torch.no_grad(), evaluator.own_randomness():
        return evaluator.observe(consumers)[0]


def test_tries_leave_the_pass_as_it_is(model: Reasoner, data: PuzzleData) -> None:
    alone, beside = columns(model, data, batch_size=5), columns(model, data, batch_size=5, restarts=3)
    assert all((beside[name] == values).all() for name, values in alone.items())


def test_the_size_of_a_batch_changes_no_draw(model: Reasoner, data: PuzzleData) -> None:
    few, many = (columns(model, data, batch_size=size, restarts=3) for size in (4, 12))
    tries = {kind: many[f"{kind}/residual"] for kind in ("initial", "symmetry", "noise")}
    for kind, residuals in tries.items():
        assert few[f"{kind}/residual"] == pytest.approx(residuals, abs=1e-9), kind
        assert (np.ptp(residuals, axis=0) > 1e-3).all(), "tries differ"
        assert len(set(residuals[1])) == len(data), "puzzles differ"


def test_boards_and_dynamics_show_the_pass(model: Reasoner, data: PuzzleData) -> None:
    evaluator = evaluator_of(model, data, 3, 50, boards=20, probes=True, probed=20, spectra=0)
    seen = columns(model, data, 50)
    with evaluator.own_randomness():
        boards = Boards(evaluator).result(seen)["boards"]["puzzles"]
        paths = Dynamics(evaluator).result(seen)["dynamics"]["puzzles"]
    assert len(boards) == len(paths) == len(data)
    for path in paths:
        assert path["residual"] == pytest.approx(-seen["residual"][:, path["example"]])
    for board in boards:
        right = [a == label for a, label in zip(board["answers"][-1], board["label"], strict=True) if label >= 0]
        assert all(right) == board["solved"]


def test_a_stream_is_of_the_seed_the_purpose_and_the_puzzle() -> None:
    z = torch.zeros(2, 5, 4, dtype=torch.float64)
    first = PuzzleSeeds(torch.tensor([3, 8]), 0, 1).normal(z)
    assert first.dtype == z.dtype
    assert torch.equal(first[1:], PuzzleSeeds(torch.tensor([8]), 0, 1).normal(z[:1]))
    for other in (PuzzleSeeds(torch.tensor([3, 8]), 1, 1), PuzzleSeeds(torch.tensor([3, 8]), 0, 2)):
        assert (other.normal(z) != first).all()
    moved = PuzzleSeeds(torch.arange(50), 0).symmetries(Sudoku(6).symmetry, 1, z.device)
    assert moved.source is not None
    assert len({tuple(row) for row in moved.source.tolist()}) > 40
    single = PuzzleSeeds(torch.tensor([7]), 0).symmetries(Sudoku(6).symmetry, 1, z.device)
    assert torch.equal(moved.names[7:8], single.names)
