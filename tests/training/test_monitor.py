"""The monitor: what it reads, what it leaves alone, and which checkpoint it keeps."""

from pathlib import Path

import pytest
import torch
from conftest import trainer_of
from test_loop import everything, untimed

from reason.config.overrides import override
from reason.config.schema import Config
from reason.data import PuzzleData
from reason.rollout import unroll
from reason.runs.directory import load_run
from reason.training import checkpoint
from reason.training.log import read_metrics
from reason.training.monitor import Reading

CPU = torch.device("cpu")


def test_a_reading_is_the_accuracy_of_the_averages_at_the_last_step(watched: Config, tmp_path: Path) -> None:
    """Against a plain loop over the puzzles, one by one, with the EMA loaded as a run's evaluation loads it."""
    watched = override(
        watched, {"training.steps": "40", "optimizer.lr": "3e-3", "optimizer.schedule.warmup_steps": "0"}
    )
    trainer = trainer_of(watched, tmp_path / "run")
    trainer.train()
    monitor = trainer.monitor
    reading = monitor.read(trainer.model, trainer.ema, 40)
    model = load_run(tmp_path / "run", CPU, watched).model
    data = PuzzleData(str(watched.data.directory), "validation")
    exact = cell = 0.0
    for index in range(len(data)):
        batch = data.take(torch.tensor([index]))
        with torch.no_grad():
            *_, out = unroll(model, batch, watched.rollout.supervision_steps)
        right = out.logits.argmax(-1) == batch.labels
        exact += right.all().item() / len(data)
        cell += right.float().mean().item() / len(data)
    assert reading.puzzles == len(data) == 11
    assert reading.exact == pytest.approx(exact)
    assert reading.cell == pytest.approx(cell)
    assert reading.cell > 0.25  # it has learned something: cell accuracy would be chance otherwise
    capped = trainer_of(override(watched, {"training.monitor.puzzles": "5"}), tmp_path / "run").monitor
    assert capped.read(trainer.model, None, 40).puzzles == 5


@pytest.mark.parametrize("changes", [{}, {"model.initial": "random"}], ids=["buffer", "random initial state"])
def test_reading_leaves_training_alone(changes: dict[str, str], watched: Config, tmp_path: Path) -> None:
    """Weights, averages, moments, carry and random states with and without a monitor: the same to the bit."""
    watched = override(watched, changes)
    trainer_of(override(watched, {"training.monitor.every": "1"}), tmp_path / "read").train()
    trainer_of(override(watched, {"training.monitor.puzzles": "0"}), tmp_path / "unread").train()
    read, unread = everything(tmp_path / "read"), everything(tmp_path / "unread")
    assert [name for name in unread if not torch.equal(read[name], unread[name])] == []
    lines = [line for line in untimed(tmp_path / "read") if "loss" in line]
    assert lines == untimed(tmp_path / "unread")
    assert sum("monitor/exact" in line for line in read_metrics(tmp_path / "read")) == watched.training.steps


def test_the_best_is_kept_and_can_be_evaluated(
    watched: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readings rise, then fall: the checkpoint of the highest stays, though it is not among the newest."""
    exact = {1: 0.1, 2: 0.5, 3: 0.9, 4: 0.9, 5: 0.2, 6: 0.3}
    config = override(watched, {"training.monitor.every": "1", "training.checkpoint_every": "1"})
    trainer = trainer_of(config, tmp_path / "run")
    monkeypatch.setattr(trainer.monitor, "read", lambda model, ema, step: Reading(step, exact[step], 0.5, 11, 0.0))
    trainer.train()
    assert trainer.best.step == 3  # of equals the earlier
    names = [path.name for path in checkpoint.checkpoints(tmp_path / "run")]
    assert names == ["step-000003", "step-000005", "step-000006"]
    assert checkpoint.best_checkpoint(tmp_path / "run").name == "step-000003"
    assert load_run(tmp_path / "run", CPU, override(config, {"evaluation.checkpoint": "best"})).step == 3
    assert load_run(tmp_path / "run", CPU, config).step == 6
