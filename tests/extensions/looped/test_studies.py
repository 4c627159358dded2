"""Exits, caches and the blind spot as parts of an evaluation."""

from dataclasses import replace

import pytest
from evaluators import evaluator_of, read
from gates import gated
from test_evaluator import parts_join

from reason.data import PuzzleData
from reason.evaluation.config import EvaluationConfig
from reason.extensions.looped.studies.caches import Caches
from reason.extensions.looped.studies.exits import ExitGate


def test_two_processes_keep_what_one_does(sums: PuzzleData) -> None:
    whole = replace(evaluator_of(gated(sums), sums, 3, 2, caches=True), likelihood="stablemax")
    assert {"exits/ways", "exits/p", "caches"} <= parts_join(whole)


def test_each_gives_its_part_of_the_results_beside_the_seconds_of_the_pass(sums: PuzzleData) -> None:
    assert {"exits", "caches", "blind_spot"} <= set(read(gated(sums), sums, 2, 50, caches=True, blind_spot=True))
    assert not Caches.timed
    assert not ExitGate.timed


def test_the_blind_spot_of_a_puzzle_that_decimation_changes_is_refused() -> None:
    with pytest.raises(ValueError, match=r"type evaluation\.decimation=none, or evaluation\.blind_spot=false"):
        EvaluationConfig(decimation=2, blind_spot=True)
