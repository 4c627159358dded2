"""The tests of the core with this family: composition, structure, mixed precision, tables."""

import pytest
import test_composition as of
import test_mixed_precision as mixed
import test_structured as structured
from test_tables import said_by_their_configs

from reason.config.overrides import override
from reason.errors import ConfigError
from reason.extensions.looped.model import LoopedConfig
from reason.presets import TABLES, preset

MODELS = {
    "local": {"model.mixer": "local", "model.positions": "none", "rollout.loops.supervision": "per-loop"},
    "groups of symbols": {"model.mixer": "groups", "model.symbols": "true", "model.positions": "none"},
    "terminal": {"rollout.loops.supervision": "terminal"},
    "per loop": {"rollout.loops.supervision": "per-loop", "model.norm_placement": "pre"},
}
TERMS = {name: {f"loss.weights.{name}": "0.1"} for name in ("jsrr", "l2", "norm_penalty")}
GATED = ("exit", "exit_entropy", "exit_gate")
EXITS = {name: {f"loss.weights.{name}": "1", "model.gate": "position"} for name in GATED}
NO_EXITS = {
    "groups of symbols": dict.fromkeys(EXITS, "model.gate=none"),
    "terminal": dict.fromkeys(EXITS, "supervision=per-loop"),
}
REFUSED = {"q_halt": "needs a halting head", "q_continue": "needs a continue value"}
SIZES = {"model.hidden_size": "16", "model.num_heads": "2", "training.precision": "fp32"}
SIZES |= {"rollout.loops.random": "{}", "rollout.loops.count": "3"}


@pytest.mark.parametrize("model", MODELS)
def test_each_looped_model_with_all_its_terms(model, tiny, tmp_path):
    config = override(preset("sudoku-6x6-looped").config(), SIZES)
    looped = override(config.model_copy(update={"data": tiny.data}), MODELS[model])
    refused = REFUSED | NO_EXITS.get(model, {})
    every = of.TERMS | TERMS | EXITS
    for term, reason in refused.items():
        with pytest.raises(ConfigError, match=reason):
            override(looped, every[term])
    allowed = {term: every[term] for term in every if term not in refused}
    of.trains(looped, allowed, {}, tmp_path / "fixed")
    del allowed["jsrr"]  # its λ is taken from LM's weight, which a balancer moves
    of.trains(looped, allowed, of.BALANCED, tmp_path / "balanced")


@pytest.mark.parametrize("model", ["trm single z", "cmm nsde", "cmm node, rk4", "groups of symbols"])
def test_other_models_with_these_terms(model, tiny, tmp_path):
    base = override(tiny, of.CYCLES | of.MODELS[model])
    of.trains(base, TERMS, {}, tmp_path)
    with pytest.raises(ConfigError, match=r"needs an exit gate, .*: type loss\.weights\.exit=0"):
        override(base, {"loss.weights.exit": "1"})


LOOPED = {"causal": False, "dropout": 0, "between": ("injection",), "init_std": 0.3}
structured.FAMILIES["looped"] = lambda settings: LoopedConfig(**LOOPED | settings)
mixed.MODELS["looped"] = LoopedConfig(hidden_size=16, num_heads=2, prelude=1, coda=1, dropout=0)
MIXED = [structured.GROUPS, structured.SYMBOLS, structured.LOCAL, structured.ROTARY]
OF_THE_CORE = [
    *((structured.test_moving_rows_within_bands_moves_the_logits, settings) for settings in MIXED[:2]),
    (structured.test_renaming_symbols_renames_the_logits,),
    (structured.test_a_maze_inside_a_larger_walled_one_is_the_same_maze, {"neighbourhood": "von-neumann"}),
    *((structured.test_one_module_serves_several_sizes, settings) for settings in MIXED),
    (mixed.test_products_are_halved_and_states_are_not,),
    (mixed.test_jacobians_see_the_float32_map,),
]


@pytest.mark.parametrize("test", OF_THE_CORE, ids=lambda test: test[0].__name__)
def test_what_holds_for_the_core_holds_for_it(test):
    function, *settings = test
    function(*settings, "looped")


PRINTED = {
    r"JSRR with λ = ([\d.]+)|^λ = ([\d.]+)": "loss.weights.jsrr",
    r"norm penalty ([\d.]+)": "loss.weights.norm_penalty",
    r"with T = (\d+)": "rollout.loops.count",
    r"one layer of D (\d+)": "model.hidden_size",
}
WORDS = {
    r"^(pre|post)\b(-sandwich)?": ("model.norm_placement", "{}{}"),
    r"(raw) readout": ("model.readout", "raw"),
    r"loss at every loop": ("rollout.loops.supervision", "per-loop"),
    r"(log-normal|poisson|uniform) set": ("rollout.loops.random.law", "{}"),
    r"L2 baseline": ("loss.weights.l2", 1),
}


def test_what_a_row_prints_is_what_its_config_says():
    own = [table for table in TABLES if table.name.startswith(("stars", "blindspot", "ouro"))]
    assert len(own) == 28
    said_by_their_configs(own, PRINTED, WORDS)
