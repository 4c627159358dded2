"""Sets for the tests of evaluations."""

from __future__ import annotations

import pytest

from datasets_gen.__main__ import main as generate
from reason.data import PuzzleData


@pytest.fixture(scope="module")
def sums(tmp_path_factory: pytest.TempPathFactory) -> PuzzleData:
    directory = tmp_path_factory.mktemp("sets") / "sums"
    assert generate(f"addition --digits 2 --train 8 --test 9 --output-dir {directory}".split()) == 0
    return PuzzleData(directory, "test")
