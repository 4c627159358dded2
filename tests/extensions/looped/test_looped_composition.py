"""Each looped model trains one tiny step with each term, or says why not; so do other models with the terms of here."""

from pathlib import Path

import pytest
import test_composition as of

from reason.config.overrides import override
from reason.config.schema import Config
from reason.errors import ConfigError
from reason.presets import preset

MODELS = {
    "local": {"model.mixer": "local", "model.positions": "none", "rollout.loops.supervision": "per-loop"},
    "groups of symbols": {"model.mixer": "groups", "model.symbols": "true", "model.positions": "none"},
    "terminal": {"rollout.loops.supervision": "terminal"},
    "per loop": {"rollout.loops.supervision": "per-loop", "model.norm_placement": "pre"},
}
TERMS = {
    "jsrr": {"loss.weights.jsrr": "0.1"},
    "l2": {"loss.weights.l2": "1"},
    "norm_penalty": {"loss.weights.norm_penalty": "1"},
}
EXITS = {
    name: {f"loss.weights.{name}": "1", "model.gate": "position"} for name in ("exit", "exit_entropy", "exit_gate")
}
REFUSED = {
    "q_halt": "needs a halting head",
    "q_continue": "needs a value of going on",
}
SIZES = {"model.hidden_size": "16", "model.num_heads": "2", "training.precision": "fp32"}
SIZES |= {"rollout.loops.random": "{}", "rollout.loops.count": "3"}


@pytest.fixture
def looped(model: str, tiny: Config) -> Config:
    config = override(preset("sudoku-6x6-looped").config(), SIZES)
    return override(config.model_copy(update={"data": tiny.data}), MODELS[model])


def refused(config: Config) -> dict[str, str]:
    if config.rollout.loops.supervision == "terminal":
        return REFUSED | dict.fromkeys(EXITS, "supervision=per-loop")
    return REFUSED | (dict.fromkeys(EXITS, "model.gate=none") if config.model.symbols else {})


@pytest.mark.parametrize("model", MODELS)
def test_each_looped_model_with_all_its_terms(model: str, looped: Config, tmp_path: Path) -> None:
    every = of.TERMS | TERMS | EXITS
    for term, reason in refused(looped).items():
        with pytest.raises(ConfigError, match=reason):
            override(looped, every[term])
    allowed = {term: every[term] for term in every if term not in refused(looped)}
    of.trains(looped, allowed, {}, tmp_path / "fixed")
    del allowed["jsrr"]  # its λ is taken from LM's weight, which a balancer moves
    of.trains(looped, allowed, of.BALANCED, tmp_path / "balanced")


@pytest.mark.parametrize("model", ["trm single z", "cmm nsde", "cmm node, rk4", "groups of symbols"])
def test_other_models_with_these_terms(model: str, tiny: Config, tmp_path: Path) -> None:
    base = override(tiny, of.CYCLES | of.MODELS[model])
    of.trains(base, TERMS, {}, tmp_path)
    with pytest.raises(ConfigError, match=r"needs an exit gate, .*: type loss\.weights\.exit=0"):
        override(base, {"loss.weights.exit": "1"})
