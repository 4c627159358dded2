"""Relations on disk and in training, and labels that say more than the answer (data.marks)."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import make_set, output
from survivors import same

from datasets_gen.layout import DatasetError, Split, read_split, write_dataset
from datasets_gen.maze.paths import FREE
from datasets_gen.puzzles import puzzle_of
from datasets_gen.structure import Relation, Structure
from reason import api
from reason.cli import main
from reason.data.puzzles import PuzzleData
from reason.models.recursive import unmarked

LESS = Relation(name="less", places=2, rule=["<", "x0", "x1"])
SUM = Relation(name="sum", clues=1, highest=9, instances=((0, 1),), rule=["==", ["sum", "x"], 4])
STRUCTURE = Structure(relations=(LESS, SUM), values=(2, 3, 4), lowest=1)
ROWS = np.array(
    [
        [[0, -1, 0, 1, -1], [1, 7, 1, 2, 3], [-1, -1, -1, -1, -1]],
        [[1, 3, 3, -1, -1], [0, -1, 2, 1, -1], [0, -1, 3, 0, -1]],
    ]
)
FAULTS = {  # what stands at an index of ROWS
    (0, 1, 0): 2,  # no such relation
    (0, 1, 3): 4,  # no such cell
    (0, 1, 4): 1,  # a cell again
    (0, 0, 3): -1,  # one cell of two
    (0, 1, 2): -1,  # padding before cells
    (0, 1, 1): 10,  # a number above the highest
    (0, 0, 1): 0,  # a number of a relation without
    (0, 2, 2): 0,  # a cell of none
}


def written(directory, rows=ROWS, structure=STRUCTURE):
    inputs = np.array([[1, 2, 1, 3], [1, 1, 4, 2]])
    labels = np.array([[2, 2, 4, 3], [3, 2, 4, 2]])
    splits = dict.fromkeys(("train", "validation", "test"), Split.of_puzzles(inputs, labels, relations=rows))
    write_dataset(directory, splits, task={}, vocab_size=5, structure=structure)
    return directory


def test_instances_are_sorted_by_relation_and_cut_to_their_width(tmp_path):
    data = PuzzleData(written(tmp_path / "set"), "train")
    less, sums = data.take(torch.tensor([1, 0])).relations
    assert less.tolist() == [[[2, 1], [3, 0]], [[0, 1], [-1, -1]]]
    assert sums.tolist() == [[[3, 3, -1, -1]], [[7, 1, 2, 3]]]
    assert PuzzleData(written(tmp_path / "other", ROWS[::-1]), "train").fingerprint != data.fingerprint


def test_instances_that_the_structure_does_not_allow_are_named(tmp_path):
    for number, (where, value) in enumerate(FAULTS.items()):
        rows = ROWS.copy()
        rows[where] = value
        written(tmp_path / f"{number}", rows)
        with pytest.raises(DatasetError, match=r"instance \d of example 0 does not fit the structure's relations"):
            read_split(tmp_path / f"{number}", "train")
    written(tmp_path / "fewer", ROWS[:1])
    with pytest.raises(DatasetError, match=r"has shape \(1, 3, 5\), \(2, M, 1 \+ 1 \+ cells\) expected"):
        read_split(tmp_path / "fewer", "train")


@pytest.mark.parametrize(("relation", "says"), [
    (Relation(name="sum", instances=((0, 4),)), r"different cells of 0\.\.3"),
    (Relation(name="sum", instances=((0, 0),)), "different cells"),
    (Relation(name="less", places=2, instances=((0, 1, 2),)), "must have 2 different cells"),
])  # fmt: skip
def test_a_structure_whose_instances_do_not_fit_is_refused(tmp_path, relation, says):
    with pytest.raises(ValueError, match=says):
        written(tmp_path / "set", ROWS, Structure(relations=(relation,)))
    assert not (tmp_path / "set").exists()


TINY = (
    "model.mixer=linear model.symbols=true model.positions=none model.puzzle_emb_len=0 model.hidden_size=8 "
    "model.num_heads=1 model.expansion=1 model.h_cycles=1 model.l_cycles=2 model.q_from=mean data.hints=2 "
    "rollout.supervision_steps=3 rollout.halt_exploration_prob=0.9 training.batch_size=4 training.steps=8 "
    "training.checkpoint_every=4 training.monitor.every=4 training.compile=none training.precision=fp32"
)
TERMS = "model.noise=additive loss.weights.equil_z=1 loss.weights.rh_stable_z=1 loss.weights.rep_x=1"
SHORT = (
    "model.hidden_size=16 training.steps=4 training.batch_size=4 training.monitor.every=2 training.compile=none "
    "optimizer.schedule.warmup_steps=1 rollout.supervision_steps=2"
)


def test_training_on_relations_resumes_to_the_bit_and_is_evaluated(here):
    written(here / "set")
    words = ["train", "sudoku-4x4", "data=set", *TINY.split(), *TERMS.split()]
    assert main([*words, "run=whole"]) == 0
    assert main([*words, "run=half", "--max-steps", "4"]) == 0
    assert main(["train", "run=half", "--resume"]) == 0
    assert same(here / "whole", here / "half")
    assert main(["evaluate", "half", "steps=4"]) == 0


def test_puzzles_without_a_symmetry_are_solved_with_decimation_after_a_training_with_hints(here, monkeypatch):
    make_set("futoshiki --train 4 --validation 2 --test 2 --processes 1", here / "set")
    assert main(["train", "sudoku-4x4", "data=set", *TINY.split(), "run=run"]) == 0
    metadata, split = read_split("set", "test")
    Path("typed.txt").write_text(puzzle_of(metadata).draw(split.inputs[0], None, split.relations_of(0)))
    every = []
    rule = pytest.importorskip("reason.extensions.decimation.rule")
    monkeypatch.setattr(rule, "unroller", lambda *given, made=rule.unroller: every.append(given[0]) or made(*given))
    output("solve run typed.txt steps=2 --restarts 3", "the rules do not hold: ", status=None)  # an untrained network
    assert set(every) == {3}
    every.clear()
    output("solve run typed.txt steps=2 --restarts 1 studies=decimation=none", status=None)
    assert not every


def test_the_larger_logit_is_that_of_the_token():
    logits = torch.tensor([[0.0, 5.0, 1.0, 2.0, -1.0], [0.0, 1.0, 3.0, 2.0, 4.0]])
    assert unmarked(logits, (2, 1)).tolist() == [[0, 5, 2], [0, 4, 3]]
    assert unmarked(logits, ()) is logits


def test_a_marked_training_is_read_without_marks(here):
    make_set("maze --size 6 --min-path 5 --train 12 --validation 4 --test 4 --processes 1", here / "mazes")
    data = PuzzleData("mazes", "train", marks=True)
    assert data.labels.max() == data.shape.vocab_size == 6
    assert data.shape.marks == (FREE,)
    words = ["train", "maze-any", "data=mazes", "data.marks=true", *SHORT.split()]
    assert main([*words, "run=run"]) == 0
    assert main([*words, "run=half", "--max-steps", "2"]) == 0
    assert main(["train", "run=half", "--resume"]) == 0
    assert same(here / "run", here / "half")
    run = api.load("run", device="cpu").model
    batch = data.take(torch.arange(4))
    x = run.encode(batch)
    state = run.step(run.initial_state(x), x)
    assert run.readout(state, x).logits.shape[-1] == 6
    assert run.train().readout(state, x).logits.shape[-1] == 7
    assert main(["evaluate", "run", "steps=2"]) == 0
    told = json.loads(output(["solve", "run", "S..\n.#.\n..G", "--json", "--restarts", "1"], status=None))
    assert told["task"] == {"name": "maze", "size": 3}
