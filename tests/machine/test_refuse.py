"""More than a machine can hold is refused before it is made, with both numbers."""

from pathlib import Path

import pytest
import torch
from conftest import NARROW, refusal
from survivors import change_json

from reason.config.overrides import override
from reason.config.schema import Config
from reason.errors import ConfigError
from reason.machine import estimate, refuse
from reason.machine.estimate import available_memory, estimate_memory
from reason.machine.refuse import refuse_large_model, refuse_large_training
from reason.models.base import Shape
from reason.nn.dtypes import Dtypes
from reason.presets import preset

CPU = torch.device("cpu")
SMALL = Shape(seq_len=16, vocab_size=6)


def config(**changes: str) -> Config:
    return override(preset("sudoku-4x4").config(), {key.replace("__", "."): value for key, value in changes.items()})


def test_a_batch_of_a_hundred_million_is_refused(sudoku_4x4: Path, here: Path) -> None:
    words = [word for word in NARROW if "batch_size" not in word]
    refusal(
        ["train", "sudoku-4x4", f"data={sudoku_4x4}", *words, "training.batch_size=100000000", "run=r"],
        "training.batch_size=100000000: training would hold ",
        "are available on cpu; type training.batch_size=",
    )
    assert list(here.iterdir()) == []


def test_what_activations_take_is_estimated(tiny: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    """The weights and the carry fit, and what autograd keeps of the cycles does not."""
    large = override(tiny, {"model.gradient": "all-cycles", "training.batch_size": "64"})
    needed = estimate_memory(large, SMALL, Dtypes(torch.float32), "cpu").total
    monkeypatch.setattr(refuse, "available_memory", lambda _: needed - 1)
    with pytest.raises(ConfigError, match=r"training would hold [0-9.]+ MB, [0-9.]+ MB are available on cpu"):
        refuse_large_training(large, [SMALL], CPU)
    monkeypatch.setattr(refuse, "available_memory", lambda _: needed)
    random = torch.get_rng_state()
    refuse_large_training(large, [SMALL], CPU)
    refuse_large_training(override(large, {"training.batch_size": "128"}), [SMALL], CPU, 2)
    assert torch.equal(random, torch.get_rng_state())


def test_small_runs_are_let_through_unestimated(tiny: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    """An estimate takes a second."""
    monkeypatch.setattr(refuse, "estimate_memory", lambda *_: pytest.fail("it was estimated"))
    refuse_large_training(tiny, [SMALL], CPU)


@pytest.mark.parametrize(
    "shape",
    [{"vocab_size": 10**13}, {"num_puzzle_identifiers": 10**13}, {"seq_len": 10**10}],
    ids=["vocabulary", "identifiers", "cells"],
)
def test_a_model_of_terabytes_is_counted_not_built(shape: dict[str, int]) -> None:
    large = config(
        model__puzzle_emb_len="1", model__mixer="attention", model__positions="learned", model__num_heads="2"
    )
    with pytest.raises(
        ConfigError, match=r"the weights of this model for .* take [0-9.]+ [GTP]B, .* are available on cpu"
    ):
        refuse_large_model(large.model, SMALL.model_copy(update=shape), CPU)


def test_a_run_that_says_so_is_not_built_either(half: Path) -> None:
    change_json(half / "config.json", lambda tree: tree["shape"].update(seq_len=2**22, structure={}))
    refusal("solve half 1...............", "the weights of this model for 4194304 cells, 6 tokens")
    change_json(half / "config.json", lambda tree: tree["shape"].update(vocab_size="many"))
    refusal("solve half 1...............", "config.json: shape.vocab_size: input should be a valid integer")


@pytest.mark.parametrize(
    "setting",
    ["model.num_layers", "model.h_cycles", "model.l_cycles", "rollout.supervision_steps", "evaluation.steps", "seed"],
)
def test_counts_have_bounds(setting: str) -> None:
    with pytest.raises(ConfigError, match=rf"{setting}(=|: )"):
        override(Config(), {setting: "1000000000000000000000"})


def test_what_is_available_is_told_by_the_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine's own memory, or what is left of the container's, whichever is less."""
    info, limit, used, stat = (tmp_path / name for name in ("meminfo", "max", "current", "stat"))
    info.write_text("MemTotal:  9000000 kB\nMemAvailable:    2000 kB\n")
    monkeypatch.setattr(estimate, "INFO", str(info))
    monkeypatch.setattr(estimate, "CONTAINERS", [(str(limit), str(used), str(stat), "inactive_file")])
    assert available_memory(CPU) == 2_048_000
    limit.write_text("max\n")
    used.write_text("1000\n")
    assert available_memory(CPU) == 2_048_000
    limit.write_text("501000\n")
    assert available_memory(CPU) == 500_000
    stat.write_text("anon 600\ninactive_file 400\n")  # a cache that can be dropped
    assert available_memory(CPU) == 500_400
    stat.unlink()
    info.unlink()
    assert available_memory(CPU) == 500_000
