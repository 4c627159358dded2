"""Greedy generation: what it says is what teacher forcing scores."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from datasets_gen.__main__ import main as generate
from reason.config.overrides import override
from reason.data import PuzzleData
from reason.generation.decoding import greedy, prompt_lengths
from reason.losses.halting import correct_cells
from reason.models import LoopedConfig, LoopedModel, Shape
from reason.models.base import IGNORE, Batch, Readout, Reasoner
from reason.presets import preset
from reason.rollout import unroll
from reason.runs.build import build_trainer, load_training_set

END = 14


class Nothing(NamedTuple):
    z: Tensor


class Successor(Reasoner):
    """Says the successor of the token that a cell holds, after `steps` loops plus those."""

    shape, dtype = Shape(seq_len=6, vocab_size=20), torch.float32

    def encode(self, batch: Batch) -> Tensor:
        return batch.inputs[..., None].float()

    def initial_state(self, x: Tensor) -> Nothing:
        return Nothing(x)

    def step(self, state: Nothing, x: Tensor) -> Nothing:
        return Nothing(state.z + 1)

    def readout(self, state: Nothing, step: int | None = None) -> Readout:
        return Readout(torch.nn.functional.one_hot(state.z[..., 0].long() % 20, 20).float())


def test_generation_by_hand() -> None:
    """Prompts of two lengths, rubbish after them, one row that says the end early."""
    prompts = torch.tensor([[3, 4, 9, 9, 9, 9], [5, 11, 12, 9, 9, 9], [8, 0, 0, 0, 0, 0]])
    said = greedy(Successor(), prompts, torch.tensor([2, 3, 1]), steps=1, end=END)
    no = IGNORE
    assert said.tolist() == [[no, 5, 6, 7, 8, 9], [no, no, 13, 14, no, no], [9, 10, 11, 12, 13, 14]]
    assert prompts[0].tolist() == [3, 4, 9, 9, 9, 9]
    assert greedy(Successor(), prompts[:1], torch.tensor([2]), steps=3).tolist() == [[no, 7, 10, 13, 16, 19]]
    with pytest.raises(ValueError, match="at least one"):
        greedy(Successor(), prompts, torch.tensor([0, 1, 1]), steps=1)


@pytest.fixture(scope="module")
def addition(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sums of one and two digits: prompts of several lengths."""
    directory = tmp_path_factory.mktemp("sets") / "addition"
    words = f"addition --digits 2 --min-digits 1 --train 300 --test 100 --seed 0 --output-dir {directory}"
    assert generate(words.split()) == 0
    return directory


def agree(model: LoopedModel, data: PuzzleData, steps: int) -> float:
    """Is greedy exact where teacher forcing is, row by row, and said alike up to the first mistake? The share exact."""
    batch = data.take(torch.arange(len(data)))
    *_, (_, readout) = unroll(model.eval(), batch, steps)
    forced = readout.logits.argmax(-1)
    _, exact = correct_cells(readout.logits, batch.labels)
    said = greedy(model, batch.inputs, prompt_lengths(batch.labels), steps, END)
    scored = batch.labels != IGNORE
    right = ((said == batch.labels) | ~scored).all(-1)
    assert torch.equal(right, exact)
    for row in range(len(data)):
        for cell in scored[row].nonzero().flatten().tolist():
            assert said[row, cell] == forced[row, cell]
            if said[row, cell] != batch.labels[row, cell]:
                break
    return exact.float().mean().item()


@pytest.mark.parametrize("changes", [{}, {"norm_placement": "pre", "coda": 1, "input_injection": True}])
def test_greedy_equals_teacher_forced_untrained(changes: dict[str, object], addition: Path) -> None:
    data = PuzzleData(addition, "test")
    model = LoopedModel(LoopedConfig(hidden_size=16, num_heads=2, init_std=0.5, **changes), data.shape)
    agree(model, data, 3)


def test_greedy_equals_teacher_forced_where_some_sums_are_learned(addition: Path, tmp_path: Path) -> None:
    settings = {
        "data.directory": str(addition),
        "model.hidden_size": "32",
        "model.num_heads": "2",
        "model.init_std": "0.1",
        "rollout.loops.count": "2",
        "optimizer.lr": "1e-2",
        "optimizer.schedule.warmup_steps": "10",
        "training.steps": "1000",
        "training.batch_size": "64",
        "training.precision": "fp32",
    }
    config = override(preset("stars-small-pre-layernorm").config(), settings)
    trainer = build_trainer(config, tmp_path, load_training_set(config, torch.device("cpu")))
    for _ in range(12):
        for _ in range(25):
            trainer.optimizer_step()
        share = agree(trainer.model, PuzzleData(addition, "train"), 2)
        trainer.model.train()
        if share > 0.05:
            break
    assert 0.05 < share < 1
