"""The page of a looped model, and the blind spot of a state that overflows: as in tests/report/test_report.py."""

from pathlib import Path

import pytest
import test_report as of

from reason.data import PuzzleData
from reason.evaluation.config import EvaluationConfig
from reason.extensions.looped.model import LoopedConfig
from reason.models import build_model

SMALL = LoopedConfig(hidden_size=8, num_heads=1, expansion=1)


def test_a_looped_model_on_causal_sums(sums: PuzzleData, tmp_path: Path) -> None:
    results = of.read(sums.directory, 3, of.EVERYTHING, SMALL)
    assert results["halted_by_step"] is None  # there is no head
    assert not (tmp_path / "halting.png").exists()
    assert "halting head know" not in of.check(tmp_path, results)


def test_the_blind_spot_of_a_state_that_overflows(
    sudoku_4x4: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = PuzzleData(sudoku_4x4, "test")
    model = build_model(of.SMALL, data.shape)
    monkeypatch.setattr(type(model), "step", lambda self, state, x: type(state)(*(1e160 * z for z in state)))
    settings = EvaluationConfig(blind_spot=True, boards=0)
    results = of.MORE | {"steps": 3, "trained_steps": 2} | of.results_of(model, data, settings, 3, 2)
    assert results["blind_spot"]["by_loop"][-1]["norm"]["mean"] is None
    of.check(tmp_path, results)
