"""The presets of the papers' tables: their number, claims and sizes, and what their rows change."""

import re
from collections import Counter

import pytest
from conftest import output

from reason.config.overrides import as_typed, derive, leaves, override, split_arguments
from reason.presets import PRESETS, TABLES, preset

CLAIMED = {  # as CMM prints them: % exact
    3: [69.6, 81.8, 56.8],
    4: [58.9, 63.8, 68.9, 68.7, 64.6, 70.5, 75.3, 76.4, 78.3, 77.1, 64.2, 77.9, 80.3, 84.1, 80.5, 84.9],
    5: [79.2, 74.6, 78.8, 81.8, 81.3, 84.1],
    6: [88.0, 89.9, 79.4, 90.1, 89.9, 90.5, 90.2, 90.5, 89.9, 89.9, 88.1, 75.2, 91.5, 91.6],
    7: [87.4, 91.7, 91.1, 93.7, 92.7],
    8: [80.2, 89.8, 91.7],
    9: [20.3, 23.8, 31.4, 63.4, 71.4, 74.4, 34.8, 70.9, 61.0, 61.5, 85.0, 84.7],
    10: [77.8, 81.8, 85.0, 86.1, 85.4],
    11: [82.2],
}
PRINTED = {  # how the papers name a number, and the setting that it is
    r"\bB=(\d+)": "training.batch_size",
    r"\bD=(\d+)": "model.hidden_size",
    r"\bN_H=(\d+)": "model.h_cycles",
    r"\bN_L=(\d+)": "model.l_cycles",
    r"\bN_super=(\d+)": "rollout.supervision_steps",
    r"\bN_accum=(\d+)": "rollout.accum_steps",
    r"\bN_grad=(\d+)": "rollout.grad_steps",
    r"learning rate ([\de-]+)": "optimizer.lr",
    r"epsilon ([\de-]+)": "optimizer.eps",
    r"weight decay (\d+)": "optimizer.weight_decay",
}
WORDS = {  # and how they name a choice
    r"\btanh": ("model.activation", "tanh"),
    r"StableMax(\d?)": ("loss.likelihood", "stablemax{}"),
    r"Attention": ("model.mixer", "attention"),
    r"\bNODE\b|^TRM": ("model.noise", "none"),
    r"NSDE": ("model.noise", "additive"),
    r"AlgGradNorm": ("balance.kind", "alg-grad-norm"),
    r"identical transformer layers": ("model.repeats", 2),
    r"all states of the H-module": ("model.gradient", "all-cycles"),
    r"gradient checkpointing": ("model.gradient_checkpointing", True),
    r"without equilibrium in x": ("loss.weights.equil_x", 0),
    r"without repulsion for x": ("loss.weights.rep_x", 0),
}


def test_every_row_of_tables_1_to_11_is_a_preset_with_what_the_paper_prints():
    printed = {f"cmm-{table}-{n}": str(claim) for table, row in CLAIMED.items() for n, claim in enumerate(row, 1)}
    printed |= {"cmm-1-hrm": "45.9", "cmm-1-trm": "79.1", "cmm-2-trm": "84.2"}
    rows = {name: each.row for name, each in PRESETS.items() if name.startswith("cmm-")}
    assert {name: row.claimed for name, row in rows.items() if row is not None and not row.variant} == printed
    seen = said_by_their_configs([table for table in TABLES if table.name.startswith("cmm-")], PRINTED, WORDS)
    assert seen[r"\bN_grad=(\d+)"] >= 37


def said_by_their_configs(tables, printed, words):
    """How many rows print each number and each choice; their configs say the same."""
    seen = Counter()
    for table in tables:
        for row in table.rows:
            config = leaves(table.config(row).model_dump())
            for pattern, setting in printed.items():
                if found := re.search(pattern, row.features):
                    assert config[setting] == float(found[found.lastindex or 1]), (table.preset_name(row), setting)
                    seen[pattern] += 1
            for pattern, (setting, value) in words.items():
                if found := re.search(pattern, row.features):
                    parts = (part or "" for part in found.groups())
                    expected = value.format(*parts) if isinstance(value, str) else value
                    assert config[setting] == expected, (table.preset_name(row), setting)
                    seen[pattern] += 1
    assert seen.keys() == printed.keys() | words.keys()
    return seen


def test_sizes_are_those_that_the_paper_rounds():
    printed = {"5M": 5_028_866, "2.5M": 2_520_578, "0.26M": 261_890, "27M": 27_275_266, "7M": 6_822_914}
    exceptions = {"cmm-11-1": 263_938}  # attention over 900 cells
    for name, chosen in PRESETS.items():
        if chosen.row is not None and chosen.row.parameters:
            mixer = chosen.config().model.mixer
            half = {"attention": 527_362, "mlp": 520_706}[mixer]
            expected = exceptions.get(name) or (printed | {"0.52M": half})[chosen.row.parameters]
            assert chosen.parameter_count() == expected, name
    stated = {"hrm-sudoku": 27_275_266, "trm-att-sudoku": 6_828_034, "trm-mlp-sudoku": 5_028_866}
    assert {name: preset(name).parameter_count() for name in stated} == stated


@pytest.mark.parametrize("table", TABLES, ids=lambda t: f"{t.name}-{t.rows[0].label}")
def test_a_row_changes_what_it_says_and_nothing_else(table):
    base = leaves(table.base.config.model_dump())
    derived = set() if table.epochs is None else {"training.steps", "training.log_every", "training.checkpoint_every"}
    for row in table.rows:
        config = leaves(table.config(row).model_dump())
        changed = {key for key in config if config[key] != base.get(key)} - derived
        assert all(any(key.startswith(k) for k in row.changes) for key in changed), (table.name, row.label)
        typed = override(table.base.config, split_arguments(as_typed(row.changes))[1])  # what a row prints
        assert typed == derive(table.base.config, row.changes)


def test_steps_are_fifty_thousand_epochs_and_positions_shares_of_them():
    """Table 7's best row: 4 batches of 250 an epoch, 16 supervision steps each, 64 a move of the weights.

    What a table states in epochs stays where it is in a run, however many puzzles its set has.
    """
    assert preset("cmm-7-4").config().training.steps == 50_000 * 4 * 16 // 64
    assert preset("cmm-4-2").config().training.steps == 195_312
    stated = {"cmm-9-10": 2500, "cmm-9-12": 2500, "cmm-10-5": 2500, "cmm-11-1": 5000}
    shares = {name: preset(name).config().optimizer.freeze_embedding_after for name in stated}
    assert {name: share * 50_000 for name, share in shares.items()} == stated
    for rollout in (chosen.config().rollout for name, chosen in PRESETS.items() if name.startswith("cmm-")):
        assert rollout.carry == ("same-batch" if rollout.accum_steps > 1 else "persistent")  # else without effect


def test_a_table_is_shown_as_the_paper_prints_it_and_a_row_with_what_is_ours(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    shown = output("presets --table cmm-6").splitlines()
    lines = {line.split("│")[1].strip(): line for line in shown if line.startswith("│ cmm-")}
    assert len(lines) == 14 + 1  # and a variant
    assert "91.5" in lines["cmm-6-13"]
    assert "2,520,578 (2.5M)" in lines["cmm-6-10"]
    monkeypatch.setattr("reason.extensions.memory.estimate.hours", lambda config, shape: 234.5)
    said = "CMM table 11: λ_LM=10", "263,938 parameters for 900 cells", "about 234 hours here"
    assert "an MLP over 900 cells" in output("presets cmm-11-1", *said)
