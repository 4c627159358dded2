"""What the studies share: who pays, random numbers of each puzzle, the page of all of them."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from conftest import output, refusal
from evaluators import counting, evaluator_of, read, read_set, small
from test_evaluator import columns, parts_join, read_by_one_graph
from test_relations_of_sets import written
from test_report import check

from reason.data.puzzles import PuzzleData
from reason.errors import ConfigError
from reason.evaluation.config import STUDIES
from reason.evaluation.evaluator import evaluate
from reason.evaluation.suite import consumers_of, sections_of
from reason.extensions.studies import dynamics
from reason.models import FAMILIES

ALL = "policies,restarts=3,probes"


@pytest.fixture(autouse=True)
def _few(monkeypatch):
    """Spectra take most of the time."""
    monkeypatch.setattr(dynamics, "PROBED", 2)
    monkeypatch.setattr(dynamics, "SPECTRA", 1)


def test_restarts_cost_a_pass_each(trained):
    """K tries cost K − 1 passes a variation; the six boards of the page one more, of themselves."""
    model, data = trained
    rows = counting(model)
    evaluator = evaluator_of(model, data, 4, 5, studies="restarts=3")
    consumers = consumers_of(evaluator)
    evaluate(evaluator, consumers)
    assert sum(rows) == (1 + 3 * 2) * 4 * len(data) + 4 * 6
    assert "restarts: 6 more passes, to vary initial, symmetry, noise" in {each.cost for each in consumers}


def test_two_processes_keep_what_one_does(trained):
    names = parts_join(evaluator_of(*trained, 3, 2, studies="policies"))
    assert {"q_halt", "fixed", "margin", "max-probability", "certainty"} <= names


@pytest.mark.slow
def test_policies_and_probes_make_no_graph(trained):
    read_by_one_graph(*trained, studies="policies,probes")


def test_what_studies_ask_for(monkeypatch):
    monkeypatch.setitem(FAMILIES, "", FAMILIES["recursive"]._replace(model=object))
    assert [need.met for need in STUDIES["probes"].needs(SimpleNamespace(model=SimpleNamespace(kind="")))] == [False]
    page = output("evaluate --help evaluation.studies")
    assert all(name in page for name in ("policies", "restarts=", "probes"))
    refusal("evaluate sudoku studies=restarts=0", "unknown study restarts=0; studies are ")


def test_puzzles_with_relations_of_their_own(tmp_path):
    data = PuzzleData(written(tmp_path / "set"), "test")
    got = read(small(data.shape), data, 3, 1, studies="restarts=2,policies,probes")
    assert len(got["dynamics"]["puzzles"]) + len(got["restarts"]) + len(got["policies"]["rows"]) > 6


def test_restarts_leave_the_pass_as_it_is_with_draws_of_the_seed_as_dynamics_do(sudoku_4x4):
    data = PuzzleData(sudoku_4x4, "test")
    model = small(data.shape, torch.float64, initial="random").eval()
    alone = columns(model, data, batch_size=5)
    few, many = (columns(model, data, batch_size=size, studies="restarts=3") for size in (5, 12))
    assert all((few[name] == values).all() for name, values in alone.items())
    for kind in ("initial", "symmetry", "noise"):
        residuals = many[f"{kind}/residual"]
        assert few[f"{kind}/residual"] == pytest.approx(residuals, abs=1e-9), kind
        assert (np.ptp(residuals, axis=0) > 1e-3).all(), "tries differ"
        assert len(set(residuals[1])) == len(data), "puzzles differ"
    seen, found = columns(model, data, 50), []
    for seed in (0, 0, 2):
        evaluator = replace(evaluator_of(model, data, 3, 50, studies="probes"), seed=seed)
        with evaluator.own_randomness():
            found.append(dynamics.Dynamics(evaluator).result(seen)["dynamics"])
    for path in found[0]["puzzles"]:
        assert path["residual"] == pytest.approx(-seen["residual"][:, path["example"]])
    assert found[0] == found[1]
    assert found[0]["returns"] != found[2]["returns"]


@pytest.mark.drawn
def test_everything(sudoku_4x4, tmp_path):
    studied = read_set(sudoku_4x4, 5, studies=ALL) | {"training": {"loss": [[2, 3.0], [4, 0.5]]}}
    page = check(tmp_path, studied)
    assert {path.stem for path in tmp_path.glob("*.png")} == {
        "accuracy_by_step", "difficulty", "policies", "restarts", "dynamics", "training",
    }  # fmt: skip
    titles = ["By difficulty", "Halting head", "Stopping policies", "Restarts", "Dynamics", "Training"]
    places = [page.index(title) for title in titles]
    assert places == sorted(places)
    assert "Computed in float64." in page
    charts = [chart for section in sections_of(studied) for of in section.charts.values() for chart in of(studied)]
    assert len({chart.title for chart in charts}) == len(charts) >= 10
    assert all(chart.title and chart.alt_text for chart in charts)
    assert len(studied["dynamics"]["spectra"]) == 1  # no puzzle is solved
    assert studied["policies"]["calibrated_on"] == "every other puzzle of the test split"
    assert studied["policies"]["puzzles"] == 6
    for varied in studied["restarts"].values():
        assert [row["restarts"] for row in varied["rows"]] == [1, 2, 3]
        assert varied["rows"][0]["majority"] == pytest.approx(studied["exact_by_step"][-1])


def test_a_puzzle_without_symmetry(sums, tmp_path):
    results = read_set(sums.directory, 3, studies="policies,restarts=3")
    assert list(results["restarts"]) == ["initial", "noise"]
    check(tmp_path, results)
    with pytest.raises(ConfigError, match="no symmetry; type restarts=2:initial"):
        read_set(sums.directory, 1, studies="restarts=2:symmetry")


@pytest.mark.drawn
def test_a_state_that_overflows(sudoku_4x4, tmp_path, monkeypatch):
    data = PuzzleData(sudoku_4x4, "test")
    model = small(data.shape)
    monkeypatch.setattr(type(model), "step", lambda self, state, x: type(state)(*(1e160 * z for z in state)))
    results = read(model, data, 3, studies=ALL)
    assert results["residual_by_step"][-1] is None
    assert {puzzle["end"] for puzzle in results["dynamics"]["puzzles"]} == {"divergence"}
    check(tmp_path, results)
