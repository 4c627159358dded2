"""The one-pass numbers against a loop over puzzles, and the page that shows them."""

from pathlib import Path

import numpy as np
import pytest
import torch
from evaluators import read, shaken, small

from datasets_gen.declared import FACTS
from datasets_gen.layout import Split, write_dataset
from datasets_gen.structure import Relation, Structure
from reason.data import PuzzleData
from reason.report.section import shown_steps, wilson_interval
from reason.rollout import unroll


def test_one_pass_equals_a_loop_over_puzzles(trained: tuple[torch.nn.Module, PuzzleData]) -> None:
    model, data = trained
    got = read(model, data, 5, 5)
    exact, cell, halted = ([0.0] * 5 for _ in range(3))
    with torch.no_grad():
        for i in range(len(data)):
            batch = data.take(torch.tensor([i]))
            for m, out in enumerate(unroll(model, batch, 5)):
                right = [int(a) == int(b) for a, b in zip(out.logits[0].argmax(-1), batch.labels[0], strict=True)]
                exact[m] += all(right) / len(data)
                cell[m] += sum(right) / len(right) / len(data)
                halted[m] += float(out.q_halt[0] > 0) / len(data)
    assert got["exact_by_step"] == pytest.approx(exact)
    assert got["cell_by_step"] == pytest.approx(cell)
    assert got["halted_by_step"] == pytest.approx(halted)
    assert (got["puzzles"], got["unscored"]) == (len(data), 0)
    assert got["cell_by_step"][0] > 0


def test_the_batch_size_changes_nothing(trained: tuple[torch.nn.Module, PuzzleData]) -> None:
    model, data = trained
    runs = [read(model, data, 3, size) for size in (1, 7, 100)]
    for run in runs[1:]:
        assert run["exact_by_step"] == runs[0]["exact_by_step"]
        assert run["cell_by_step"] == pytest.approx(runs[0]["cell_by_step"])


def test_a_limit_takes_the_first_puzzles(trained: tuple[torch.nn.Module, PuzzleData]) -> None:
    model, data = trained
    assert read(model, data, 1, 4, limit=6)["puzzles"] == 6


def two_colourings(folder: Path, unique: bool) -> tuple[torch.nn.Module, PuzzleData]:
    """Two colours on the path 0 - 1 - 2, which has two solutions, one of them the label; and a network in float64."""
    edges = Relation(name="edge", rule=["!=", "x0", "x1"], places=2, instances=((0, 1), (1, 2)))
    facts = {"name": "path", "grid": [1, 3], "values": "ab", "lowest": 1, "shown_only": "", "interchangeable": True}
    labels = np.tile([[2, 3, 2], [3, 2, 3]], (20, 1))
    split = {"test": Split.of_puzzles(np.ones_like(labels), labels)}
    structure = Structure(relations=(edges,), symbols=(2, 3))
    assert facts.keys() | {"unique"} == FACTS.keys() | {"name"}
    write_dataset(folder, split, task=facts | {"unique": unique}, vocab_size=4, structure=structure)
    torch.manual_seed(3)
    data = PuzzleData(folder, "test")
    model = shaken(small(data.shape, torch.float64, initial="random").double())
    with torch.no_grad():
        model.head.weight[:2] = -100.0  # no answer is absent or open
    return model, data


@pytest.mark.parametrize("unique", [False, True])
def test_exact_of_several_right_answers_is_that_the_rules_hold(tmp_path: Path, unique: bool) -> None:
    model, data = two_colourings(tmp_path, unique)
    got = read(model, data, 6, 7)
    assert (got["exact_by_step"] == got["valid_by_step"]) is not unique
    assert max(got["valid_by_step"]) > 0
    assert max(got["cell_by_step"]) < 1


def test_every_study_judges_several_right_answers_by_the_rules(tmp_path: Path) -> None:
    model, data = two_colourings(tmp_path, unique=False)
    got = read(model, data, 30, 7, restarts=2, policies=True, probes=True, probed=20, blind_spot=True)
    exact = got["exact_by_step"]
    assert len(set(exact)) > 1
    rows = {row["name"]: row for row in got["policies"]["rows"]}
    for name in ("fixed 30", "fixed 3"):
        assert rows[name]["live_exact"] == pytest.approx(rows[name]["exact"])
    for kind in ("initial", "noise"):
        assert got["restarts"][kind]["rows"][0]["any"] == pytest.approx(exact[-1])
    assert all(puzzle["solved"] == puzzle["solved_in_pass"] for puzzle in got["dynamics"]["puzzles"])
    assert 0 < sum(puzzle["solved"] for puzzle in got["dynamics"]["puzzles"]) < len(data)


@pytest.mark.parametrize(
    ("share", "count", "low", "high"),
    [(0.0, 10, 0.0, 0.2775), (0.5, 10, 0.2366, 0.7634), (1.0, 10, 0.7225, 1.0), (0.95, 1000, 0.9347, 0.9618)],
)
def test_wilson_interval(share: float, count: int, low: float, high: float) -> None:
    """Against values computed by hand from (p̂ + z²/2n ± z√(p̂(1−p̂)/n + z²/4n²))/(1 + z²/n), z = 1.959964."""
    assert wilson_interval(share, count) == pytest.approx((low, high), abs=2e-4)


def test_long_curves_are_shown_at_telling_steps() -> None:
    assert shown_steps(64, 8) == [1, 2, 4, 8, 16, 32, 64]
    assert shown_steps(64, 12) == [1, 2, 4, 8, 12, 16, 32, 64]
    assert shown_steps(20, 8) == [1, 2, 4, 8, 16, 20]
    assert (shown_steps(1, 8), shown_steps(3, 8)) == ([1], [1, 2, 3])
