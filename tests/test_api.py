"""The library: what README and docs/library.md show, and its errors."""

import re
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from conftest import make_set
from safetensors.torch import load_file

import reason
from datasets_gen.layout import DatasetError
from datasets_gen.structure import Structure
from reason.errors import ConfigError
from reason.rollout import StepRecord
from reason.training.device import own_float32

BRIEF = {"training": {"steps": 4, "batch_size": 16}, "model": {"hidden_size": 32, "num_heads": 2}}
ROWS = [[1, 0, 0, 0], [0, 0, 2, 0], [0, 0, 0, 0], [0, 0, 0, 4]]
CELLS = np.zeros((2, 3), int)


@pytest.fixture(scope="module")
def run(sudoku_4x4, tmp_path_factory):
    return reason.train("sudoku-4x4", data=sudoku_4x4, run=tmp_path_factory.mktemp("api") / "run", **BRIEF)


def test_steps_are_records(run, sudoku_4x4):
    batch = reason.Dataset(sudoku_4x4).batch("test", rows=5)
    records = list(run.steps(batch, 3))
    assert [record.step for record in records] == [1, 2, 3]
    assert all(isinstance(record, StepRecord) for record in records)
    assert records[-1].logits.shape == (5, 16, 6)
    assert not records[-1].logits.requires_grad
    assert torch.equal(records[0].exact, (records[0].answer == batch.labels).all(1))
    assert torch.equal(records[1].before.z_h, records[0].state.z_h)
    again = list(run.steps(batch.inputs.numpy(), 3))  # tokens alone, of any kind
    assert torch.equal(again[-1].logits, records[-1].logits)
    assert not again[-1].exact.any()


def test_a_size_free_model_takes_another_size(here):
    larger, maze = reason.Dataset(make_set("maze --size 9 --train 0 --test 3", here / "set")), reason.load("maze")
    with pytest.raises(ConfigError, match="the model was built for puzzles of 225 cells, these have 81: "):
        next(maze.steps(larger.batch(), 1))
    maze.accept(larger)
    exact = [record.exact for record in maze.steps(larger.batch(), 4)]
    assert exact[-1].float().mean() == maze.evaluate(larger, steps=4)["exact_by_step"][-1]
    with pytest.raises(ConfigError, match="name a set of its shape"):
        reason.load("addition").accept(here / "set")
    with pytest.raises(DatasetError, match="no dataset at"):
        maze.accept(here / "none")


def test_the_weights_asked_for_are_loaded_and_evaluated(run):
    newest = sorted((run.directory / "checkpoints").iterdir())[-1]
    raw, ema = load_file(newest / "weights.safetensors"), load_file(newest / "ema.safetensors")
    assert not torch.equal(raw["head.weight"], ema["head.weight"])
    for which, kept in (("raw", raw), ("ema", ema), ("auto", ema)):
        loaded = reason.load(run.directory, weights=which)
        state = loaded.model.state_dict()
        assert [name for name, value in kept.items() if not torch.equal(state[name], value)] == []
        assert loaded.weights == ("raw" if which == "raw" else "ema")
    other = reason.load(run.directory, device="cpu", weights="raw", model={"h_cycles": 1})
    results = other.evaluate(steps=2, evaluation={"limit": 4}, name="loaded")
    assert (results["weights"], results["puzzles"], len(results["exact_by_step"])) == ("raw", 4, 2)
    assert (results["settings"]["model.h_cycles"], results["device"]) == (1, "cpu")
    assert (run.directory / "evaluation/loaded/results.json").is_file()


def test_the_callers_torch_is_left_as_it_was(sudoku_4x4, tmp_path):
    with own_float32():
        torch.backends.mkldnn.matmul.fp32_precision = "none"
        torch.manual_seed(7)
        state = torch.get_rng_state()
        settings = {"data": {"directory": str(sudoku_4x4), "augment": False}} | BRIEF
        run = reason.train("sudoku-4x4", run=tmp_path / "run", max_steps=1, **settings)
        assert (run.step, run.config.data.augment) == (1, False)
        assert torch.equal(torch.get_rng_state(), state)
        assert torch.get_float32_matmul_precision() == "highest"  # which raises where it is half set


def test_trainings_in_threads_are_those_of_one_thread(sudoku_4x4, tmp_path):
    def trained(name):
        return reason.train("sudoku-4x4", data=sudoku_4x4, run=tmp_path / name, **BRIEF).model.state_dict()

    alone = trained("alone")
    with ThreadPoolExecutor(2) as pool:
        for found in pool.map(trained, ["first", "second"]):
            assert all(torch.equal(found[name], value) for name, value in alone.items())


def test_solving_is_what_the_command_prints(run):
    none, text = [[cell or None for cell in row] for row in ROWS], ["1...", "..2.", "....", "...4"]
    for puzzle in (" ".join(text), ROWS, none, np.array(ROWS), text):
        solved = run.solve(puzzle, steps=2, restarts=1)
        assert (len(solved["steps"]), solved["question"]) == (2, text)


def test_a_set_from_arrays_trains(tmp_path):
    """Copy the row; the last cell is not scored."""
    inputs = np.random.default_rng(0).integers(0, 3, (40, 5))
    labels = np.where(np.arange(5) < 4, inputs, -100)
    data = reason.Dataset.from_arrays(tmp_path / "copies", train=(inputs[:30], labels[:30]), test=(inputs, labels))
    assert data.splits == ["train", "test"]
    assert data.metadata.vocab_size == 3
    trained = reason.train("sudoku-4x4", data=data, run=tmp_path / "run", **BRIEF)
    assert trained.evaluate(steps=1)["puzzles"] == 40
    with pytest.raises(ConfigError, match="no known family"):
        trained.solve("1234")


def arrays(inputs, labels, structure=None):
    return reason.Dataset.from_arrays("set", train=(inputs, labels), vocab_size=4, structure=structure)


REFUSED = {  # of a 4×4 model
    "a setting": (lambda run, data: reason.train("sudoku-4x4", data=data, model={"h_cyces": 9}), "model.h_cycles"),
    "labels": (lambda run, _: run.batch(np.zeros((2, 16), int), np.zeros((2, 15), int)), "labels of shape"),
    "ragged": (lambda run, _: run.steps([[1], [1, 2]], 1), "tokens (B, S) are needed"),
    "fractions": (lambda run, _: run.steps((1.5,) * 16, 1), "whole numbers (B, S) are needed, got float64"),
    "a token": (lambda run, _: run.steps((99,) * 16, 1), "token 99 is outside the model's 0..5"),
    "no try": (lambda run, _: run.solve(ROWS, restarts=0), "restarts=0: at least 1 is needed"),
    "two shapes": (lambda *_: arrays(CELLS, np.zeros((2, 4), int)), "whole numbers, both (N, S)"),
    "a label": (lambda *_: arrays(CELLS, CELLS - 1), "tokens are 0 or more"),
    "a large token": (lambda *_: arrays(CELLS + 9, CELLS), "token 9 with vocab_size=4; 10 or more is needed"),
    "a structure": (lambda *_: arrays(CELLS, CELLS, Structure(grid=(3, 3))), "structure: grid 3x3"),
    "a width": (lambda run, _: reason.load(run.directory, model={"hidden_size": 64}), "model.hidden_size cannot c"),
    "weights": (lambda run, _: reason.load(run.directory, weights="best"), "evaluation.weights=best: "),
}


@pytest.mark.parametrize(("call", "said"), REFUSED.values(), ids=REFUSED)
def test_errors_are_those_of_the_commands(call, said, run, sudoku_4x4, here):
    with pytest.raises((ConfigError, DatasetError), match=re.escape(said)):
        call(run, sudoku_4x4)
    assert list(here.iterdir()) == []
