"""examples/one_file.py: the losses of the package's preset, in one file of torch and numpy."""

import importlib
import re
import sys
from pathlib import Path

import pytest
from conftest import make_set, trainer_of

from reason.config.overrides import override
from reason.presets import preset
from reason.training.log import read_metrics

FILE = Path(__file__).parents[1] / "examples" / "one_file.py"


def test_its_first_losses_are_those_of_the_preset(tmp_path, monkeypatch):
    """Initial weights, puzzles, symmetries, carry and updates: 20 steps of 4 rows in float32, two puzzles a row."""
    steps, batch = 20, 4
    make_set("sudoku --size 6 --train 40 --test 12 --seed 3", tmp_path / "set")
    settings = {"data.directory": str(tmp_path / "set"), "training.steps": str(steps), "training.log_every": "1"}
    settings |= {"training.batch_size": str(batch), "training.precision": "fp32", "training.compile": "none"}
    config = override(preset("sudoku-6x6").config(), settings | {"training.monitor.every": "none"})
    trainer_of(config, tmp_path / "run").train()
    monkeypatch.syspath_prepend(FILE.parent)
    module = importlib.import_module("one_file")
    model, losses = module.train(tmp_path / "set", steps, batch)
    assert losses == pytest.approx([line["loss"] for line in read_metrics(tmp_path / "run")], rel=1e-6)
    curve = list(module.accuracy_by_step(model, *module.read(tmp_path / "set", "test"), 3))
    assert len(curve) == 3
    assert all(0 <= exact <= cells <= 1 for exact, cells in curve)


def test_it_is_one_file_of_torch_and_numpy():
    text = FILE.read_text()
    assert len(text.splitlines()) <= 200
    imports = set(re.findall(r"^\s*(?:import|from) (\w+)", text, re.MULTILINE))
    assert imports - sys.stdlib_module_names == {"torch", "numpy"}
