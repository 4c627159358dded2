"""A typed sum written on by a causal model."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import make_set

from datasets_gen.extensions.addition.puzzles import Addition
from reason.cli import main
from reason.context import Context
from reason.extensions.looped.decoding import generate
from reason.models.base import Readout
from reason.solve import completed


def test_a_sum_is_typed_and_solved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, run = make_set("addition --digits 2 --train 20 --test 5", tmp_path / "set"), tmp_path / "run"
    words = ["model.hidden_size=16", "training.steps=2", "training.batch_size=8", "training.log_every=2"]
    assert main(["train", "stars-small-post-sandwich-layernorm", f"data={data}", f"run={run}", *words]) == 0
    capsys.readouterr()
    status = main(["solve", str(run), "12+34=", "steps=3", "--restarts", "8", "--json"])
    told = json.loads(capsys.readouterr().out)
    assert [row["step"] for row in told["steps"]] == [1, 2, 3]
    assert told["rules_hold"] is told["sure"] is (status == 0)
    assert told["restarts"] == 1  # a text that is written on is not tried again
    assert told["steps"][0]["halting"] is None
    assert told["answer"] == told["steps"][-1]["answer"]


class Teacher(torch.nn.Module):
    """A causal model that knows the sum."""

    def __init__(self, puzzle: Addition, operands: list[int]):
        super().__init__()
        label = puzzle.example(operands)[1]
        self.known = torch.from_numpy(np.where(label, label, 0)).long()

    def write_on(self, prompt, count, steps, end):
        return generate(self, prompt, count, steps, end=end).tokens

    def encode(self, batch):
        return Context(batch.inputs)

    def initial_state(self, context):
        return (context.x,)

    def step(self, state, x):
        return state

    def readout(self, state, context, step=None):
        return Readout(torch.nn.functional.one_hot(self.known[: state[0].shape[1]], 15)[None].float())


@pytest.mark.parametrize("operands", [[12, 34], [99, 99], [5, 3]])
def test_a_causal_prompt_is_written_on_to_its_end(operands: list[int]) -> None:
    puzzle = Addition(2)
    question, label = puzzle.example(operands)
    asked = puzzle.parse("+".join(map(str, operands)))
    done = completed(Teacher(puzzle, operands), puzzle, asked, 2, torch.device("cpu"))
    assert (done == question).all()
    frames = puzzle.frames(done, label[None])
    text = "+".join(map(str, operands)) + "= " + str(sum(operands))[::-1] + "§"
    assert "".join(puzzle.glyphs[t] for t in frames[1] if t) == text[: puzzle.seq_len]
    assert "".join(puzzle.glyphs[t] for t in frames[0] if t) == text.partition(" ")[0] + " "
