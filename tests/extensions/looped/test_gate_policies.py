"""The exit gate as a stopping policy; policies and restarts of looped models as in tests/extensions/studies."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from evaluators import evaluator_of
from gates import gated
from test_evaluator import parts_join

from reason.data import PuzzleData, task_of
from reason.extensions.looped.model import LoopedConfig
from reason.models import build_model
from reason.rollout import unroll

pytest.importorskip("reason.extensions.studies")
import test_policies as of
from test_restarts import tries_at

from reason.extensions.studies import restarts as R

LOOPED = {"hidden_size": 8, "num_heads": 1, "causal": False, "num_layers": 1}
MODELS = {
    "a gate per puzzle": LoopedConfig(**LOOPED, gate="puzzle"),
    "a gate per position, read raw at first": LoopedConfig(
        **LOOPED, gate="position", readout="final-only", final_from=3
    ),
}


@pytest.mark.parametrize("config", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("batch_size", [1, 5, 50])
def test_rows_that_leave_leave_with_what_the_record_says(
    config: LoopedConfig, batch_size: int, sudoku_4x4: Path
) -> None:
    of.test_rows_that_leave_leave_with_what_the_record_says(config, batch_size, sudoku_4x4)


@pytest.mark.parametrize("config", MODELS.values(), ids=MODELS)
def test_rows_at_their_threshold_stay(config: LoopedConfig, sudoku_4x4: Path) -> None:
    of.test_rows_at_their_threshold_stay(config, sudoku_4x4)


def test_the_gate_signal_is_the_chance_of_having_left(sudoku_4x4: Path) -> None:
    data = PuzzleData(sudoku_4x4, "test")
    model = build_model(MODELS["a gate per position, read raw at first"], data.shape).eval()
    seen = of.passed(model, data, 3, 12)
    with torch.no_grad():
        gates = [record.readout.gate.sigmoid() for record in unroll(model, data.take(torch.arange(12)), 3)]
    stays = torch.ones_like(gates[0])
    for m, gate in enumerate(gates):
        stays = stays * (1 - gate)
        assert seen["gate"][m].tolist() == pytest.approx((1 - stays).mean(1).tolist(), abs=1e-5)
    assert "q" not in seen


def test_two_processes_keep_the_signals_that_one_does(sums: PuzzleData) -> None:
    whole = replace(evaluator_of(gated(sums), sums, 3, 2, policies=True), likelihood="stablemax")
    assert {"gate", "margin"} <= parts_join(whole)


def test_sums_have_no_symmetry_and_looped_models_no_q(sums: PuzzleData) -> None:
    assert R.variations_of(task_of(sums.metadata)) == ["initial", "noise"]
    model = build_model(LoopedConfig(hidden_size=8, num_heads=1), sums.shape).eval()
    tries, _ = tries_at(model, sums, 2, 3, "noise", 4)
    assert "q" not in tries
    assert R.restart_table(tries)[-1]["q"] is None
    assert R.restart_table(tries)[-1]["verified"] is not None
