"""Ouro's stages: stage II moves nothing but the gate, upcycled stacks; an evaluation; what is refused."""

import pytest
import torch
from conftest import pairs, trainer_of
from evaluators import random_batch, shaken
from safetensors.torch import load_file

from reason.config.overrides import override
from reason.errors import ConfigError
from reason.extensions.looped.model import LoopedConfig, LoopedModel
from reason.models import Shape
from reason.presets import preset
from reason.rollout import unroll
from reason.training.checkpoint import checkpoints

NARROW = pairs(
    "model.hidden_size=8 model.num_heads=2 training.batch_size=8 training.steps=3 training.log_every=1 "
    "training.checkpoint_every=2"
)


def trained(config, run):
    trainer = trainer_of(config, run)
    trainer.train()
    return trainer


@pytest.fixture(scope="module")
def stage_1(addition, tmp_path_factory):
    config = override(preset("ouro-small-stage-1").config(), NARROW | {"data.directory": str(addition)})
    run = tmp_path_factory.mktemp("runs") / "stage-1"
    trained(config, run)
    return config, run


def weights(run):
    return load_file(checkpoints(run)[-1] / "weights.safetensors")


def test_stage_two_changes_nothing_but_the_gate(stage_1, addition, tmp_path):
    changes = {"data.directory": str(addition), "init_from": str(stage_1[1]), "optimizer.weight_decay": "0.5",
               "ema.decay": "0.5"}  # fmt: skip
    config = override(preset("ouro-small-stage-2").config(), NARROW | changes)
    trained(config, tmp_path / "stage-2")
    before, after = weights(stage_1[1]), weights(tmp_path / "stage-2")
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed == {"gate.out.weight", "gate.out.bias"}
    average = load_file(checkpoints(tmp_path / "stage-2")[-1] / "ema.safetensors")
    assert {name for name in average if not torch.equal(average[name], before[name])} == changed


def test_a_run_without_a_gate_gets_a_fresh_one(stage_1, addition, tmp_path):
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


def looped(layers, **changes):
    config = LoopedConfig(hidden_size=8, num_heads=2, num_layers=layers, dropout=0.0, **changes)
    return shaken(LoopedModel(config, SHAPE, torch.float64).double())


@pytest.mark.parametrize("times", [2, 3])
def test_an_upcycled_stack_does_in_one_loop_what_the_old_one_did_in_several(times):
    old, new = looped(2, coda=1), looped(2 * times, coda=1)
    new.load_state_dict(new.begun_from(old.state_dict()))
    batch = random_batch(2, 5, 7)
    deep = list(unroll(new, batch, 2))
    shallow = list(unroll(old, batch, 2 * times))[times - 1 :: times]
    for said, expected in zip(deep, shallow, strict=True):
        torch.testing.assert_close(said.state.z, expected.state.z)
        torch.testing.assert_close(said.logits, expected.logits)


REFUSED = {
    "no gate": ("blindspot-small-per-loop-norm", "loss.weights.exit_gate=1", "type model.gate=position"),
    "a family without gates": ("sudoku-4x4", "loss.weights.exit_gate=1", "an exit gate, .* type loss.weights.exit_gat"),
    "stage II from nothing": ("blindspot-small-exit-weighted", "model.only=gate", "type init_from=RUN"),
    "stage II without its loss": ("blindspot-small-per-loop-norm", "init_from=x model.only=gate",
                                  "loss.weights.exit_gate=1"),
    "caches of cells that see all": ("sudoku-4x4", "evaluation.studies=caches", "needs a causal model with keys"),
    "cells after a cell": ("stars-small", "model.positions=rotary", "type model.causal=false"),
    "never final": ("blindspot-small-final-only", "model.readout=6", "type model.readout=4"),
    "final in which step": ("blindspot-small-final-only", "rollout.supervision_steps=2 rollout.accum_steps=2 "
                            "rollout.carry=same-batch", "type rollout.supervision_steps=1"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused(name):
    chosen, typed, text = REFUSED[name]
    with pytest.raises(ConfigError, match=text):
        override(preset(chosen).config(), pairs(typed))
