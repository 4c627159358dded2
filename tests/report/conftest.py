"""What a tiny model really gave, for every test of the report."""

from __future__ import annotations

from pathlib import Path

import pytest
from report.test_report import EVERYTHING, read


@pytest.fixture(scope="session")
def whole(sudoku_4x4: Path) -> dict:
    """Every evaluation that there is, of 12 puzzles in 5 steps, 2 of them trained, and a training curve."""
    curve = {"loss": [[2, 3.0], [4, 0.5]], "exact": [[4, 0.25]], "monitor/exact": [[2, 0.0], [4, 0.5]]}
    return read(sudoku_4x4, 5, EVERYTHING) | {"precision": "bfloat16", "training": curve}
