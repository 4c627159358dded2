"""Compiled evaluation: decided from counted work, recorded, batches of one shape, the numbers of eager evaluation."""

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from evaluators import counting

from reason.data import PuzzleData
from reason.evaluation.config import EvaluationConfig
from reason.evaluation.evaluator import Evaluator, evaluate
from reason.evaluation.suite import consumers_of
from reason.presets import PRESETS
from reason.training.accelerate import compile_networks

CPU = torch.device("cpu")
SMALL = PRESETS["sudoku-4x4"].shape
COUNTERS = torch._dynamo.utils.counters


def evaluator_of(model: Any, data: PuzzleData, **changes: Any) -> Evaluator:
    settings = EvaluationConfig(steps=4, batch_size=5, **changes)
    return Evaluator(model, data, settings, trained_steps=3, progress=False)


def test_batches_of_one_shape_change_nothing(trained: tuple[Any, PuzzleData]) -> None:
    """Batches of equal size, the last one filled up; what fills it is seen by nobody."""
    model, data = trained
    plain = evaluator_of(model, data)
    rows = counting(model)
    seen = [evaluate(each, consumers_of(each)) for each in (plain, replace(plain, fill=True))]
    filled = rows[len(rows) // 2 :]
    assert len(data) % 5
    assert len({*filled[: 4 * -(-len(data) // 5)]}) == 1
    for name in ("exact_by_step", "valid_by_step", "puzzles", "boards"):
        assert seen[0][name] == seen[1][name]
    np.testing.assert_allclose(seen[0]["loss_by_step"], seen[1]["loss_by_step"], rtol=1e-6)


def test_compiled_networks_read_what_eager_ones_read(trained: tuple[Any, PuzzleData]) -> None:
    """One graph for the pass; drawings, whose shapes are their own, make none."""
    read_by_one_graph(*trained)


def read_by_one_graph(model: Any, data: PuzzleData, **asked: Any) -> None:
    eager, compiled = evaluator_of(model, data, **asked), replace(evaluator_of(model, data, **asked), fill=True)
    expected = evaluate(eager, consumers_of(eager))
    torch._dynamo.reset()
    COUNTERS.clear()
    compile_networks(model, "aot_eager")
    compiled.warm_up()
    graphs = COUNTERS["stats"]["unique_graphs"]
    found = evaluate(compiled, consumers_of(compiled))
    assert COUNTERS["stats"]["unique_graphs"] == graphs == len(model.networks())
    assert not COUNTERS["graph_break"]
    assert found["exact_by_step"] == expected["exact_by_step"]
    np.testing.assert_allclose(found["loss_by_step"], expected["loss_by_step"], rtol=1e-5)
