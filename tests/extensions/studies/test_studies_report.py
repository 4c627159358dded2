"""The page, its pictures and the terminal of every study, from results that a tiny model really gave."""

from pathlib import Path

import pytest
from test_report import MORE, SMALL, check, read, results_of

from reason.data import PuzzleData
from reason.errors import ConfigError
from reason.evaluation.config import EvaluationConfig
from reason.evaluation.suite import sections_of
from reason.extensions.studies import dynamics
from reason.models import build_model

EVERYTHING = EvaluationConfig(studies="policies,restarts=3,probes", batch_size=5)


@pytest.fixture(scope="module", autouse=True)
def few() -> None:
    dynamics.PROBED, dynamics.SPECTRA = 2, 1


@pytest.fixture(scope="module")
def studied(sudoku_4x4: Path) -> dict:
    """results.json of every study, of 12 puzzles in 5 steps, 2 of them trained."""
    return read(sudoku_4x4, 5, EVERYTHING) | {"precision": "bfloat16", "training": {"loss": [[2, 3.0], [4, 0.5]]}}


@pytest.mark.drawn
def test_everything(studied: dict, tmp_path: Path) -> None:
    """Every section in its place on the page, and every picture."""
    page = check(tmp_path, studied)
    assert {path.stem for path in tmp_path.glob("*.png")} == {
        "accuracy_by_step", "difficulty", "halting", "policies", "restarts", "dynamics", "training",
    }  # fmt: skip
    titles = ["By difficulty", "halting head know", "When to stop", "Restarts", "Dynamics", "Training"]
    places = [page.index(title) for title in titles]
    assert places == sorted(places)
    assert "Computed in float64." in page
    charts = [chart for section in sections_of(studied) for of in section.charts.values() for chart in of(studied)]
    assert len({chart.title for chart in charts}) == len(charts) >= 11
    assert all(chart.title and chart.says for chart in charts)
    assert len(studied["dynamics"]["spectra"]) == 1  # no puzzle is solved
    assert studied["policies"]["calibrated_on"] == "every other puzzle of the test split"
    assert studied["policies"]["puzzles"] == 6
    for varied in studied["restarts"].values():
        assert [row["restarts"] for row in varied["rows"]] == [1, 2, 3]
        assert varied["rows"][0]["majority"] == pytest.approx(studied["exact_by_step"][-1])


def test_a_puzzle_without_symmetry(sums: PuzzleData, tmp_path: Path) -> None:
    settings = EVERYTHING.model_copy(update={"studies": ("policies", "restarts=3")})
    results = read(sums.directory, 3, settings)
    assert list(results["restarts"]) == ["initial", "noise"]
    check(tmp_path, results)
    with pytest.raises(ConfigError, match="no symmetry; type restarts=2:initial"):
        read(sums.directory, 1, EvaluationConfig(studies="restarts=2:symmetry"))


@pytest.mark.drawn
def test_a_state_that_overflows(sudoku_4x4: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = PuzzleData(sudoku_4x4, "test")
    model = build_model(SMALL, data.shape)
    monkeypatch.setattr(type(model), "step", lambda self, state, x: type(state)(*(1e160 * z for z in state)))
    results = MORE | {"steps": 3, "trained_steps": 2} | results_of(model, data, EVERYTHING, 3, 2)
    assert {puzzle["end"] for puzzle in results["dynamics"]["puzzles"]} == {"divergence"}
    check(tmp_path, results)


def test_a_set_without_rules(sudoku_4x4: Path, tmp_path: Path) -> None:
    data = PuzzleData(sudoku_4x4, "test")
    data.metadata = data.metadata.model_copy(update={"task": {"name": "a family of one's own"}})
    settings = EvaluationConfig(studies="restarts=2,policies")
    results = results_of(build_model(SMALL, data.shape), data, settings, 2, 2)
    check(tmp_path, MORE | {"steps": 2, "trained_steps": 2} | results)
