"""Pages and plots say what the kept files say."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

from reason.cli import main
from reason.config.overrides import leaves
from reason.presets import preset

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))
import baselines  # noqa: E402
import results  # noqa: E402

FILES = sorted((ROOT / "docs/results").glob("*.json"))


def test_pages_and_plots_are_written_from_the_files_and_the_leaderboard_has_sources():
    written = {**results.pages(ROOT / "docs"), **results.plots(ROOT / "docs")}
    assert {"README.md", "results.md", "leaderboard.md", "by-file.md"} <= {file.name for file in written}
    said = yaml.safe_load((ROOT / "docs/results/claims.yaml").read_text())
    assert set(said["studies"]) == {file.stem for file in FILES}
    assert all(f"| {row['verdict']} |" in said["verdicts"] for row in said["claims"])
    for file, text in written.items():
        assert file.read_text() == text, f"{file.name}: run python benchmarks/results.py write"
    said = yaml.safe_load((ROOT / "docs/results/leaderboard.yaml").read_text())
    rows = [row for part in said["tables"] for row in part["rows"]]
    published = [row for row in rows if row["by"].startswith("published")]
    assert len(rows) >= 10
    assert len(published) >= 5
    assert all("https://" in row["who"] or "authors" in row["by"] for row in published)
    elsewhere = [row["by"] for row in rows if row not in published and not {"file", "keys"} <= row.keys()]
    assert all("command" in by or "benchmarks" in by for by in elsewhere)
    assert all(row.keys() - {"file", "keys"} <= said["columns"].keys() for row in rows)
    # Wilson's: (z²/2n + .5 ± √(.25 z²/n + z⁴/4n²)) / (1 + z²/n)
    assert results.ranged("50.0 %", 100) == "50.0 [40.4, 59.6]"
    assert results.ranged("50.0 ± 1.0 %", 100) == "50.0 ± 1.0 %"


def test_trivial_solvers_and_a_quotation_names_one_row():
    answer = np.array([[(3 * (r % 3) + r // 3 + c) % 9 + 1 for r in range(9) for c in range(9)]], np.uint8)
    few = np.where(np.arange(81) % 10 == 0, 0, answer)  # the diagonal is open: naked singles
    assert baselines.shares(np.concatenate([answer, few]), np.concatenate([answer, answer])) == {
        "guessed": 1.0, "by_naked_singles": 1.0, "by_singles": 1.0
    }  # fmt: skip
    empty = np.zeros((1, 81), np.uint8)
    assert baselines.shares(empty, answer) == {"guessed": 0.0, "by_naked_singles": 0.0, "by_singles": 0.0}
    may = baselines.open_digits(few)[0, 0]
    assert may.tolist() == [digit + 1 == answer[0, 0] for digit in range(9)]
    assert results.quoted(ROOT / "docs", "maze-any 16 on=maze-30x30-fresh") == "82.0 %"
    with pytest.raises(SystemExit, match="names 4 rows"):
        results.quoted(ROOT / "docs", "maze-any 16")
    with pytest.raises(SystemExit, match="names 0 rows"):
        results.quoted(ROOT / "docs", "maze-any 16 on=maze-31x31")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_kept_runs_are_of_presets_that_are_there(file):
    for run in json.loads(file.read_text())["runs"]:
        there = leaves(preset(run["preset"]).config().model_dump(mode="json"))
        for changed, value in run["changes"].items():
            emptied = value == {} and any(key.startswith(f"{changed}.") for key in there)
            assert changed in there or emptied
        assert run["puzzles"] > 0
        assert all(0 <= share <= 1 for share in run["exact"].values())


def test_a_run_is_kept_and_seeds_make_a_row(sudoku_4x4, here, monkeypatch, capsys):
    for seed in (0, 1):
        words = ["model.hidden_size=16", "training.steps=2", "training.batch_size=8", "ema.decay=none", f"seed={seed}"]
        assert main(["train", "sudoku-4x4", f"data={sudoku_4x4}", *words, f"run=r{seed}"]) == 0
        assert main(["evaluate", f"r{seed}", "steps=3", "name=e"]) == 0
    (here / "results").mkdir()
    (here / "results/claims.yaml").write_text("about: a\nverdicts: v\nlimits: l\ncolumns: c\nclaims: []\n")
    monkeypatch.setattr(results, "HOME", here)
    assert results.main(["keep", "mine", "r0/evaluation/e"]) == 0
    assert results.main(["keep", "mine", "--add", "r0/evaluation/e", "r1/evaluation/e"]) == 0
    assert results.main(["write"]) == 0
    kept = json.loads((here / "results/mine.json").read_text())["runs"]
    shares = [json.loads((here / f"r{seed}/evaluation/e/results.json").read_text())["exact_by_step"] for seed in (0, 1)]
    assert main(["evaluate", "r0", "steps=4", "name=f"]) == 0
    assert results.main(["keep", "mine", "--add", "r0/evaluation/f"]) == 0  # evaluated again: in place of it
    assert len(json.loads((here / "results/mine.json").read_text())["runs"]) == 2
    for run, exact in zip(kept, shares, strict=True):
        assert run["changes"] == {
            "ema.decay": None, "model.hidden_size": 16, "training.batch_size": 8, "training.steps": 2
        }  # fmt: skip
        assert run["puzzle_steps"] == 16
        assert run["trained_on"].startswith("sudoku --train 24 --validation 0 --test 12 --seed 1")
        assert [run["exact"][t] for t in "123"] == [round(share, 6) for share in exact]
    assert "[data](../results/mine.json): rows 1; seeds 2; n 12" in (here / "log/by-file.md").read_text()
    capsys.readouterr()
    assert results.main(["show", "mine"]) == 0
    row = next(line for line in capsys.readouterr().out.splitlines() if "0, 1" in line)
    assert results.spread([100 * exact[2] for exact in shares]) in row
