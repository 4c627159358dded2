"""Exits, caches and the blind spot as parts of an evaluation."""

from dataclasses import replace

import pytest
from evaluators import evaluator_of, read
from gates import gated
from test_evaluator import parts_join
from test_restarts import tries_at

from reason.data import PuzzleData, task_of
from reason.evaluation.config import EvaluationConfig
from reason.evaluation.studies import restarts as R
from reason.extensions.looped.model import LoopedConfig
from reason.extensions.looped.studies.caches import Caches
from reason.extensions.looped.studies.exits import ExitGate
from reason.models import build_model


def test_two_processes_keep_what_one_does(sums: PuzzleData) -> None:
    whole = replace(evaluator_of(gated(sums), sums, 3, 2, caches=True, policies=True), likelihood="stablemax")
    assert {"gate", "margin", "exits/ways", "exits/p", "caches"} <= parts_join(whole)


def test_each_gives_its_part_of_the_results_beside_the_seconds_of_the_pass(sums: PuzzleData) -> None:
    assert {"exits", "caches", "blind_spot"} <= set(read(gated(sums), sums, 2, 50, caches=True, blind_spot=True))
    assert not Caches.timed
    assert not ExitGate.timed


def test_the_blind_spot_of_a_puzzle_that_decimation_changes_is_refused() -> None:
    with pytest.raises(ValueError, match=r"type evaluation\.decimation=none, or evaluation\.blind_spot=false"):
        EvaluationConfig(decimation=2, blind_spot=True)


def test_sums_have_no_symmetry_and_looped_models_no_q(sums: PuzzleData) -> None:
    assert R.variations_of(task_of(sums.metadata)) == ["initial", "noise"]
    model = build_model(LoopedConfig(hidden_size=8, num_heads=1), sums.shape).eval()
    tries, _ = tries_at(model, sums, 2, 3, "noise", 4)
    assert "q" not in tries
    assert R.restart_table(tries)[-1]["q"] is None
    assert R.restart_table(tries)[-1]["verified"] is not None
