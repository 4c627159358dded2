"""Deriving one config from another: typed, validated as a whole, and what a user would type."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reason.config.overrides import as_typed, derive, leaves, override, split_arguments
from reason.config.schema import Config
from reason.errors import ConfigError
from reason.presets import TABLES

PLAIN = leaves(Config().model_dump())


def test_only_the_named_settings_change() -> None:
    base = Config()
    derived = derive(base, {"model.h_cycles": 2, "ema.decay": None, "balance.kind": "alg-grad-norm"})
    changed = {key for key, value in leaves(derived.model_dump()).items() if value != PLAIN[key]}
    assert changed == {"model.h_cycles", "ema.decay", "balance.kind"}
    assert base == Config()


@pytest.mark.parametrize(("changes", "words"), [
    ({"model.h_cyces": 9}, "unknown setting model.h_cyces; did you mean model.h_cycles?"),
    ({"loss.weights.rep_zz": 1}, "did you mean loss.weights.rep_z"),
    ({"model": {"h_cycles": 9}}, "model is a section"),
    ({"model.h_cycles": "9"}, "model.h_cycles=9: input should be a valid integer"),
    ({"model.h_cycles": True}, "model.h_cycles=True: input should be a valid integer"),
    ({"model.h_cycles": 0}, "model.h_cycles=0: input should be greater than or equal to 1"),
    ({"loss.weights.q_continue": 0.5}, "type rollout.halting=q-learning"),
    ({"balance.targets": {"lm": "much"}}, "balance.targets.lm=much"),
    ({"model.kind": "recursiv"}, "model.kind=recursiv: a model is recursive"),
])  # fmt: skip
def test_a_wrong_change_is_refused(changes: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError) as error:
        derive(Config(), changes)
    assert words in str(error.value)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: f"{table.name}-{table.rows[0].label}")
def test_what_a_row_prints_can_be_typed(table) -> None:
    for row in table.rows:
        typed = override(table.base.config, split_arguments(as_typed(row.changes))[1])
        assert typed == derive(table.base.config, row.changes)


@given(lr=st.floats(1e-12, 1), weight=st.floats(0, 1e9), steps=st.integers(1, 10**9), augment=st.booleans())
def test_what_is_printed_is_exact(lr: float, weight: float, steps: int, augment: bool) -> None:
    changes = {
        "optimizer.lr": lr,
        "loss.weights.lm": weight,
        "training.steps": steps,
        "data.augment": augment,
        "ema.decay": None,
        "optimizer.betas": (0.5, 0.25),
    }
    assert override(Config(), split_arguments(as_typed(changes))[1]) == derive(Config(), changes)
