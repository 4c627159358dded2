"""Everything composes, or refuses: each model trains one tiny step with each term, or the config says why not."""

import math
from pathlib import Path

import pytest
from conftest import trainer_of

from reason.config.overrides import override
from reason.config.schema import Config
from reason.errors import ConfigError
from reason.losses import TERMS as LOSS_TERMS
from reason.presets import preset

LOOPED = {"preset": "sudoku-6x6-looped"}
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
    "looped, local": LOOPED
    | {"model.mixer": "local", "model.positions": "none", "rollout.loops.supervision": "per-loop"},
    "looped, groups of symbols": LOOPED
    | {"model.mixer": "groups", "model.symbols": "true", "model.positions": "none"}
    | {"rollout.loops.supervision": "terminal"},
    "looped, terminal": LOOPED | {"rollout.loops.supervision": "terminal"},
    "looped, per loop": LOOPED | {"rollout.loops.supervision": "per-loop", "model.norm_placement": "pre"},
}
TERMS = {name: {f"loss.weights.{name}": "1"} for name in LOSS_TERMS}
TERMS["jsrr"] |= {"loss.jsrr.convex": "false"}
TERMS["q_continue"] |= {"rollout.halting": "q-learning"}
EXITS = ("exit", "exit_entropy", "exit_gate")
for exits in EXITS:
    TERMS[exits] |= {"model.gate": "puzzle"}
REFUSED = {(single, "rep_z_l"): "needs a low state" for single in ("trm single z", "local")}
for model in MODELS:
    if "looped" not in model and model != "trm, three steps a pass":
        REFUSED |= {(model, term): "several loops of one backward pass" for term in EXITS[:2]}
for looped in ("looped, terminal", "looped, groups of symbols"):
    REFUSED |= {(looped, term): "supervision=per-loop" for term in EXITS}
for looped in (name for name in MODELS if name.startswith("looped")):
    REFUSED[looped, "q_halt"], REFUSED[looped, "q_continue"] = "needs a halting head", "needs a value of going on"
    REFUSED[looped, "rep_z_l"] = "needs a low state"
BALANCED = {"balance.kind": "alg-grad-norm", "loss.trace.scope": "token", "loss.trace.rows": "2"}


CYCLES = {"model.h_cycles": "1", "model.l_cycles": "2"}
SIZES = {"model.hidden_size": "16", "model.num_heads": "2", "training.precision": "fp32"}
SIZES |= {"rollout.loops.distribution": "fixed", "rollout.loops.count": "3"}


@pytest.fixture
def base(model: str, tiny: Config) -> Config:
    """The model in tiny's sizes, on its set."""
    changes = dict(MODELS[model])
    if changes.pop("preset", None):
        config = override(preset(LOOPED["preset"]).config(), SIZES)
        return override(config.model_copy(update={"data": tiny.data}), changes)
    return override(tiny, CYCLES | changes)


@pytest.mark.parametrize("model", MODELS)
def test_terms_that_a_model_cannot_have_are_refused(model: str, base: Config) -> None:
    for term, changes in TERMS.items():
        if reason := REFUSED.get((model, term)):
            with pytest.raises(ConfigError, match=reason):
                override(base, changes)


@pytest.mark.parametrize("balance", [{}, BALANCED], ids=["fixed", "balanced"])
@pytest.mark.parametrize("model", MODELS)
def test_each_model_with_all_its_terms(model: str, balance: dict[str, str], base: Config, tmp_path: Path) -> None:
    terms = [term for term in TERMS if (model, term) not in REFUSED]
    asked = {key: value for term in terms for key, value in TERMS[term].items()}
    trainer = trainer_of(override(base, {"training.batch_size": "3"} | asked | balance), tmp_path)
    assert math.isfinite(trainer.optimizer_step().item())
    losses = trainer.meters.read()
    assert [term for term in terms if not math.isfinite(losses[f"loss/{term}"])] == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model.noise": "additive", "model.integrator": "heun"}, r"type model\.noise=none"),
        ({"model.equation": "averaged", "model.states": "1"}, r"model\.equation=impulse"),
    ],
)
def test_what_does_not_compose_says_so_at_the_start(
    changes: dict[str, str], words: str, tiny: Config, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=words):
        trainer_of(override(tiny, changes), tmp_path)
