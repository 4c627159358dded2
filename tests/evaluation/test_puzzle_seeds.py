"""Every puzzle has random numbers of its own: whatever else is read, and whatever stands beside it in a batch."""

from pathlib import Path
from typing import Any

import pytest
import torch
from evaluators import evaluator_of, small

from reason.data import PuzzleData
from reason.evaluation.evaluator import Columns, PuzzleSeeds
from reason.evaluation.studies.boards import Boards
from reason.evaluation.suite import consumers_of
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
    with torch.no_grad(), evaluator.own_randomness():
        return evaluator.observe(consumers_of(evaluator))[0]


def test_boards_show_the_pass(model: Reasoner, data: PuzzleData) -> None:
    evaluator = evaluator_of(model, data, 3, 50)
    seen = columns(model, data, 50)
    with evaluator.own_randomness():
        boards = Boards(evaluator).result(seen)["boards"]["puzzles"]
    assert len(boards) >= 6
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
