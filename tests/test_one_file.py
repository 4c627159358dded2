"""examples/one_file.py: the losses of the package's preset, in one file of torch and numpy."""

import re
import sys
from pathlib import Path

import pytest
import torch
from conftest import make_set, trainer_of

from examples import one_file
from reason.config.overrides import override
from reason.presets import preset
from reason.training.checkpoint import checkpoints, load_weights
from reason.training.generators import seeds
from reason.training.log import read_metrics

PARTS = {
    "cells_in": "mixer.gate_up", "cells_out": "mixer.down", "features_in": "mlp.gate_up", "features_out": "mlp.down",
}  # fmt: skip


def test_its_first_losses_are_those_of_the_preset(tmp_path, monkeypatch):
    """Initial weights, puzzles, carry, updates and the average: 20 steps of 4 rows in float32, two puzzles a row."""
    steps, batch = 20, 4
    make_set("sudoku --size 6 --train 40 --test 12 --seed 3", tmp_path / "set")
    settings = {"data.directory": str(tmp_path / "set"), "training.steps": str(steps), "training.log_every": "1"}
    settings |= {"training.batch_size": str(batch), "training.precision": "fp32", "training.compile": "none"}
    config = override(preset("sudoku-6x6").config(), settings | {"training.monitor.every": "none"})
    trainer_of(config, tmp_path / "run").train()

    def numbers(count, size, generator, indices=one_file.indices):
        for chosen in indices(count, size, generator):
            torch.rand(2, size, generator=generator)  # the package draws a puzzle of each group here
            yield chosen

    monkeypatch.setattr(one_file, "indices", numbers)
    model, losses = one_file.train(tmp_path / "set", steps, batch, seeds(config.seed))
    assert losses == pytest.approx([line["loss"] for line in read_metrics(tmp_path / "run")], rel=1e-6)
    averages = load_weights(checkpoints(tmp_path / "run")[-1], "ema")
    for name, average in model.named_parameters():
        _, _, last = name.rpartition(".")
        own = name if name in averages else f"{name}.weight"  # "f.0.cells_in" is a matrix of the first block
        theirs = averages[f"f_l.blocks.{name[2]}.{PARTS[last]}.weight" if last in PARTS else own]
        torch.testing.assert_close(average.detach(), theirs, rtol=0, atol=1e-6)
    curve = list(one_file.accuracy_by_step(model, *one_file.load(tmp_path / "set", "test"), 3))
    assert [0 <= exact <= cells <= 1 for exact, cells in curve] == [True] * 3


def test_it_is_one_file_of_torch_and_numpy():
    text = Path(one_file.__file__).read_text()
    assert len(text.splitlines()) <= 200
    imports = set(re.findall(r"^\s*(?:import|from) (\w+)", text, re.MULTILINE))
    assert imports - sys.stdlib_module_names == {"torch", "numpy"}
