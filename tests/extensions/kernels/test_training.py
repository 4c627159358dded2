"""Gated layers in one kernel: what `auto` comes to, what is refused, and a training with it beside one without."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from conftest import trainer_of
from evaluators import read, shaken, small

from reason.config.overrides import override
from reason.config.schema import Config
from reason.data import PuzzleData
from reason.errors import ConfigError
from reason.extensions.kernels import settings
from reason.extensions.kernels.self_test import works as works_here
from reason.extensions.kernels.settings import install, lacks
from reason.nn.dtypes import Dtypes
from reason.presets import preset
from reason.training import accelerate
from reason.training.auto import resolve
from reason.training.compiling import compile_networks

CPU = torch.device("cpu")
needed = pytest.mark.skipif(not works_here(torch.bfloat16), reason="a CPU with AVX-512 BF16 and a C++ compiler")


@pytest.fixture
def narrow(tiny: Config) -> Config:
    return override(tiny, {"training.precision": "bf16", "training.compile": "inductor", "model.hidden_size": "32"})


@needed
@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
@pytest.mark.parametrize("mixer", ["mlp", "attention"])
def test_a_training_with_it_is_one_without_up_to_rounding(
    mixer: str, backend: str, narrow: Config, tmp_path: Path
) -> None:
    torch._dynamo.reset()
    config = override(
        narrow,
        {"training.compile": "none", "model.mixer": mixer, "model.positions": "none", "model.puzzle_emb_len": "0"},
    )
    losses, weights = [], []
    for name in ("with", "without", "again"):
        trainer = trainer_of(config, tmp_path / name)
        compile_networks(trainer.model, backend)
        if name != "without":
            install(trainer.model)
        torch.manual_seed(1)
        for _ in range(3):
            trainer.optimizer_step()
        losses.append(trainer.meters.read()["loss/lm"] or 0.0)
        weights.append(torch.cat([each.detach().flatten() for each in trainer.model.parameters()]))
        torch._dynamo.reset()
    assert losses[0] == losses[2]
    assert torch.equal(weights[0], weights[2])
    assert losses[0] == pytest.approx(losses[1], rel=2e-2)
    assert 0 < (weights[0] - weights[1]).norm() < 0.02 * weights[1].norm()


@pytest.fixture
def works(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine for it, whatever this one is."""
    monkeypatch.setattr(settings, "works", lambda dtype: True)
    monkeypatch.setattr(accelerate, "bfloat16_is_faster", lambda: True)
    return


@pytest.mark.usefixtures("works")
def test_auto_comes_to_it_where_it_can_be(narrow: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    shape = [preset("sudoku-4x4").shape]

    def comes_to(device: torch.device = CPU, **changes: str) -> object:
        changes = {key.replace("__", "."): value for key, value in changes.items()}
        return resolve(override(narrow, changes), shape, device).config.model.fused

    assert comes_to() is True
    assert comes_to(training__compile="none") == "auto"  # an evaluation may compile
    assert comes_to(training__precision="fp32") is True
    assert comes_to(training__precision="amp-bf16") is False
    assert comes_to(model__hidden_size="40", model__num_heads="1") is False
    assert (
        comes_to(model__mixer="groups", model__puzzle_emb_len="0", model__expansion="2", training__compile="none")
        is True
    )
    assert comes_to(model__mixer="local", model__puzzle_emb_len="0") is False  # of the Moore neighbourhood
    assert comes_to(model__fused="false") is False
    assert comes_to(torch.device("meta")) == "auto"  # not a CPU: a processor may read the run with the kernel
    monkeypatch.setattr(accelerate, "bfloat16_is_faster", lambda: False)
    assert comes_to() is False
    assert comes_to(training__precision="fp32") is True
    assert comes_to(model__fused="true") is True


@pytest.mark.usefixtures("works")
@pytest.mark.parametrize(("changes", "words"), [
    ({"training.compile": "none"}, r"nothing is compiled \(training\.compile=inductor\)"),
    ({"training.precision": "amp-bf16"}, r"this model in float32, products in bfloat16; type model\.fused=false"),
    ({"model.hidden_size": "40", "model.num_heads": "1"}, "model.hidden_size=40 is no multiple of 16"),
])  # fmt: skip
def test_what_it_cannot_compute_is_refused(changes: dict[str, str], words: str, narrow: Config, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=words):
        trainer_of(override(narrow, {"model.fused": "true"} | changes), tmp_path / "run")


def test_other_machines_and_mixers_are_refused(narrow: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = override(narrow, {"model.fused": "true"}).model
    assert "the kernel runs on CPUs" in str(lacks(config, Dtypes(torch.bfloat16), torch.device("cuda")))
    monkeypatch.setattr(settings, "works", lambda dtype: False)
    with pytest.raises(ConfigError, match="a CPU with AVX-512 BF16, without AMX, and a C"):
        trainer_of(override(narrow, {"model.fused": "true"}), tmp_path / "run")
    assert accelerate.accelerator(config, Dtypes(torch.bfloat16), CPU) is None


STEPS = {"model.mixer": "local", "model.neighbourhood": "von-neumann", "model.positions": "none"}
STEPS |= {"model.puzzle_emb_len": "0", "model.q_from": "mean", "model.expansion": "4", "training.compile": "none"}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model.neighbourhood": "moore"}, "neighbourhood=moore"),
        ({"model.expansion": "0.5"}, r"the inner width 16 \(model\.expansion\) is no multiple of 32"),
        ({"model.noise": "additive"}, "noise=additive"),
        ({"model.dt": "0.5"}, "z ← F"),
        ({"model.equation": "averaged"}, "z ← F"),
    ],
    ids=str,
)
def test_what_no_kernel_of_whole_steps_computes_is_refused(
    changes: dict[str, str], words: str, narrow: Config, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=words):
        trainer_of(override(narrow, {"model.fused": "true"} | STEPS | changes), tmp_path / "run")


OPENED = {"model.mixer": "groups", "model.symbols": "true", "model.open_symbols": "true", "model.initial": "random"}


@needed
@pytest.mark.parametrize(
    "changes", [{}, OPENED, OPENED | {"training.precision": "fp32"}], ids=["local", "open symbols", "float32"]
)
def test_a_training_with_whole_steps_is_one_without_up_to_rounding(
    changes: dict[str, str], narrow: Config, tmp_path: Path
) -> None:
    weights = []
    for name, fused in (("with", "auto"), ("without", "false"), ("again", "true")):
        trainer = trainer_of(override(narrow, STEPS | changes | {"model.fused": fused}), tmp_path / name)
        assert trainer.config.model.fused is (fused != "false")
        torch.manual_seed(1)
        for _ in range(3):
            trainer.optimizer_step()
        weights.append(torch.cat([each.detach().flatten() for each in trainer.model.parameters()]))
    assert torch.equal(weights[0], weights[2])
    assert 0 < (weights[0] - weights[1]).norm() < 0.02 * weights[1].norm()


@needed
def test_threads_of_the_kernel_change_no_digit(monitored_4x4: Path) -> None:
    data, threads, found = PuzzleData(monitored_4x4, "test"), torch.get_num_threads(), []
    structured = {"mixer": "groups", "symbols": True, "hidden_size": 32, "expansion": 2, "q_from": "mean"}
    model = shaken(small(data.shape, torch.bfloat16, initial="random", **structured))
    install(model)
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            found.append({key: value for key, value in read(model, data, 3, 5).items() if key != "seconds"})
    finally:
        torch.set_num_threads(threads)
    assert found[0] == found[1] == found[2]
