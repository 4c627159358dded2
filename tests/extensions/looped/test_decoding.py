"""Greedy generation: what it says is what teacher forcing scores."""

from pathlib import Path

import pytest
import torch
from conftest import make_set, trainer_of

from reason.config.overrides import override
from reason.context import Context
from reason.data import PuzzleData
from reason.extensions.looped.decoding import answer, generate
from reason.extensions.looped.model import LoopedConfig, LoopedModel, LoopedState
from reason.models import Shape
from reason.models.base import IGNORE, Batch, Readout, Reasoner
from reason.presets import preset
from reason.rollout import unroll

END = 14


class Successor(Reasoner):
    """Says the successor of the token that a cell holds, after `steps` loops plus those."""

    shape, dtype = Shape(seq_len=6, vocab_size=20), torch.float32

    def encode(self, batch: Batch) -> Context:
        return Context(batch.inputs[..., None].float())

    def initial_state(self, context: Context) -> LoopedState:
        return LoopedState(context.x)

    def step(self, state: LoopedState, context: Context) -> LoopedState:
        return LoopedState(state.z + 1)

    def readout(self, state: LoopedState, context: Context, step: int | None = None) -> Readout:
        return Readout(torch.nn.functional.one_hot(state.z[..., 0].long() % 20, 20).float())


def test_generation_by_hand() -> None:
    prompts = torch.tensor([[3, 4], [9, 11]])
    assert generate(Successor(), prompts, 4, loops=1).tokens.tolist() == [[5, 6, 7, 8], [12, 13, 14, 15]]
    assert generate(Successor(), prompts[:1], 3, loops=3).tokens.tolist() == [[7, 10, 13]]
    assert prompts.tolist() == [[3, 4], [9, 11]]


def test_generation_stops_when_every_row_has_said_the_end() -> None:
    prompts = torch.tensor([[11, 12], [10, 11]])
    assert generate(Successor(), prompts, 9, loops=1, end=END).tokens.tolist() == [[13, 14, 15], [12, 13, 14]]
    assert generate(Successor(), prompts[:1], 9, loops=1, end=END).tokens.tolist() == [[13, 14]]
    assert generate(Successor(), prompts[:1], 1, loops=1, end=END).tokens.tolist() == [[13]]
    assert generate(Successor(), prompts[:1], 4, loops=1).tokens.tolist() == [[13, 14, 15, 16]]


@pytest.fixture(scope="module")
def addition(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sums of one and two digits: prompts of several lengths."""
    words = "addition --digits 2 --min-digits 1 --train 300 --test 100 --seed 0"
    return make_set(words, tmp_path_factory.mktemp("sets") / "addition")


def agree(model: LoopedModel, data: PuzzleData, steps: int) -> float:
    """Is greedy exact where teacher forcing is, row by row, and said alike up to the first mistake? The share exact."""
    batch = data.take(torch.arange(len(data)))
    with torch.no_grad():
        *_, forced = unroll(model.eval(), batch, steps)
        assert forced.logits.isfinite().all()
    assert torch.equal(answer(model, batch, steps).exact, forced.exact)
    scored = batch.labels != IGNORE
    for row in range(len(data)):
        cells = scored[row].nonzero().flatten().tolist()
        said = generate(model, batch.inputs[row : row + 1, : cells[0] + 1], len(cells), steps).tokens[0].tolist()
        for token, cell in zip(said, cells, strict=True):
            assert token == forced.answer[row, cell]
            if token != batch.labels[row, cell]:
                break
    return forced.exact.float().mean().item()


def test_the_loss_is_that_of_its_own_history(addition: Path) -> None:
    """What a model said goes on being read, also where it was wrong; the labels are those of the sum."""
    data = PuzzleData(addition, "test")
    model = LoopedModel(LoopedConfig(hidden_size=16, num_heads=2, init_std=0.5), data.shape).eval()
    batch = data.take(torch.arange(6))
    expected, forced = [], []
    with torch.no_grad():
        *_, told = unroll(model, batch, 2)
        for row in range(6):
            cells = (batch.labels[row] != IGNORE).nonzero().flatten()
            text, logits = batch.inputs[row : row + 1, : cells[0] + 1], []
            for _ in cells:
                *_, last = unroll(model, Batch(text, text, text[:, 0]), 2)
                logits.append(last.logits[0, -1])
                text = torch.cat([text, logits[-1].argmax().view(1, 1)], dim=1)
            for found, said in ((expected, torch.stack(logits)), (forced, told.logits[row, cells])):
                found.append(torch.nn.functional.cross_entropy(said, batch.labels[row, cells]).item())
    assert len({int((row != IGNORE).sum()) for row in batch.labels}) > 1
    assert answer(model, batch, 2).loss.tolist() == pytest.approx(expected, rel=1e-5)
    assert expected != pytest.approx(forced, rel=1e-2)


def test_greedy_equals_teacher_forced_where_some_sums_are_learned(addition: Path, tmp_path: Path) -> None:
    model = {"model.hidden_size": "32", "model.num_heads": "2", "model.init_std": "0.1", "rollout.loops.count": "2"}
    training = {"training.steps": "1000", "training.batch_size": "64", "training.precision": "fp32"}
    training |= {"optimizer.lr": "1e-2", "optimizer.schedule.warmup_steps": "10", "data.directory": str(addition)}
    config = override(preset("stars-small-pre-layernorm").config(), model | training)
    trainer = trainer_of(config, tmp_path)
    for _ in range(12):
        for _ in range(25):
            trainer.optimizer_step()
        share = agree(trainer.model, PuzzleData(addition, "train"), 2)
        trainer.model.train()
        if share > 0.05:
            break
    assert 0.05 < share < 1
