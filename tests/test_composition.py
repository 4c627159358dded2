"""Everything composes, or refuses: each model trains one tiny step with each term, or the config says why not."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from reason.assemble import build_trainer, load_training_set
from reason.config import Config, override
from reason.errors import ConfigError
from reason.losses import LossWeights

MODELS = {
    "trm mlp": {},
    "trm attention": {"model.mixer": "attention", "model.positions": "rotary", "model.prefix": "2"},
    "trm single z": {"model.states": "1"},
    "hrm": {"model.separate_networks": "true", "model.gradient": "last-call", "model.h_cycles": "2"},
    "cmm nsde": {"model.noise": "multiplicative", "model.initial": "input", "model.dt": "0.5"},
    "cmm node, rk4": {"model.integrator": "rk4", "model.equation": "averaged", "model.gradient": "all-cycles"},
}
TERMS = {name: {f"loss.weights.{name}": "1"} for name in LossWeights.model_fields}
TERMS["q_continue"] |= {"rollout.halting": "q-learning"}
TERMS |= {
    "rh_stable_z, exact, token": TERMS["rh_stable_z"]
    | {"loss.trace.method": "exact", "loss.trace.scope": "token", "model.hidden_size": "4"},
    "everything, balanced": {f"loss.weights.{name}": "1" for name in LossWeights.model_fields if name != "rep_z_l"}
    | TERMS["q_continue"]
    | {"balance.kind": "alg-grad-norm"},
}
REFUSED = {("trm single z", "rep_z_l"): "needs a low state"}


@pytest.mark.parametrize("term", TERMS)
@pytest.mark.parametrize("model", MODELS)
def test_each_model_with_each_term(model: str, term: str, tiny: Config, tmp_path: Path) -> None:
    changes = {"model.h_cycles": "1", "model.l_cycles": "2"} | MODELS[model] | TERMS[term]
    reason = REFUSED.get((model, term))
    if reason is not None:
        with pytest.raises(ConfigError, match=reason):
            override(tiny, changes)
        return
    config = override(tiny, {"training.batch_size": "3"} | changes)
    trainer = build_trainer(config, tmp_path, load_training_set(config, torch.device("cpu")))
    assert math.isfinite(trainer.optimizer_step().item())
    losses = trainer.meters.read()
    assert [name for name in trainer.config.loss.present if not math.isfinite(losses[f"loss/{name}"])] == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model.noise": "additive", "model.integrator": "heun"}, r"type model\.noise=none"),
        ({"model.equation": "averaged", "model.states": "1"}, r"model\.equation=impulse"),
        ({"model.integrator": "adaptive"}, "is for evaluation"),
        ({"loss.weights.rh_stable_z": "1", "loss.trace.method": "exact", "model.hidden_size": "512"}, "8192 products"),
    ],
)
def test_what_does_not_compose_says_so_at_the_start(
    changes: dict[str, str], words: str, tiny: Config, tmp_path: Path
) -> None:
    def start() -> None:
        config = override(tiny, changes)
        build_trainer(config, tmp_path, load_training_set(config, torch.device("cpu")))

    with pytest.raises(ConfigError, match=words):
        start()


def test_a_model_without_balance_weights_is_refused(
    tiny: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reason.models.recursive.RecursiveModel.balance_weights", lambda self: [])
    config = override(tiny, {"balance.kind": "alg-grad-norm"})
    with pytest.raises(ConfigError, match=r"type balance\.kind=fixed"):
        build_trainer(config, tmp_path, load_training_set(config, torch.device("cpu")))
