"""Pages and plots say what the kept files say."""

import json
import sys
from pathlib import Path

import pytest
import yaml

from reason.cli import main
from reason.config.overrides import leaves
from reason.presets import preset

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))
import results  # noqa: E402

FILES = sorted((ROOT / "docs/results").glob("*.json"))


def test_pages_and_plots_are_written_from_the_files() -> None:
    written = {**results.pages(ROOT / "docs"), **results.plots(ROOT / "docs")}
    assert {"README.md", "results.md", "by-file.md"} <= {file.name for file in written}
    for file, text in written.items():
        assert file.read_text() == text, f"{file.name}: run python benchmarks/results.py write"


def test_a_quotation_names_one_row() -> None:
    assert results.quoted(ROOT / "docs", "maze-any 16 on=maze-30x30-fresh") == "82.0 %"
    with pytest.raises(SystemExit, match="names 4 rows"):
        results.quoted(ROOT / "docs", "maze-any 16")
    with pytest.raises(SystemExit, match="names 0 rows"):
        results.quoted(ROOT / "docs", "maze-any 16 on=maze-31x31")


def test_every_file_says_its_command() -> None:
    studies = yaml.safe_load((ROOT / "docs/results/claims.yaml").read_text())["studies"]
    assert set(studies) == {file.stem for file in FILES}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_kept_runs_are_of_presets_that_are_there(file: Path) -> None:
    for run in json.loads(file.read_text())["runs"]:
        there = leaves(preset(run["preset"]).config().model_dump(mode="json"))
        for changed, value in run["changes"].items():
            emptied = value == {} and any(key.startswith(f"{changed}.") for key in there)
            assert changed in there or emptied
        assert run["puzzles"] > 0
        assert all(0 <= share <= 1 for share in run["exact"].values())


def test_a_run_is_kept_and_seeds_make_a_row(sudoku_4x4: Path, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    page = (here / "log/by-file.md").read_text()
    assert "Paired" not in page
    row = next(line for line in page.splitlines() if "0, 1" in line)
    assert results.spread([100 * exact[2] for exact in shares]) in row


def test_an_exported_model_is_kept_by_its_card_and_its_restarts_make_a_table(half: Path) -> None:
    assert main(["evaluate", "half", "steps=2", "name=e", "evaluation.restarts=2", "evaluation.vary=initial"]) == 0
    (half / "metrics.jsonl").unlink()
    (half / "card.json").write_text(json.dumps({"step": 2, "seconds": 90.0}))
    kept = results.keep(half / "evaluation/e")
    assert (kept["puzzle_steps"], kept["minutes"]) == (16, 1.5)
    tried = json.loads((half / "evaluation/e/results.json").read_text())["restarts"]["initial"]["rows"]
    assert kept["restarts"] == {"initial": tried}
    lines = results.study("mine", [kept], {})
    assert "| restarts | majority | q | residual | verified | any |" in lines
    assert any(f"{100 * tried[1]['any']:.1f} %" in line for line in lines)


def test_sets_that_are_gone_were_made_as_the_config_or_the_card_says(tmp_path: Path) -> None:
    gone = {"directory": f"{tmp_path}/gone", "generate": {"name": "sudoku", "size": 4}}
    assert results.sets_made_by(tmp_path, gone) == "sudoku --size 4 --seed 0"
    portable = gone | {"generate": {}}
    assert results.sets_made_by(tmp_path, portable) == "a set of unknown origin"
    (tmp_path / "card.json").write_text(json.dumps({"data": [{"made_by": "python -m datasets_gen maze --size 7"}]}))
    assert results.sets_made_by(tmp_path, portable) == "maze --size 7"


def test_a_study_compares_its_variants_with_the_first_by_seed() -> None:
    def run(width: int, seed: int, last: float) -> results.Json:
        return {
            "preset": "p", "changes": {"width": width}, "seed": seed, "trained_on": "d", "puzzle_steps": 8,
            "minutes": 1.0, "parameters": 5, "trained_steps": 2, "weights": "ema", "read_on": "d test", "puzzles": 100,
            "exact": {"1": 0.1, "2": last},
        }  # fmt: skip

    runs = [run(1, 0, 0.50), run(1, 1, 0.60), run(2, 0, 0.60), run(2, 1, 0.71), run(3, 0, 0.4)]
    lines = results.study("s", runs, {"question": "Q?", "command": "reason ablate p", "found": "So it is."})
    assert "Q?" in lines
    assert "So it is." in lines
    wider, widest = (next(x for x in lines if f"width={w}" in x and "against" not in x and ":" in x) for w in (2, 3))
    assert "+10.5 (+4.1 to +16.9): better" in wider  # 10 and 11 points: ± 12.706 · 0.5
    assert "-10.0: one seed" in widest


def test_exits_of_several_seeds_make_their_tables() -> None:
    """By quantile: mean loops, accuracy, and the fewest fixed loops that are as accurate."""

    easy = {"bin": "0", "puzzles": 7, "needed_loops": None}

    def found(shift: float) -> dict[str, object]:
        return {
            "gate": [{"quantile": q, "mean_loops": 10 * q + shift, "exact": q} for q in (0.3, 0.5, 0.9)],
            "fixed": [{"loops": loops, "exact": loops / 10} for loops in (1, 6, 8)],
            "rank_correlation": 0.5 + shift,
            "by_difficulty": {"by": "guesses", "bins": [easy | {"expected_loops": 2 + shift}]},
        }

    kept = [results.kept_exits(found(shift)) for shift in (0.0, 0.2)]
    assert kept[0]["rows"] == [
        {"quantile": 0.5, "mean_loops": 5.0, "exact": 0.5, "fixed": 6},
        {"quantile": 0.9, "mean_loops": 9.0, "exact": 0.9, "fixed": None},
    ]
    assert kept[0]["by_difficulty"]["by"] == "guesses"
    told = "\n".join(results.exit_tables(kept))
    assert "| 0.5 | 5.10 ± 0.14 | 50.0 ± 0.0 % | 6.0 ± 0.0 |" in told
    assert "| 0.9 | 9.10 ± 0.14 | 90.0 ± 0.0 % |  |" in told
    assert "| 0 | 7 | 2.10 ± 0.14 |  |" in told
    assert told.endswith("Spearman's ρ between loops expected and needed: 0.60 ± 0.14.")
