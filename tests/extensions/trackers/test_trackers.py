"""TensorBoard and Weights & Biases: every line, resumed at a checkpoint, a missing package named."""

import shutil
import sys
from unittest.mock import Mock, call

import pytest
from conftest import refusal, trainer_of
from test_loop import resumed

from reason.cli import main
from reason.config.overrides import override
from reason.extensions.trackers.settings import numbers
from reason.training.checkpoint import checkpoints
from reason.training.log import read_metrics


def interrupted(config, run):
    """Trained to step 5, the end lost: the checkpoint of step 3 goes on."""
    trainer_of(config, run).train(max_steps=5)
    shutil.rmtree(checkpoints(run)[-1])
    second = resumed(config, run)
    assert second.step == 3
    second.train()


def test_tensorboard_draws_what_metrics_jsonl_holds(watched, tmp_path):
    """Read back from the event files as TensorBoard reads them; what was lost is not there twice."""
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    run = tmp_path / "run"
    interrupted(override(watched, {"training.tracker": "tensorboard", "training.log_every": "1"}), run)
    events = accumulator.EventAccumulator(str(run / "tensorboard"))
    events.Reload()
    for name in ("loss", "loss/lm", "gradient_norm", "lr", "puzzle_steps_per_second", "memory_peak", "monitor/exact"):
        drawn = {event.step: event.value for event in events.Scalars(name)}
        written = {line["step"]: line[name] for line in read_metrics(run) if name in line}
        assert drawn == pytest.approx(written, rel=1e-6), name
        assert len(events.Scalars(name)) == len(written), name


def test_wandb_is_one_run_over_an_interruption(watched, tmp_path, monkeypatch):
    wandb = Mock()
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    run = tmp_path / "run"
    interrupted(override(watched, {"training.tracker": "wandb", "training.log_every": "1"}), run)
    first, second = (begun.kwargs for begun in wandb.init.call_args_list)
    assert first["id"] == second["id"] == (run / "wandb-id").read_text()
    assert second["resume"] == "allow"
    assert first["config"]["training"]["tracker"] == "wandb"
    assert wandb.init().finish.call_count == 2
    for line in read_metrics(run):
        assert call(numbers(line), step=line["step"]) in wandb.init().log.mock_calls


@pytest.mark.slow
def test_wandb_itself_offline(watched, tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    run = tmp_path / "run"
    trainer_of(override(watched, {"training.tracker": "wandb"}), run).train()
    assert list((run / "wandb").glob("offline-run-*/*.wandb"))


def test_a_run_whose_tracker_is_missing_is_begun_again_by_the_same_command(sudoku_4x4, here, monkeypatch):
    words = ["train", "sudoku-4x4", f"data={sudoku_4x4}", "run=r", "training.steps=2"]
    for module, name in {"torch.utils.tensorboard": "tensorboard", "wandb": "wandb"}.items():
        monkeypatch.setitem(sys.modules, module, None)
        missing = "type pip install 'recursive-reasoners[log]', or training.tracker=none"
        refusal([*words, f"training.tracker={name}"], missing)
    monkeypatch.setitem(sys.modules, "wandb", Mock())
    assert main([*words, "training.tracker=wandb"]) == 0
    refusal(["train", "run=r", "--resume", "training.steps=4"], "or begin another run from its weights: init_from=r")
    assert main(["train", "sudoku-4x4", "init_from=r", f"data={sudoku_4x4}", "run=on", "training.steps=2"]) == 0
