"""Ouro's stages: stage II moves nothing but the gate, upcycled stacks; what is refused."""

import pytest
import torch
from conftest import pairs, trainer_of
from safetensors.torch import load_file
from test_model import batch, make

from reason.config.overrides import override
from reason.errors import ConfigError
from reason.presets import preset
from reason.rollout import unroll
from reason.training.checkpoint import checkpoints

NARROW = pairs(
    "model.hidden_size=8 model.num_heads=2 training.batch_size=8 training.steps=3 training.log_every=1 "
    "training.checkpoint_every=2"
)


def test_stage_two_changes_nothing_but_the_gate(addition, tmp_path):
    second = {"init_from": str(tmp_path / "1"), "optimizer.weight_decay": "0.5", "ema.decay": "0.5"}
    for stage, changes in (("1", {}), ("2", second)):
        changes = NARROW | {"data.directory": str(addition)} | changes
        trainer_of(override(preset(f"ouro-small-stage-{stage}").config(), changes), tmp_path / stage).train()
    before, after, average = (
        load_file(checkpoints(tmp_path / stage)[-1] / f"{name}.safetensors")
        for stage, name in (("1", "weights"), ("2", "weights"), ("2", "ema"))
    )
    for end in (after, average):
        changed = {name for name in end if not torch.equal(before[name], end[name])}
        assert changed == {"gate.out.weight", "gate.out.bias"}


def test_a_run_without_a_gate_gets_a_fresh_one(addition, tmp_path):
    small = NARROW | {"data.directory": str(addition)}
    ungated = "model.gate=none loss.weights.exit=0 loss.weights.exit_entropy=0 loss.weights.lm=1 loss.schedules={}"
    plain = small | pairs(f"{ungated} ema.decay=0.5")
    trainer_of(override(preset("ouro-small-stage-1").config(), plain), tmp_path / "plain").train()
    config = override(preset("ouro-small-stage-2").config(), small | {"init_from": str(tmp_path / "plain")})
    begun = trainer_of(config, tmp_path / "new").model.state_dict()
    average = load_file(checkpoints(tmp_path / "plain")[-1] / "ema.safetensors")
    assert all(torch.equal(begun[name], average[name]) for name in average)  # as evaluation reads it
    assert begun["gate.out.weight"].abs().sum() == begun["gate.out.bias"].abs().sum() == 0


@pytest.mark.parametrize("times", [2, 3])
def test_an_upcycled_stack_does_in_one_loop_what_the_old_one_did_in_several(times):
    """A gate, which the old one lacks, keeps its initial weights."""
    old, new = make(num_layers=2, coda=1), make(num_layers=2 * times, coda=1, gate="position")
    gate = new.gate.out.weight.clone()
    new.load_state_dict(new.begun_from(old.state_dict()))
    assert torch.equal(new.gate.out.weight, gate)
    puzzles = batch()
    deep = list(unroll(new, puzzles, 2))
    shallow = list(unroll(old, puzzles, 2 * times))[times - 1 :: times]
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
