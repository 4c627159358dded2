"""A family and a loss term of one's own, each in one place: registered, trained, resumed to the bit, evaluated."""

from pathlib import Path
from typing import Literal, NamedTuple

import pytest
import torch
from conftest import trainer_of
from pydantic import Field
from test_loop import resumes_to_the_bit, untimed
from torch import Tensor, nn

from reason.config.overrides import derive, override, read_config
from reason.config.schema import Config
from reason.context import Context
from reason.errors import ConfigError
from reason.losses import TERMS, Term
from reason.models import FAMILIES, Family
from reason.models.base import Batch, ModelConfig, Readout, Reasoner, Shape
from reason.rollout import Unroll
from reason.runs.evaluation import evaluate_run
from reason.settings.base import Need


class PooledConfig(ModelConfig):
    """Every cell sees the mean of all."""

    kind: Literal["pooled"] = "pooled"
    width: int = Field(8, ge=1, description="of the state")
    pad: bool = Field(False, description="a scratchpad")


class PooledState(NamedTuple):
    z: Tensor  # (B, S, D)


class Pooled(Reasoner):
    """z ← tanh(W[z, mean z] + x̂)."""

    def __init__(self, config: PooledConfig, shape: Shape, dtype: torch.dtype):
        super().__init__()
        self.shape, self.dtype = shape, dtype
        self.tokens = nn.Embedding(shape.vocab_size, config.width)
        self.net = nn.Linear(2 * config.width, config.width)
        self.head = nn.Linear(config.width, shape.vocab_size)

    def encode(self, batch: Batch) -> Context:
        return Context(self.tokens(batch.inputs))

    def initial_state(self, context: Context) -> PooledState:
        return PooledState(torch.zeros_like(context.x))

    def step(self, state: PooledState, context: Context) -> PooledState:
        mean = state.z.mean(1, keepdim=True).expand_as(state.z)
        return PooledState(torch.tanh(self.net(torch.cat([state.z, mean], -1)) + context.x))

    def readout(self, state: PooledState, context: Context, step: int | None = None) -> Readout:
        return Readout(self.head(state.z))


def drift(unroll: Unroll) -> Tensor:
    """How far the last step moved the state."""
    moved = unroll.states[-1].z - (unroll.states[-2] if len(unroll.states) > 1 else unroll.before).z
    return unroll.row_mean(moved.square().mean((1, 2)))


def scratchpad(config: Config) -> list[Need]:
    return [Need(getattr(config.model, "pad", False), "a scratchpad", "model.pad=true")]


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FAMILIES, "pooled", Family(PooledConfig, Pooled))
    monkeypatch.setitem(TERMS, "drift", Term(drift, "how far the last step moves", needs=scratchpad))


@pytest.fixture
def mine(sudoku_4x4: Path, _registered: None) -> Config:
    return derive(
        Config(),
        {
            "data.directory": str(sudoku_4x4),
            "model.kind": "pooled",
            "model.pad": True,
            "loss.weights.q_halt": 0,
            "loss.weights.drift": 0.1,
            "rollout.halting": "none",
            "rollout.supervision_steps": 2,
            "rollout.loops.count": 2,
            "training.steps": 2,
            "training.batch_size": 8,
            "training.log_every": 1,
            "training.precision": "fp32",
        },
    )


def test_it_trains_resumes_to_the_bit_and_evaluates(mine: Config, tmp_path: Path) -> None:
    resumes_to_the_bit(mine, tmp_path, steps=1)
    assert read_config(tmp_path / "parts" / "config.json") == mine
    lines = untimed(tmp_path / "whole")
    assert all(line["loss"] == pytest.approx(line["loss/lm"] + 0.1 * line["loss/drift"]) for line in lines)
    assert all(line["loss/drift"] > 0 for line in lines)
    results, _ = evaluate_run(tmp_path / "whole", derive(mine, {"evaluation.steps": 1}))
    assert results["steps"] == 1
    assert results["preset"] == "custom"


@pytest.mark.parametrize(("changes", "words"), [
    ({"model.pad": "false"}, r"drift=0\.1 needs a scratchpad, .* type model\.pad=true, or loss\.weights\.drift=0"),
    ({"loss.weights.q_halt": "1"}, r"needs a halting head \(q_halt\), which this config lacks: type loss"),
    ({"loss.weights.equil_z": "1"}, r"needs maps of the state .*: type loss\.weights\.equil_z=0"),
    ({"balance.kind": "alg-grad-norm"}, r"needs weights at which .*: type balance\.kind=fixed"),
    ({"optimizer.freeze_embedding_after": "1"}, r"needs an embedding .*: type optimizer\.freeze_embedding_after=none"),
    ({"training.compile": "inductor"}, r"=inductor needs networks .*: type training\.compile=none"),
])  # fmt: skip
def test_what_it_cannot_is_refused(changes: dict[str, str], words: str, mine: Config) -> None:
    with pytest.raises(ConfigError, match=words):
        override(mine, changes)


def test_terms_of_another_file_are_refused(mine: Config, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    trainer_of(mine, tmp_path / "run")
    monkeypatch.delitem(TERMS, "drift")
    with pytest.raises(ConfigError, match=r"unknown setting loss\.weights\.drift"):
        read_config(tmp_path / "run" / "config.json")
