"""Ouro's stages: stage II moves nothing but the gate, an upcycled stack computes what its order says."""

from pathlib import Path

import pytest
import torch
from conftest import pairs, trainer_of
from evaluators import random_batch, shaken
from safetensors.torch import load_file

from reason.config.overrides import override
from reason.config.schema import Config
from reason.errors import ConfigError
from reason.extensions.looped.model import LoopedConfig, LoopedModel
from reason.models import Shape
from reason.presets import preset
from reason.rollout import unroll
from reason.training.checkpoint import checkpoints
from reason.training.loop import Trainer
from reason.training.state import restore

NARROW = pairs(
    "model.hidden_size=8 model.num_heads=2 training.batch_size=8 training.steps=3 training.log_every=1 "
    "training.checkpoint_every=2"
)


def trained(config: Config, run: Path) -> Trainer:
    trainer = trainer_of(config, run)
    trainer.train()
    return trainer


@pytest.fixture(scope="module")
def stage_1(addition: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Config, Path]:
    config = override(preset("ouro-small-stage-1").config(), NARROW | {"data.directory": str(addition)})
    run = tmp_path_factory.mktemp("runs") / "stage-1"
    trained(config, run)
    return config, run


def weights(run: Path) -> dict[str, torch.Tensor]:
    return load_file(checkpoints(run)[-1] / "weights.safetensors")


def test_stage_two_changes_nothing_but_the_gate(stage_1: tuple[Config, Path], addition: Path, tmp_path: Path) -> None:
    """Not even through weight decay, the optimizer's moments or the average of weights."""
    changes = {"data.directory": str(addition), "init_from": str(stage_1[1]), "optimizer.weight_decay": "0.5",
               "ema.decay": "0.5"}  # fmt: skip
    config = override(preset("ouro-small-stage-2").config(), NARROW | changes)
    trained(config, tmp_path / "stage-2")
    before, after = weights(stage_1[1]), weights(tmp_path / "stage-2")
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed == {"gate.out.weight", "gate.out.bias"}
    average = load_file(checkpoints(tmp_path / "stage-2")[-1] / "ema.safetensors")
    assert {name for name in average if not torch.equal(average[name], before[name])} == changed


def test_stage_two_resumes_without_the_run_it_came_from(
    stage_1: tuple[Config, Path], addition: Path, tmp_path: Path
) -> None:
    changes = {"data.directory": str(addition), "init_from": str(stage_1[1])}
    config = override(preset("ouro-small-stage-2").config(), NARROW | changes)
    whole, run = trained(config, tmp_path / "whole"), tmp_path / "stopped"
    trainer_of(config, run).train(max_steps=2)
    again = trainer_of(config.model_copy(update={"init_from": str(tmp_path / "nowhere")}), run)
    restore(again, checkpoints(run)[-1])
    again.train()
    for a, b in zip(whole.model.parameters(), again.model.parameters(), strict=True):
        assert torch.equal(a, b)
    assert [p.requires_grad for p in again.model.parameters()].count(True) == 2


def test_a_run_without_a_gate_gets_a_fresh_one(stage_1: tuple[Config, Path], addition: Path, tmp_path: Path) -> None:
    plain = override(
        stage_1[0],
        {"model.gate": "none", "loss.weights.exit": "0", "loss.weights.exit_entropy": "0", "loss.weights.lm": "1",
         "loss.schedules": "{}", "ema.decay": "0.5"},
    )  # fmt: skip
    trained(plain, tmp_path / "plain")
    config = override(preset("ouro-small-stage-2").config(), NARROW | {"data.directory": str(addition),
                      "init_from": str(tmp_path / "plain"), "optimizer.lr": "1e-30"})  # fmt: skip
    begun = trainer_of(config, tmp_path / "new").model.state_dict()
    average = load_file(checkpoints(tmp_path / "plain")[-1] / "ema.safetensors")
    assert all(torch.equal(begun[name], average[name]) for name in average)  # as evaluation reads it
    assert begun["gate.out.weight"].abs().sum() == begun["gate.out.bias"].abs().sum() == 0


SHAPE = Shape(seq_len=5, vocab_size=7)


def looped(layers: int, **changes: object) -> LoopedModel:
    config = LoopedConfig(hidden_size=8, num_heads=2, num_layers=layers, dropout=0.0, **changes)
    return shaken(LoopedModel(config, SHAPE, torch.float64).double())


@pytest.mark.parametrize("times", [2, 3])
def test_an_upcycled_stack_does_in_one_loop_what_the_old_one_did_in_several(times: int) -> None:
    old, new = looped(2, coda=1), looped(2 * times, coda=1)
    new.load_state_dict(new.begun_from(old.state_dict()))
    batch = random_batch(2, 5, 7)
    deep = list(unroll(new, batch, 2))
    shallow = list(unroll(old, batch, 2 * times))[times - 1 :: times]
    for said, expected in zip(deep, shallow, strict=True):
        torch.testing.assert_close(said.state.z, expected.state.z)
        torch.testing.assert_close(said.logits, expected.logits)


def test_an_upcycled_run_trains_on(stage_1: tuple[Config, Path], addition: Path, tmp_path: Path) -> None:
    changes = {"data.directory": str(addition), "init_from": str(stage_1[1])}
    config = override(preset("ouro-small-upcycled").config(), NARROW | changes)
    begun = trainer_of(config, tmp_path / "new").model.state_dict()
    old = weights(stage_1[1])
    for name, tensor in begun.items():
        assert torch.equal(tensor, old[name.replace("block.blocks.1", "block.blocks.0")])
    after = trained(config, tmp_path / "run").model.state_dict()
    assert not torch.equal(after["block.blocks.0.mlp.down.weight"], after["block.blocks.1.mlp.down.weight"])


@pytest.mark.parametrize(("changes", "text"), [
    ({"model.hidden_size": "16"}, r"\[8, 8\] there and \[16, 16\] here; take the sizes"),
    ({"model.coda": "1"}, "lacks the weight coda.blocks.0"),
    ({"model.norm": "simple"}, "which this model lacks"),
    ({"init_from": "nowhere"}, "no run at nowhere"),
])  # fmt: skip
def test_what_does_not_fit_is_refused(
    stage_1: tuple[Config, Path], tmp_path: Path, changes: dict[str, str], text: str
) -> None:
    config = override(stage_1[0], {"init_from": str(stage_1[1])} | changes)
    with pytest.raises(ConfigError, match=text):
        trainer_of(config, tmp_path / "run")
