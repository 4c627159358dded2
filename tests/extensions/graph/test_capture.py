"""Captured steps against eager ones. Without a GPU a stand-in for the graph runs the captured step again."""

import sys
from dataclasses import replace
from unittest.mock import Mock

import pytest
import torch
from conftest import NARROW, pairs, trainer_of
from evaluators import evaluator_of
from test_loop import VARIANTS, hold_equal, resumed
from test_queued import SCHEDULED, some

from benchmarks.bench.__main__ import main as bench
from reason.cli import guarded
from reason.config.overrides import override
from reason.data.puzzles import PuzzleData
from reason.errors import ConfigError
from reason.evaluation.evaluator import evaluate
from reason.evaluation.suite import consumers_of
from reason.extensions.graph import capture
from reason.extensions.graph.capture import Captured, CapturedStep
from reason.training.log import read_metrics

MORE = SCHEDULED | pairs("training.steps=24 training.checkpoint_every=8")
FAMILIES = VARIANTS | {
    "cmm": VARIANTS["cmm"] | {"balance.every": "3"},
    "puzzle embedding": pairs("model.puzzle_emb_len=2 optimizer.grad_clip=1"),
}


def captured(trainer):
    """A captured step does nothing when it is captured, and the same to the same tensors at each of these replays."""
    replays = []
    trainer.run_step = Captured(trainer, lambda step: lambda: (replays.append(None), step())[1])
    return replays


@pytest.mark.parametrize("family", some(FAMILIES, "cmm", "accumulated", "muon"))
def test_captured_steps_equal_eager_ones_to_the_bit(family, tiny, tmp_path, monkeypatch):
    """Eager steps with the same numbers on the device; also where a run is stopped, goes on, and is captured anew."""
    monkeypatch.setattr(capture, "DEVICES", {"cpu"})
    monkeypatch.setattr(sys.modules[torch.optim.Adam.__module__], "_get_capturable_supported_devices", lambda: ["cpu"])
    config = override(tiny, MORE | FAMILIES[family])
    trainer_of(config, tmp_path / "plain").train()
    with monkeypatch.context() as patch:
        patch.setattr(capture, "EAGER", 100)
        trainer = trainer_of(config, tmp_path / "eager")
        assert not captured(trainer)
        trainer.train()
    losses = [[line["loss"] for line in read_metrics(tmp_path / name) if "loss" in line] for name in ("plain", "eager")]
    assert losses[0][:2] == pytest.approx(losses[1][:2], rel=1e-3)  # its numbers are the host's, and rounded otherwise
    for name, steps in (("whole", None), ("parts", 11)):
        trainer = trainer_of(config, tmp_path / name)
        replays = captured(trainer)
        trainer.train(max_steps=steps)
        assert replays
    rest = resumed(config, tmp_path / "parts")
    captured(rest)
    rest.train()
    hold_equal(tmp_path / "whole", tmp_path / "eager")
    hold_equal(tmp_path / "parts", tmp_path / "eager")


def test_what_cannot_be_captured_is_refused(tiny, tmp_path, monkeypatch):
    measured = VARIANTS["cmm"] | {"balance.every": "1"}
    fp16 = {"training.precision": "fp16"}
    for changes, lack in (({}, "cpu has no CUDA graphs"), (fp16, "in fp16 every step"), (measured, "balance.every=1")):
        with pytest.raises(ConfigError, match=f"training.compile=graph: {lack}.*; type training.compile=inductor"):
            Captured(trainer_of(override(tiny, changes), tmp_path / "run"))
        monkeypatch.setattr(capture, "DEVICES", {"cpu"})  # as if it had
    trainer = trainer_of(tiny, tmp_path / "run")
    trainer.run_step = Captured(trainer, Mock(side_effect=RuntimeError("not while a stream is captured\nmore")))
    with pytest.raises(ConfigError, match=r"asks the device \(not while a stream is captured\); type .*=inductor"):
        trainer.train()


def test_a_benchmark_takes_captured_steps(here, monkeypatch):
    monkeypatch.setattr(capture, "DEVICES", {"cpu"})
    captures = []
    monkeypatch.setattr(capture, "CudaGraphs", lambda device, generators: lambda step: (captures.append(step), step)[1])
    words = [*NARROW, "optimizer.kind=adam-atan2", "training.compile=graph", "--rounds", "1", "--steps", "4"]
    assert guarded(bench, ["sudoku-4x4", *words]) == 0
    assert len(captures) == 2  # a training's and an evaluation's


def test_a_captured_evaluation_reads_what_an_eager_one_reads(trained):
    model, data = trained
    hold_same_reading(model, data, CapturedStep(model, lambda step: step))
    with pytest.raises(ConfigError, match=r"evaluation\.compile=graph: cpu has no CUDA graphs; type .*=inductor"):
        CapturedStep(model)


def hold_same_reading(model, data, step):
    """Three batches, of which the last is padded."""
    eager = evaluator_of(model, data, 6, 5, limit=11)
    found = [evaluate(each, consumers_of(each)) for each in (eager, replace(eager, fill=True, step=step))]
    assert step.replay
    for name in ("exact_by_step", "loss_by_step"):
        assert found[0][name] == pytest.approx(found[1][name], rel=1e-6)


@pytest.mark.gpu
def test_an_evaluation_by_cuda_graphs_reads_what_an_eager_one_reads(tiny, tmp_path):
    trainer = trainer_of(tiny, tmp_path / "run", "cuda")
    trainer.train()
    data = PuzzleData(tiny.data.directory, "test", trainer.device)
    hold_same_reading(trainer.model, data, CapturedStep(trainer.model))


@pytest.mark.gpu
@pytest.mark.parametrize("family", FAMILIES)
def test_cuda_graphs_equal_eager_steps_to_the_bit(family, tiny, tmp_path, monkeypatch):
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        config = override(tiny, MORE | FAMILIES[family])
        for name in ("eager", "whole"):
            trainer = trainer_of(config, tmp_path / name, "cuda")
            trainer.run_step = Captured(trainer)
            monkeypatch.setattr(capture, "EAGER", 100 if name == "eager" else 3)
            trainer.train()
    finally:
        torch.use_deterministic_algorithms(False)
    hold_equal(tmp_path / "whole", tmp_path / "eager")
