"""Everything composes, or the config says why not (test_config.py): each model trains one step with each term."""

import math

import pytest
from conftest import trainer_of

from reason.config.overrides import override
from reason.losses import TERMS as LOSS_TERMS

MODELS = {
    "trm mlp": {},
    "trm attention": {"model.mixer": "attention", "model.positions": "rotary", "model.puzzle_emb_len": "2"},
    "trm single z": {"model.states": "1"},
    "hrm": {"model.separate_networks": "true", "model.gradient": "last-call", "model.h_cycles": "2"},
    "cmm nsde": {"model.noise": "multiplicative", "model.initial": "input", "model.dt": "0.5"},
    "trm, three steps a pass": {"model.gradient": "all-cycles", "rollout.loops.count": "3"}
    | {"rollout.loops.supervision": "per-loop"},
    "cmm node, rk4": {"model.integrator": "rk4", "model.equation": "averaged", "model.gradient": "all-cycles"},
    "groups": {"model.mixer": "groups", "model.q_from": "mean", "model.gradient": "2"},
    "groups of symbols": {"model.mixer": "groups", "model.symbols": "true", "model.q_from": "mean"},
    "local": {"model.mixer": "local", "model.q_from": "mean", "model.states": "1", "model.initial": "random"},
}
TERMS = {  # of the core; those of extensions have tests of their own
    name: {f"loss.weights.{name}": "1"}
    for name, term in LOSS_TERMS.items()
    if not term.function.__module__.startswith("reason.extensions")
}
TERMS["q_continue"] |= {"rollout.halting": "q-learning"}
BALANCED = {"balance.kind": "alg-grad-norm", "loss.rows": "2"}
CYCLES = {"model.h_cycles": "1", "model.l_cycles": "2"}


@pytest.mark.parametrize("balance", [{}, BALANCED], ids=["fixed", "balanced"])
@pytest.mark.parametrize("model", MODELS)
def test_each_model_with_all_its_terms(model, balance, tiny, tmp_path):
    trains(override(tiny, CYCLES | MODELS[model]), TERMS, balance, tmp_path)


def trains(base, terms, balance, run):
    """One optimizer step with all the terms."""
    asked = {key: value for changes in terms.values() for key, value in changes.items()}
    trainer = trainer_of(override(base, {"training.batch_size": "3"} | asked | balance), run)
    assert math.isfinite(trainer.optimizer_step().item())
    losses = trainer.meters.read()
    assert [term for term in terms if not math.isfinite(losses[f"loss/{term}"])] == []
