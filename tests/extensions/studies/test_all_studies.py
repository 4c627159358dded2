"""What the studies share: who pays, what is left out, random numbers of each puzzle."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from conftest import output, refusal
from evaluators import counting, evaluator_of, read, small
from test_compiled import read_by_one_graph
from test_evaluator import parts_join
from test_puzzle_seeds import columns
from test_relations_of_sets import written

from reason.data import PuzzleData
from reason.evaluation.config import STUDIES
from reason.evaluation.evaluator import evaluate
from reason.evaluation.suite import consumers_of
from reason.extensions.studies import dynamics

Trained = tuple[Any, PuzzleData]
EVERYTHING = {"studies": "restarts=2:symmetry,policies,probes"}


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spectra take most of the time; tests/extensions/studies/test_studies_report.py has them."""
    monkeypatch.setattr(dynamics, "PROBED", 2)
    monkeypatch.setattr(dynamics, "SPECTRA", 0)


@pytest.fixture
def random(sudoku_4x4: Path) -> Trained:
    """A model whose initial states are random."""
    data = PuzzleData(sudoku_4x4, "test")
    return small(data.shape, torch.float64, initial="random").eval(), data


def test_restarts_cost_a_pass_each(trained: Trained) -> None:
    """K tries cost K − 1 passes a variation; the six boards of the page one more, of themselves."""
    model, data = trained
    rows = counting(model)
    evaluator = evaluator_of(model, data, 4, 5, studies="restarts=3")
    consumers = consumers_of(evaluator)
    evaluate(evaluator, consumers)
    assert sum(rows) == (1 + 3 * 2) * 4 * len(data) + 4 * 6
    assert "restarts: 6 more passes, to vary initial, symmetry, noise" in {each.cost for each in consumers}


def test_puzzles_without_a_scored_cell_are_left_out(trained: Trained) -> None:
    """As if they were not there, in every figure."""
    model, data = trained
    left_out = [0, 5, 6, len(data) - 1]
    data.labels = data.labels.clone()
    data.labels[left_out] = data.metadata.ignore_label_id
    with pytest.warns(UserWarning, match="have no scored cell"):
        got = read(model, data, 3, 4, **EVERYTHING)
    kept = [i for i in range(len(data)) if i not in left_out]
    assert {puzzle["example"] for puzzle in got["dynamics"]["puzzles"]} <= set(kept)
    for name in ("inputs", "labels"):
        setattr(data, name, getattr(data, name)[kept])
    alone = read(model, data, 3, 4, **EVERYTHING)
    for key in ("difficulty", "halting", "restarts", "policies"):
        assert got[key] == alone[key], key


def test_two_processes_keep_what_one_does(trained: Trained) -> None:
    names = parts_join(evaluator_of(*trained, 3, 2, studies="policies"))
    assert {"q_halt", "fixed", "margin", "max-probability", "certainty"} <= names


def test_policies_and_probes_make_no_graph(trained: Trained) -> None:
    read_by_one_graph(*trained, studies="policies,probes")


def test_what_studies_ask_for() -> None:
    (need,) = STUDIES["probes"].needs(SimpleNamespace(model_has=lambda method: method != "map"))
    assert not need.met
    page = output("evaluate --help evaluation.studies")
    assert all(name in page for name in ("policies", "restarts=", "probes"))
    refusal("evaluate sudoku studies=restarts=0", "unknown study restarts=0; studies are ")


def test_puzzles_with_relations_of_their_own(tmp_path: Path) -> None:
    data = PuzzleData(written(tmp_path / "set"), "test")
    got = read(small(data.shape), data, 3, 1, studies="restarts=2,policies,probes")
    assert len(got["dynamics"]["puzzles"]) + len(got["restarts"]) + len(got["policies"]["rows"]) > 6


def test_restarts_leave_the_pass_as_it_is_and_the_size_of_a_batch_changes_no_draw(random: Trained) -> None:
    model, data = random
    alone = columns(model, data, batch_size=5)
    few, many = (columns(model, data, batch_size=size, studies="restarts=3") for size in (5, 12))
    assert all((few[name] == values).all() for name, values in alone.items())
    for kind in ("initial", "symmetry", "noise"):
        residuals = many[f"{kind}/residual"]
        assert few[f"{kind}/residual"] == pytest.approx(residuals, abs=1e-9), kind
        assert (np.ptp(residuals, axis=0) > 1e-3).all(), "tries differ"
        assert len(set(residuals[1])) == len(data), "puzzles differ"


def test_dynamics_are_those_of_the_pass_and_draw_from_the_seed(random: Trained) -> None:
    model, data = random
    seen, found = columns(model, data, 50), []
    for seed in (0, 0, 2):
        evaluator = replace(evaluator_of(model, data, 3, 50, studies="probes"), seed=seed)
        with evaluator.own_randomness():
            found.append(dynamics.Dynamics(evaluator).result(seen)["dynamics"])
    for path in found[0]["puzzles"]:
        assert path["residual"] == pytest.approx(-seen["residual"][:, path["example"]])
    assert found[0] == found[1]
    assert found[0]["returns"] != found[2]["returns"]
