"""Puzzles with several right answers: their rules judge."""

import numpy as np
import pytest
import torch
from evaluators import read, shaken, small

from datasets_gen.extensions.declared import FACTS
from datasets_gen.layout import Split, write_dataset
from datasets_gen.structure import Relation, Structure
from reason.data.puzzles import PuzzleData


def two_colourings(folder, unique):
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
def test_exact_of_several_right_answers_is_that_the_rules_hold(tmp_path, unique):
    model, data = two_colourings(tmp_path, unique)
    got = read(model, data, 6, 7)
    assert (got["exact_by_step"] == got["valid_by_step"]) is not unique
    assert max(got["valid_by_step"]) > 0
    assert max(got["cell_by_step"]) < 1


def test_every_study_judges_several_right_answers_by_the_rules(tmp_path):
    pytest.importorskip("reason.extensions.studies")
    model, data = two_colourings(tmp_path, unique=False)
    got = read(model, data, 8, 7, studies="restarts=2,policies,probes")  # later rounding decides: it is chaotic
    exact = got["exact_by_step"]
    assert len(set(exact)) > 1
    for kind in ("initial", "noise"):
        assert got["restarts"][kind]["rows"][0]["any"] == pytest.approx(exact[-1])
    assert all(puzzle["solved"] == puzzle["solved_in_pass"] for puzzle in got["dynamics"]["puzzles"])
    assert 0 < sum(puzzle["solved"] for puzzle in got["dynamics"]["puzzles"]) < len(data)
