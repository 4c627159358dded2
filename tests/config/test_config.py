"""Overrides and their errors: value, reason, fix."""

import json

import pytest
from conftest import pairs
from hypothesis import given, settings
from hypothesis import strategies as st

from reason.config.describe import describe_settings
from reason.config.overrides import as_typed, derive, differing, leaves, override, split_arguments, validated
from reason.config.schema import Config
from reason.errors import ConfigError
from reason.models import FAMILIES

READ = {
    "optimizer.lr": ("3e-4", 3e-4),
    "optimizer.betas": ("[0.8, 0.9]", (0.8, 0.9)),
    "data.augment": ("false", False),
    "ema.decay": ("none", None),
    "model.states": ("1", 1),
    "model.positions": ("none", "none"),
    "optimizer.schedule.warmup_steps": ("7", 7),
    "seed": ("5", 5),
}
NEEDED = {  # by settings that have no effect without it
    "rollout.loops.start": 'rollout.loops.random={"law":"uniform","max":4}',
    "ema.warmup": "ema.decay=0.9",
    "training.monitor.every": "training.monitor.puzzles=1",
    "loss.rows": "loss.weights.rh_unstable_x=1",
    "optimizer.muon_lr": "optimizer.kind=muon",
}
LOCAL, GROUPS = (f"model.mixer={mixer} model.positions=none model.puzzle_emb_len=0" for mixer in ("local", "groups"))


def test_values_are_read_as_their_setting_is_typed():
    found = leaves(override(Config(), {key: typed for key, (typed, _) in READ.items()}).model_dump())
    assert {key: found[key] for key in READ} == {key: value for key, (_, value) in READ.items()}
    assert Config().optimizer.lr == 1e-4  # nothing shared was changed


@pytest.mark.parametrize(("typed", "words"), [
    ("optimizer.lrr=1", "did you mean optimizer.lr=1?"),
    ("model.H_cycles=3", "did you mean model.h_cycles=3?"),
    ("optimizer.learning_rate=3", "did you mean optimizer.lr=3?"),
    ("optimizer.learning=3", "unknown setting optimizer.learning; see: python train.py --help optimizer"),
    ("nonsense.at.all=3", "unknown setting nonsense.at.all; sections are data, model"),
    ("optimizer=3", "optimizer is a section; type one of its keys"),
    ("optimizer.lr=fast", "optimizer.lr=fast: input should be a valid number"),
    ("model.mixer=conv", "a mixer is attention, mlp, local, groups"),
    ("training.precision=fp8", "'auto', 'fp32', 'bf16', 'fp16', 'amp', 'amp-bf16' or 'amp-fp16'"),
    ("device=tpu", "auto, cpu, mps, cuda"),
    pytest.param("optimizer.lr=" + '{"a":' * 4000 + "1" + "}" * 4000, 'optimizer.lr={"a":', id="deep"),
    ("loss.weights.q_continue=0.5", "type rollout.halting=q-learning"),
    ("loss.weights.lm=nan", "finite number"),
    ("rollout.halting=q-learning", "type loss.weights.q_continue=1"),
    ("rollout.accum_steps=2", "accum_steps=2 has no effect under carry=persistent"),
    ("rollout.loops.count=2", "type model.gradient=all-cycles"),
    ("model.hidden_size=10 model.num_heads=4", "10 does not divide into 4 heads"),
    ("model.mixer=mlp", "model.positions=none"),
    ("model.states=1 model.separate_networks=true", "model.separate_networks=false"),
    ("model.noise=additive model.integrator=heun", "type model.noise=none"),
    ("model.equation=averaged model.states=1", "model.equation=impulse"),
    ("model.mixer=local", "type model.positions=none"),
    (f"{LOCAL} model.puzzle_emb_len=4", "type model.puzzle_emb_len=0"),
    (f"{LOCAL} model.open_only=true model.noise=additive", "model.open_only=false"),
    ("model.positions=rotary-2d model.hidden_size=12 model.num_heads=2", "divisible by 4"),
    (f"{GROUPS} model.open_only=true", "type model.symbols=true"),
    (f"{GROUPS} model.symbols=true model.open_only=true model.noise=additive", "type model.noise=none"),
    (f"{GROUPS} model.h_cycles=2 model.l_cycles=2 model.gradient=7", "exceeds the 6 calls of a step"),
    ('balance.targets={"lm":2}', "balance.kind=alg-grad-norm"),
    ('balance.kind=alg-grad-norm balance.targets={"rep_x":2}', "type loss.weights.rep_x=1"),
    ('loss.schedules={"lmm":{}}', "needs the loss term lmm, which this config lacks: type loss.schedules={}"),
    ('loss.schedules={"rep_x":{"warmup_steps":3}}', "type loss.weights.rep_x=1"),
    ('loss.schedules={"lm":{"kind":"exponential"}}', "min_ratio=0.1"),
    ('loss.schedules={"lm":{"points":[[0.5,1],[0.5,0]]}}', "must rise in position"),
    ('loss.weights.q_halt=0 rollout.halting=none loss.schedules={"lm":{"points":[[0.5,0]]}}', "type loss.schedules={}"),
    ('loss.weights.q_halt=0 rollout.halting=none '
     'loss.schedules={"lm":{"kind":"cosine","warmup_steps":9,"points":[[0.001,0]]}}', "type loss.schedules={}"),
    ('balance.kind=alg-grad-norm balance.targets={"lm":-1}', "balance.targets.lm=-1: input should be greater than 0"),
    ("evaluation.studies=policies,policies=0.1", "policies twice"),
    ("loss.schedules=soon", "loss.schedules=soon: input should be a valid dictionary"),
])  # fmt: skip
def test_errors_say_value_reason_and_mend(typed, words):
    with pytest.raises(ConfigError) as error:
        override(Config(), pairs(typed))
    assert words in str(error.value)


@settings(max_examples=30)
@given(key=st.text(alphabet="abcxyz._=", max_size=20), value=st.text(max_size=10))
def test_no_override_escapes_as_another_error(key, value):
    with pytest.raises(ConfigError, match=r"\w"):
        override(Config(), {f"z{key}": value})


@given(key=st.sampled_from(sorted(leaves(Config().model_dump()))), value=st.text(max_size=12) | st.floats().map(str))
def test_no_value_escapes_as_another_error(key, value):
    try:
        config = override(Config(), {key: value})
    except ConfigError:
        return
    assert validated(json.loads(config.model_dump_json())) == config


def test_shortcuts_are_written_out_once_and_every_setting_explains_itself():
    assert split_arguments(["data=x"], {"data": "data.directory"}) == ([], {"data.directory": "x"})
    with pytest.raises(ConfigError, match="given twice: x and y"):
        split_arguments(["data=x", "data.directory=y"], {"data": "data.directory"})
    with pytest.raises(ConfigError, match=r"unknown setting dat; did you mean data=x\?"):
        split_arguments(["dat=x"], {"data": "data.directory"})
    rows = describe_settings()
    families = {f"model.{key}" for family in FAMILIES.values() for key in family.config().model_dump()}
    assert [row.key for row in rows if not row.text] == []
    assert {row.key for row in rows} == (set(leaves(Config().model_dump())) | families) - {"name", "model.kind"}


def test_differences_of_several_configs():
    first = {"seed": 0, "model": {"kind": "a", "width": 1}, "loss": {"weights": {"lm": 1.0}}}
    second = {"seed": 0, "model": {"kind": "b", "height": 2}, "loss": {"weights": {"lm": 1.0, "q": None}}}
    assert differing([first, second, first]) == {
        "model.kind": ["a", "b", "a"],
        "model.width": [1, ..., 1],
        "loss.weights.q": [..., None, ...],
        "model.height": [..., 2, ...],
    }
    assert differing([first, first]) == differing([second]) == {}


@given(lr=st.floats(1e-12, 1), weight=st.floats(0, 1e9), steps=st.integers(1, 10**9), augment=st.booleans())
def test_what_is_printed_is_exact(lr, weight, steps, augment):
    changes = {"optimizer.lr": lr, "loss.weights.lm": weight, "training.steps": steps, "data.augment": augment}
    changes |= {"ema.decay": None, "optimizer.betas": (0.5, 0.25)}
    assert override(Config(), split_arguments(as_typed(changes))[1]) == derive(Config(), changes)


@pytest.mark.parametrize(("key", "on"), NEEDED.items())
def test_a_setting_without_effect_names_the_setting_that_it_needs(key, on):
    off = override(Config(), pairs("ema.decay=none training.monitor.puzzles=0")).idle
    assert off[key].split(" and ")[0].partition("=")[0] == on.partition("=")[0]
    idle = override(Config(), pairs(f"model.gradient=all-cycles {on}")).idle
    assert key not in idle
    assert idle.get("rollout.loops.count") == (on if "loops" in on else None)  # T is random from the first step on


@pytest.mark.parametrize(("changes", "words"), [
    ({"model.h_cyces": 9}, "unknown setting model.h_cyces; did you mean model.h_cycles?"),
    ({"model": {"h_cycles": 9}}, "model is a section"),
    ({"model.h_cycles": "9"}, "model.h_cycles=9: input should be a valid integer"),
    ({"model.h_cycles": True}, "model.h_cycles=True: input should be a valid integer"),
    ({"balance.targets": {"lm": "much"}}, "balance.targets.lm=much"),
    ({"model.kind": "recursiv"}, "model: a model is recursive"),
])  # fmt: skip
def test_a_wrong_change_is_refused(changes, words):
    with pytest.raises(ConfigError) as error:
        derive(Config(), changes)
    assert words in str(error.value)
