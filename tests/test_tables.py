"""The presets of CMM's tables: their number, their sizes, what their rows change."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from reason.cli.presets import main, measured
from reason.config.overrides import leaves, override
from reason.config.schema import Config
from reason.errors import ConfigError
from reason.presets import PRESETS, TABLES, preset


def test_every_row_of_tables_1_to_11_is_a_preset() -> None:
    printed = (name for name, each in PRESETS.items() if each.row is not None and not each.row.variant)
    rows = Counter(name.rsplit("-", 1)[0] for name in printed if name.startswith("cmm-"))
    expected = {1: 2, 2: 1, 3: 3, 4: 16, 5: 6, 6: 14, 7: 5, 8: 3, 9: 12, 10: 5, 11: 1}
    assert rows == {f"cmm-{table}": count for table, count in expected.items()}


def test_sizes_are_those_that_the_paper_rounds() -> None:
    printed = {"5M": 5_028_866, "2.5M": 2_520_578, "0.26M": 261_890, "27M": 27_275_266, "7M": 6_822_914}
    exceptions = {"cmm-11-1": 263_938}  # attention over 900 cells
    for name, chosen in PRESETS.items():
        if chosen.row is not None and chosen.row.parameters:
            mixer = chosen.config().model.mixer
            half = {"attention": 527_362, "mlp": 520_706}[mixer]
            expected = exceptions.get(name) or (printed | {"0.52M": half})[chosen.row.parameters]
            assert chosen.parameter_count() == expected, name


@pytest.mark.parametrize("table", TABLES, ids=lambda t: f"{t.name}-{t.rows[0].label}")
def test_a_row_changes_what_it_says_and_nothing_else(table) -> None:
    base = leaves(table.base().model_dump())
    derived = set() if table.epochs is None else {"training.steps", "training.log_every", "training.checkpoint_every"}
    for row in table.rows:
        config = leaves(table.config(row).model_dump())
        changed = {key for key in config if config[key] != base.get(key)} - derived
        assert all(any(key.startswith(k) for k in row.changes) for key in changed), (table.name, row.label)


def test_steps_are_fifty_thousand_epochs() -> None:
    """Table 7's best row: 4 batches of 250 an epoch, 16 supervision steps each, 64 a move of the weights."""
    assert preset("cmm-7-4").config().training.steps == 50_000 * 4 * 16 // 64
    assert preset("cmm-4-2").config().training.steps == 195_312


def test_the_settings_of_some_rows() -> None:
    config = preset("cmm-10-5").config()
    assert (config.model.hidden_size, config.model.num_layers, config.model.repeats, config.model.puzzle_emb_len) == (
        128,
        1,
        2,
        0,
    )
    assert (config.optimizer.eps, config.optimizer.freeze_embedding_after, config.optimizer.lr) == (1e-14, 2500, 2e-3)
    assert (config.balance.kind, config.model.noise, config.model.initial) == ("alg-grad-norm", "additive", "input")
    assert preset("cmm-11-1").config().balance.targets == {"lm": 10}
    trm = preset("cmm-9-2").config()
    assert trm.loss.present == ["lm", "q_halt"]
    assert (trm.model.noise, trm.model.initial, trm.loss.likelihood) == ("none", "buffer", "stablemax")
    lr = preset("cmm-6-14").config().optimizer.schedule
    assert (lr.kind, lr.min_ratio, lr.end, lr.after, lr.unit) == ("exponential", 0.5, 30_000, 0.3, "epoch")
    assert preset("cmm-4-12").config().loss.weights.rh_stable_z == 1e4
    assert preset("cmm-7-2").config().loss.weights.equil_x == Config().loss.weights.equil_x == 0


def test_a_table_is_shown_as_the_paper_prints_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    folder = tmp_path / "runs/a/evaluation/b"
    folder.mkdir(parents=True)
    (tmp_path / "runs/a/evaluation/c").mkdir()
    (tmp_path / "runs/a/evaluation/c/results.json").write_text("{")
    results = {"preset": "cmm-6-13", "exact_by_step": [0.1, 0.5, 0.7], "steps": 3, "trained_steps": 2}
    (folder / "results.json").write_text(json.dumps(results | {"dataset": "data/mine", "puzzles": 1200}))
    assert main(["--table", "cmm-6"]) == 0
    shown = capsys.readouterr().out
    lines = {line.split("│")[1].strip(): line for line in shown.splitlines() if line.startswith("│ cmm-")}
    assert len(lines) == 14 + 1  # and a variant
    assert "91.5" in lines["cmm-6-13"]
    assert "50.0 % of 1,200 of mine" in lines["cmm-6-13"]
    assert "not run" in lines["cmm-6-4"]
    assert "2,520,578 (2.5M)" in lines["cmm-6-10"]
    assert measured("cmm-6-4", tmp_path / "nowhere") == "not run"


def test_one_row_is_shown_with_what_is_ours(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cmm-11-1"]) == 0
    shown = capsys.readouterr().out
    assert "CMM table 11: λ_LM=10" in shown
    assert "an MLP over 900 cells" in " ".join(shown.split())
    assert "263,938 parameters for 900 cells" in shown


def test_an_unknown_table_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean cmm-6"):
        main(["--table", "cmm6"])
    with pytest.raises(ConfigError, match="one of the two"):
        main(["cmm-6-1", "--table", "cmm-6"])


def test_rows_that_accumulate_keep_their_batch_and_persistent_ones_are_refused_it() -> None:
    """Under carry=persistent a batch is drawn at every step, so that N_accum would have no effect."""
    for name, chosen in PRESETS.items():
        if name.startswith("cmm-"):
            rollout = chosen.config().rollout
            assert rollout.carry == ("same-batch" if rollout.accum_steps > 1 else "persistent"), name
    assert preset("cmm-7-3").config().rollout.accum_steps == 2
    with pytest.raises(ConfigError, match=r"accum_steps=2 has no effect under carry=persistent.*carry=same-batch"):
        override(Config(), {"rollout.accum_steps": "2"})


def test_departures_state_every_row(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--departures"]) == 0
    shown = capsys.readouterr().out
    assert all(f"| `{name}` |" in shown for name, chosen in PRESETS.items() if chosen.row is not None)
    assert main(["--departures", "--table", "cmm-10"]) == 0
    one = capsys.readouterr().out
    assert one in shown
    lines = {line.split("`")[1]: line for line in one.splitlines() if line.startswith("| `")}
    assert lines["cmm-10-3"].count(" | ") == 4
    assert "inside atan2" in lines["cmm-10-3"]
    assert "kind=adamw" in lines["cmm-10-3-adamw"]
    assert "inside atan2" not in lines["cmm-10-3-adamw"]
    assert len(lines) == 5 + 5  # the rows and their variants with AdamW
