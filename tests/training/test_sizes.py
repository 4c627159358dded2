"""Training on sets of several sizes at once, and reading any size with the weights of one."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from conftest import output, refusal

from datasets_gen.__main__ import main as generate
from reason.cli import main
from reason.config.overrides import override
from reason.config.schema import Config
from reason.errors import ConfigError
from reason.runs.build import build_trainer
from reason.runs.sets import load_training_set
from reason.training.loop import Trainer

CPU = torch.device("cpu")
LOCAL = {"model.mixer": "local", "model.q_from": "mean", "model.puzzle_emb_len": "0", "model.positions": "none"}


@pytest.fixture(scope="module")
def mazes(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """Mazes of two sizes to train on, of a third to read."""
    here = tmp_path_factory.mktemp("mazes")
    for size in (4, 5, 7):
        words = f"maze --size {size} --min-path 4 --train 20 --validation 5 --test 5 --output-dir {here / str(size)}"
        assert generate(words.split()) == 0
    return {size: here / str(size) for size in (4, 5, 7)}


def config_of(tiny: Config, mazes: dict[int, Path], **changes: str) -> Config:
    two = {"data.directory": f"{mazes[4]},{mazes[5]}", "model.noise": "additive", "loss.weights.jsrr": "0.1"}
    more = {"loss.jsrr.convex": "false", "training.monitor.every": "2"}
    return override(tiny, LOCAL | two | more | changes)


def weights(trainer: Trainer) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in trainer.model.state_dict().items()}


def test_batches_come_by_size_in_turn_and_each_size_keeps_its_own_carry(
    tiny: Config, mazes: dict[int, Path], tmp_path: Path
) -> None:
    trainer = build_trainer(c := config_of(tiny, mazes), tmp_path, load_training_set(c, CPU))
    seen = []
    for _ in range(4):
        seen.append(trainer.carry.batch.inputs.shape[1])
        trainer.optimizer_step()
    assert seen == [16, 25, 16, 25]
    assert [carry.state.z_h.shape[1] for carry in trainer.carries] == [16, 25]
    assert all(carry.steps.max() == 2 for carry in trainer.carries), "both went two steps"
    reading = trainer.monitor.read(trainer.model, trainer.ema, 4) if trainer.monitor else None
    assert reading is not None
    assert reading.puzzles == 10


@pytest.mark.parametrize("stop", [1, 2, 3])
def test_a_resumed_run_is_the_one_that_did_not_stop(
    stop: int, tiny: Config, mazes: dict[int, Path], tmp_path: Path
) -> None:
    config = config_of(tiny, mazes)
    for name in ("straight", "broken"):
        (tmp_path / name).mkdir()
    straight = build_trainer(config, tmp_path / "straight", load_training_set(config, CPU))
    straight.train()
    build_trainer(config, tmp_path / "broken", load_training_set(config, CPU)).train(max_steps=stop)
    torch.manual_seed(7)
    resumed = build_trainer(config, tmp_path / "broken", load_training_set(config, CPU))
    resumed.resume(tmp_path / "broken" / "checkpoints" / f"step-{stop:06d}")
    resumed.train()
    assert resumed.step == straight.step
    torch.testing.assert_close(weights(resumed), weights(straight), rtol=0, atol=0)
    for ours, theirs in zip(resumed.carries, straight.carries, strict=True):
        torch.testing.assert_close(tuple(ours.state), tuple(theirs.state), rtol=0, atol=0)


def test_weights_bound_to_a_size_are_refused(tiny: Config, mazes: dict[int, Path], tmp_path: Path) -> None:
    config = config_of(tiny, mazes, **{"model.mixer": "mlp", "loss.weights.jsrr": "0"})
    with pytest.raises(ConfigError, match="this model cannot read both"):
        build_trainer(config, tmp_path, load_training_set(config, CPU))


def test_hints_need_symbols(tiny: Config, mazes: dict[int, Path], tmp_path: Path) -> None:
    config = config_of(tiny, mazes, **{"data.hints": "1"})
    with pytest.raises(ConfigError, match=r"data.hints=1 .* declares no symbols"):
        build_trainer(config, tmp_path, load_training_set(config, CPU))


def test_a_run_on_two_sizes_evaluates_and_solves_a_third(
    mazes: dict[int, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    changes = {"model.hidden_size": "8", "model.num_heads": "1", "model.expansion": "1", "training.steps": "2"}
    words = [f"{key}={value}" for key, value in (LOCAL | changes | {"training.batch_size": "4"}).items()]
    assert main(["train", "sudoku-4x4", f"data={mazes[4]},{mazes[5]}", f"run={run}", *words]) == 0
    assert main(["evaluate", str(run), f"data={mazes[7]}", "steps=2"]) == 0
    assert (run / "evaluation" / "7-test-T2" / "results.json").exists()
    capsys.readouterr()
    output(["evaluate", str(run), "steps=2"], f"read on {mazes[4]}; the run was trained on {mazes[5]} as well")
    assert (run / "evaluation" / "4-test-T2" / "results.json").exists()
    refusal(["evaluate", str(run), f"data={mazes[4]},{mazes[7]}"], f"one set at a time; type data={mazes[4]}")
    assert main(["solve", str(run), "S.." + "..." + "..G", "steps=1"]) in (0, 1)
    assert "step 1: " in capsys.readouterr().out
