"""The looped family in training: resumed to the bit, its curve known, its terms on every model, its refusals."""

from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import pairs, trainer_of
from test_compiling import both
from test_loop import hold_against_golden, resumes_to_the_bit

from datasets_gen.layout import Split, write_dataset
from reason.config.overrides import override
from reason.config.schema import Config
from reason.errors import ConfigError
from reason.presets import preset
from reason.runs.sets import load_training_set
from reason.training.log import read_metrics

NARROW = pairs(
    "model.hidden_size=16 model.num_heads=2 training.batch_size=8 training.steps=6 training.log_every=2 "
    "training.checkpoint_every=3 training.precision=fp32"
)
LATE = '{"jsrr": {"points": [[0, 0], [0.05, 1]]}}'
RANDOM = {"rollout.loops.random": '{"law": "uniform", "max": 4}', "rollout.loops.start": "2"}
JSRR = {"loss.weights.jsrr": "0.1", "loss.jsrr.iterations": "2", "loss.schedules": LATE}

VARIANTS = {
    "random loops, JSRR, dropout": RANDOM | JSRR | {"model.dropout": "0.1"},
    "prelude, coda, injection, per-loop": pairs(
        "model.prelude=1 model.coda=1 model.between=injection rollout.loops.supervision=per-loop "
        "training.precision=bf16"
    ),
    "damping, inter-loop norm, L2": pairs("model.between=damping,norm loss.weights.l2=0.1"),
    "log-normal, deep supervision": pairs(
        "rollout.supervision_steps=2 rollout.carry=persistent rollout.grad_steps=2 ema.decay=0.9"
    )
    | {"rollout.loops.random": '{"law": "log-normal", "mean": 0.7, "sigma": 0.7, "max": 100}'},
}


@pytest.fixture
def looped(addition: Path) -> Config:
    return override(preset("stars-small-post-layernorm").config(), NARROW | {"data.directory": str(addition)})


@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS)
def test_resuming_equals_not_stopping(changes: dict[str, str], looped: Config, tmp_path: Path) -> None:
    """Stopped at step 3 of 6: also the number of loops goes on where it was."""
    resumes_to_the_bit(override(looped, changes), tmp_path)


def test_golden_curve(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """20 steps in float32 of random loops with JSRR, on a set that depends on no generator."""
    tokens = np.arange(24 * 9).reshape(24, 9) ** 2 % 5 + 1
    splits = {"train": Split.of_puzzles(tokens, np.roll(tokens, -1, 1))}
    write_dataset(tmp_path / "set", splits, task={"causal": True}, vocab_size=6)
    settings = NARROW | RANDOM | JSRR | {"training.steps": "20", "training.log_every": "1"}
    settings |= {"data.directory": str(tmp_path / "set"), "model.dropout": "0.1"}
    trainer_of(override(preset("stars-small-post-sandwich-layernorm").config(), settings), tmp_path / "run").train()
    lines = read_metrics(tmp_path / "run")
    assert {line["loops"] for line in lines[2:]} == {1, 2, 3, 4}
    assert [("loss/jsrr" in line) for line in lines[:3]] == [False, True, True]
    hold_against_golden("looped-jsrr", [line["loss"] for line in lines], request.config.getoption("--record-golden"))


def test_jsrr_on_a_recursive_preset(tiny: Config, tmp_path: Path) -> None:
    """The term is logged and enters the loss as eq. 4 has it."""
    settings = {"loss.weights.jsrr": "0.2", "training.steps": "2", "training.log_every": "1"}
    trainer_of(override(tiny, settings), tmp_path / "short").train()
    for line in read_metrics(tmp_path / "short"):
        total = 0.8 * line["loss/lm"] + 0.5 * line["loss/q_halt"] + 0.2 * line["loss/jsrr"]
        assert line["loss"] == pytest.approx(total, rel=1e-5)


@pytest.mark.parametrize(("name", "other", "words"), [
    ("stars-small", "sudoku_4x4", r"type model\.causal=false"),
    ("sudoku-6x6-looped", "addition", r"type model\.causal=true, or data=DIR of a set made with --blank-answer"),
    ("sudoku-6x6", "addition", "lacks: type data=DIR of a set made with --blank-answer"),
])  # fmt: skip
def test_labels_must_mean_what_the_model_says(
    name: str, other: str, words: str, request: pytest.FixtureRequest
) -> None:
    config = override(preset(name).config(), {"data.directory": str(request.getfixturevalue(other))})
    with pytest.raises(ConfigError, match=words):
        load_training_set(config, torch.device("cpu"))


def test_compiled_equals_eager(looped: Config, tmp_path: Path) -> None:
    """One graph of the block whatever T is; Jacobian products go past it."""
    _, graphs = both(override(looped, RANDOM | JSRR), tmp_path)
    assert graphs[0] == graphs[-1] > 0
