"""What metrics.jsonl says, against sums written out; the monitor: what it reads, leaves alone and keeps."""

from unittest.mock import Mock

import pytest
import torch
from conftest import trainer_of
from evaluators import read
from survivors import flip
from test_loop import everything, untimed

from reason.config.overrides import override
from reason.data.puzzles import PuzzleData
from reason.models.base import IGNORE, Batch, Readout
from reason.rollout import Carry, SupervisionStep
from reason.runs.directory import load_run
from reason.runs.results import training_curve
from reason.training import checkpoint
from reason.training.log import Meters, read_metrics
from reason.training.monitor import Validation
from reason.training.world import World

CPU = torch.device("cpu")


def step(answers, labels, halted, active, m):
    """A supervision step whose rows say `answers`."""
    truth = torch.tensor(labels)
    batch = Batch(truth, truth, torch.zeros(len(labels), dtype=torch.long))
    readout = Readout(torch.nn.functional.one_hot(torch.tensor(answers), 4).float())
    none = torch.zeros(len(labels), dtype=torch.bool)
    seen = SupervisionStep(None, batch, None, ((), ()), (readout,), torch.tensor(active), torch.tensor(m), none)
    return seen, Carry(batch, (), none, torch.tensor(halted), batch)


def test_accuracy_is_that_of_rows_that_have_just_halted():
    """Row by row: halted and right, halted and half right, right but not halted, halted before this step."""
    labels = [[1, 2], [1, 2], [3, 3], [1, 1]]
    answers = [[1, 2], [1, 3], [3, 3], [1, 1]]
    meters, weights = Meters(CPU, World()), {"lm": 1.0, "q_halt": 0.5}
    seen = step(answers, labels, [True, True, False, True], [True, True, True, False], [3, 5, 7, 9])
    meters.add(*seen, {"lm": torch.tensor(2.0), "q_halt": torch.tensor(4.0)}, weights)
    meters.add(*step([[0, 1]], [[IGNORE, 1]], [True], [True], [1]), {"lm": torch.tensor(1.0)}, weights)
    means = meters.read()
    assert means["finished"] == 3
    assert means["exact"] == pytest.approx(2 / 3)
    assert means["cell"] == pytest.approx((1 + 0.5 + 1) / 3)
    assert means["mean_steps"] == pytest.approx((3 + 5 + 1) / 3)
    assert means["loops"] == 2
    assert means["loss/lm"] == pytest.approx(1.5)
    assert means["loss/q_halt"] == pytest.approx(4)  # the mean over the steps that had it
    assert means["loss"] == pytest.approx((2 + 0.5 * 4 + 1) / 2)


@pytest.mark.parametrize("accum_steps", [1, 3])
def test_an_epoch_is_a_pass_of_the_loader_over_the_set(accum_steps, tiny, tmp_path):
    changes = {"rollout.carry": "same-batch", "rollout.accum_steps": str(accum_steps), "training.log_every": "3"}
    trainer = trainer_of(override(tiny, changes), tmp_path / "run")
    (sampler,) = trainer.samplers
    sampler.groups = Mock(wraps=sampler.groups)
    trainer.train()
    line = read_metrics(tmp_path / "run")[-1]
    assert line["epoch"] == pytest.approx(sampler.groups.call_count * sampler.batch_size / trainer.data.groups)
    assert line["puzzle_steps"] == 6 * sampler.batch_size


def test_lines_that_are_none_are_left_out(tmp_path):
    bad = [b"{", b"\xff\xfe", b"[]", b'{"loss": 1}', b'{"step": "x"}', b"[" * 100_000]
    good = [b'{"step": 1, "loss": 2.0}', b'{"step": 3, "loss": NaN}']
    (tmp_path / "metrics.jsonl").write_bytes(b"\n".join([*bad, *good, b'{"step": 4, "lo']))
    assert [line["step"] for line in read_metrics(tmp_path)] == [1, 3]
    assert training_curve(tmp_path) == {"loss": [[1, 2.0]]}
    (tmp_path / "metrics.jsonl").write_text("".join(f'{{"step": {n}, "loss": 0}}\n' for n in range(1, 2003)))
    steps = [step for step, _ in training_curve(tmp_path)["loss"]]
    assert (len(steps), *steps[-2:]) == (668, 1999, 2002)  # every third


def test_a_reading_is_the_accuracy_of_the_averages_at_the_last_step(watched, tmp_path):
    """Against an evaluation (test_evaluator.py holds it against a loop) with the EMA loaded as a run's."""
    changes = {"training.steps": "40", "optimizer.lr": "3e-3", "optimizer.schedule.warmup_steps": "0"}
    watched = override(watched, changes)
    trainer = trainer_of(watched, tmp_path / "run")
    trainer.train()
    monitor = trainer.monitor
    reading = monitor.validate(trainer.model, trainer.ema, 40)
    model = load_run(tmp_path / "run", CPU, watched).model
    data = PuzzleData(str(watched.data.directory), "validation")
    expected = read(model, data, watched.rollout.supervision_steps, 5)
    assert reading.puzzles == len(data) == 11
    assert reading.exact == pytest.approx(expected["exact_by_step"][-1])
    assert reading.cell == pytest.approx(expected["cell_by_step"][-1])
    assert reading.cell > 0.25  # it has learned something: cell accuracy would be chance otherwise
    capped = trainer_of(override(watched, {"training.monitor.puzzles": "5"}), tmp_path / "run").monitor
    assert capped.validate(trainer.model, None, 40).puzzles == 5


@pytest.mark.parametrize("changes", [{}, {"model.initial": "random"}], ids=["buffer", "random initial state"])
def test_reading_leaves_training_alone(changes, watched, tmp_path):
    """Weights, averages, moments, carry and random states with and without a monitor: the same to the bit."""
    watched = override(watched, changes)
    trainer_of(override(watched, {"training.monitor.every": "1"}), tmp_path / "read").train()
    trainer_of(override(watched, {"training.monitor.puzzles": "0"}), tmp_path / "unread").train()
    read, unread = everything(tmp_path / "read"), everything(tmp_path / "unread")
    assert [name for name in unread if not torch.equal(read[name], unread[name])] == []
    lines = [line for line in untimed(tmp_path / "read") if "loss" in line]
    assert lines == untimed(tmp_path / "unread")
    assert sum("monitor/exact" in line for line in read_metrics(tmp_path / "read")) == watched.training.steps


def test_the_best_is_kept_and_can_be_evaluated(watched, tmp_path, monkeypatch):
    """Readings rise, then fall: the checkpoint of the highest stays, though it is not among the newest."""
    exact = {1: 0.1, 2: 0.5, 3: 0.9, 4: 0.9, 5: 0.2, 6: 0.3}
    config = override(watched, {"training.monitor.every": "1", "training.checkpoint_every": "1"})
    trainer = trainer_of(config, tmp_path / "run")
    monkeypatch.setattr(trainer.monitor, "validate", lambda _, ema, step: Validation(step, exact[step], 0.5, 11, 0.0))
    trainer.train()
    assert trainer.best.step == 3  # of equals the earlier
    names = [path.name for path in checkpoint.checkpoints(tmp_path / "run")]
    assert names == ["step-000003", "step-000005", "step-000006"]
    assert checkpoint.best_checkpoint(tmp_path / "run").name == "step-000003"
    assert load_run(tmp_path / "run", CPU, override(config, {"evaluation.checkpoint": "best"})).step == 3
    assert load_run(tmp_path / "run", CPU, config).step == 6
    assert Validation(7, 0.9, 0.6, 11, 0.0).beats(trainer.best)  # of equally many boards more cells
    flip(tmp_path / "run/checkpoints/step-000003/weights.safetensors", 4000)
    assert checkpoint.best_checkpoint(tmp_path / "run") is None
