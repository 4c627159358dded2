"""What the studies share: who pays, what is left out, random numbers of each puzzle."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from conftest import output
from evaluators import counting, evaluator_of, read, small
from test_compiled import read_by_one_graph
from test_evaluator import parts_join
from test_puzzle_seeds import columns
from test_relations_of_sets import written
from test_results import results

from datasets_gen.sudoku import Sudoku
from reason.cli import main
from reason.data import PuzzleData
from reason.evaluation.config import STUDIES, EvaluationConfig
from reason.evaluation.evaluator import evaluate
from reason.evaluation.suite import SECTIONS, consumers_of
from reason.extensions.studies.dynamics import Dynamics
from reason.extensions.studies.restarts import Restarts, RestartSeeds

Trained = tuple[Any, PuzzleData]
EVERYTHING = {"restarts": 2, "vary": "symmetry", "policies": True, "probes": True, "probed": 20, "spectra": 0}


@pytest.fixture
def random(sudoku_4x4: Path) -> Trained:
    """A model whose initial states are random."""
    data = PuzzleData(sudoku_4x4, "test")
    return small(data.shape, torch.float64, initial="random").eval(), data


def test_restarts_cost_a_pass_each(trained: Trained) -> None:
    """K tries cost K − 1 passes a variation, whose seconds are not those of the pass."""
    model, data = trained
    rows = counting(model)
    evaluator = evaluator_of(model, data, 4, 5, restarts=3)
    consumers = consumers_of(evaluator)
    evaluate(evaluator, consumers)
    assert sum(rows) == (1 + 3 * 2) * 4 * len(data)
    assert [consumer.cost for consumer in consumers if consumer.cost] == [
        f"restarts: 6 passes over {len(data)} puzzles (3 restarts of initial, symmetry, noise; the first is the pass "
        "that is made anyway)"
    ]
    assert not Restarts.timed


def test_every_study_has_its_section(trained: Trained) -> None:
    found = set(read(*trained, 2, 50, **EVERYTHING))
    sections = {"difficulty", "halting", "policies", "restarts", "dynamics"}
    assert sections <= found
    assert sections <= {section.key for section in SECTIONS}


def test_puzzles_without_a_scored_cell_are_left_out(trained: Trained) -> None:
    """As if they were not there, in every figure."""
    model, data = trained
    left_out = [0, 5, 6, len(data) - 1]
    data.labels = data.labels.clone()
    data.labels[left_out] = data.metadata.ignore_label_id
    with pytest.warns(UserWarning, match="have no scored cell"):
        got = read(model, data, 3, 4, **EVERYTHING)
    kept = [i for i in range(len(data)) if i not in left_out]
    assert {puzzle["example"] for puzzle in got["dynamics"]["puzzles"]} == set(kept)
    for name in ("inputs", "labels"):
        setattr(data, name, getattr(data, name)[kept])
    alone = read(model, data, 3, 4, **EVERYTHING)
    for key in ("difficulty", "halting", "restarts"):
        assert got[key] == alone[key], key


def test_two_processes_keep_what_one_does(trained: Trained) -> None:
    names = parts_join(evaluator_of(*trained, 3, 2, policies=True))
    assert {"q_halt", "margin", "max-probability", "certainty"} <= names


def test_policies_and_probes_make_no_graph(trained: Trained) -> None:
    read_by_one_graph(*trained, policies=True, probes=True, probed=1, spectra=1)


def test_probes_draw_from_the_seed(trained: Trained) -> None:
    found = []
    for seed in (1, 1, 2):
        evaluator = replace(evaluator_of(*trained, 2, 50, probes=True, probed=1, spectra=0), seed=seed)
        found.append(evaluate(evaluator, consumers_of(evaluator))["dynamics"])
    assert found[0] == found[1]
    assert found[0]["returns"] != found[2]["returns"]


def test_settings_that_change_nothing_are_named() -> None:
    """Those of restarts and probes where these are not asked for."""
    assert set(EvaluationConfig().idle) == {"vary", "sigma", "probed", "spectra"}
    assert EvaluationConfig(restarts=2, vary="initial", probes=True).idle == {"sigma": "vary=initial"}
    assert not EvaluationConfig(restarts=2, probes=True).idle


def test_the_steps_of_a_puzzle_that_stays_are_read() -> None:
    assert [STUDIES[name].undecimated for name in ("policies", "probes", "restarts")] == [True, True, False]


def test_probes_need_a_map() -> None:
    (need,) = STUDIES["probes"].needs(SimpleNamespace(model_has=lambda method: method != "map"))
    assert not need.met


def test_puzzles_with_relations_of_their_own(tmp_path: Path) -> None:
    data = PuzzleData(written(tmp_path / "set"), "test")
    model = small(data.shape)
    got = read(model, data, 3, 1, restarts=2, policies=True, probes=True, probed=1)
    assert len(got["dynamics"]["puzzles"]) + len(got["restarts"]) + len(got["policies"]["rows"]) > 6


def test_restarts_of_a_kept_run_make_a_table(half: Path) -> None:
    assert main(["evaluate", "half", "steps=2", "name=e", "evaluation.restarts=2", "evaluation.vary=initial"]) == 0
    kept = results.keep(half / "evaluation/e")
    tried = json.loads((half / "evaluation/e/results.json").read_text())["restarts"]["initial"]["rows"]
    assert kept["restarts"] == {"initial": tried}
    head, _, row, *_ = results.shown_table([kept])
    shown = dict(zip(head.split("|"), row.split("|"), strict=True))
    assert shown[" 2:any:initial "] == f" {100 * tried[1]['any']:.1f} % "


def test_evaluations_with_settings_of_one_name_lie_apart(half: Path) -> None:
    """evaluation.sigma and model.sigma; a name that one section alone has stays short."""
    for pair in ("evaluation.sigma=0.5", "model.sigma=0.5", "evaluation.limit=3"):
        assert main(["evaluate", "half", "steps=1", pair]) == 0
    assert {path.name for path in (half / "evaluation").iterdir()} == {
        f"sudoku-4x4-test-T1-{last}" for last in ("evaluation.sigma=0.5", "model.sigma=0.5", "limit=3")
    }


def test_help_names_them() -> None:
    page = output("evaluate --help")
    assert all(f"  evaluation.{typed} " in page for typed in ("policies=true", "restarts=8", "probes=true"))


def test_tries_leave_the_pass_as_it_is(random: Trained) -> None:
    model, data = random
    alone, beside = columns(model, data, batch_size=5), columns(model, data, batch_size=5, restarts=3)
    assert all((beside[name] == values).all() for name, values in alone.items())


def test_the_size_of_a_batch_changes_no_draw(random: Trained) -> None:
    model, data = random
    few, many = (columns(model, data, batch_size=size, restarts=3) for size in (4, 12))
    tries = {kind: many[f"{kind}/residual"] for kind in ("initial", "symmetry", "noise")}
    for kind, residuals in tries.items():
        assert few[f"{kind}/residual"] == pytest.approx(residuals, abs=1e-9), kind
        assert (np.ptp(residuals, axis=0) > 1e-3).all(), "tries differ"
        assert len(set(residuals[1])) == len(data), "puzzles differ"


def test_dynamics_are_those_of_the_pass(random: Trained) -> None:
    model, data = random
    evaluator = evaluator_of(model, data, 3, 50, probes=True, probed=20, spectra=0)
    seen = columns(model, data, 50)
    with evaluator.own_randomness():
        paths = Dynamics(evaluator).result(seen)["dynamics"]["puzzles"]
    assert len(paths) == len(data)
    for path in paths:
        assert path["residual"] == pytest.approx(-seen["residual"][:, path["example"]])


def test_every_puzzle_has_a_symmetry_of_its_own() -> None:
    here = torch.device("cpu")
    moved = RestartSeeds(torch.arange(50), 0).symmetries(Sudoku(6).symmetry, 1, here)
    assert moved.source is not None
    assert len({tuple(row) for row in moved.source.tolist()}) > 40
    single = RestartSeeds(torch.tensor([7]), 0).symmetries(Sudoku(6).symmetry, 1, here)
    assert torch.equal(moved.names[7:8], single.names)
