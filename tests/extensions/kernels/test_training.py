"""Kernels of our own: compiled once and kept; what `auto` comes to, what is refused, and a training with them."""

import subprocess
import warnings

import pytest
import torch
from conftest import trainer_of

from reason.config.overrides import override
from reason.errors import ConfigError
from reason.extensions.kernels import library as kernels
from reason.extensions.kernels import settings
from reason.extensions.kernels.library import works
from reason.presets import preset
from reason.training import accelerate
from reason.training.auto import resolve

BF16, FP32 = kernels.DTYPES
needed = pytest.mark.skipif(not works(FP32), reason="a CPU with AVX2 and a C++ compiler")


@pytest.fixture
def cache(monkeypatch, tmp_path):
    """An empty cache, and one small source in place of the kernels."""
    (tmp_path / "answer.cpp").write_text('extern "C" int answer() { return 42; }\n')
    monkeypatch.setattr(kernels, "SOURCES", tmp_path)
    kernels.library.cache_clear()
    yield tmp_path / "__pycache__"
    kernels.library.cache_clear()


@pytest.mark.parametrize("compiler", ["no-such-compiler", "false"])
def test_without_a_compiler_one_warning_says_so(monkeypatch, cache, compiler):
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX2")
    monkeypatch.setenv("CXX", compiler)
    with pytest.warns(UserWarning, match="training is slower"):
        assert works.__wrapped__(FP32) is False
    assert not list(cache.glob("*.so"))


def test_other_processors_have_none_and_no_warning(monkeypatch):
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: True)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert works.__wrapped__(BF16) is False
        monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "DEFAULT")
        assert works.__wrapped__(FP32) is False


@needed
@pytest.mark.parametrize("writable", [True, False])
def test_kernels_are_compiled_once_by_the_chosen_compiler(cache, monkeypatch, tmp_path, writable):
    commands, run = [], subprocess.run
    monkeypatch.setattr(subprocess, "run", lambda *args, **how: commands.append(args[0]) or run(*args, **how))
    monkeypatch.setattr("os.access", lambda *_: writable)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    monkeypatch.setenv("CXX", "env g++")
    for _ in range(2):
        kernels.library.cache_clear()
        assert kernels.library(FP32).answer() == 42
    assert [command[:2] for command in commands] == [["env", "g++"]]
    assert len(list((cache if writable else tmp_path / "user/reason/kernels").glob("*.so"))) == 1


CPU = torch.device("cpu")
STEPS = {"model.mixer": "local", "model.neighbourhood": "von-neumann", "model.positions": "none"}
STEPS |= {"model.puzzle_emb_len": "0", "model.q_from": "mean", "model.expansion": "4", "training.compile": "auto"}


@pytest.fixture
def narrow(tiny):
    return override(tiny, {"training.precision": "bf16", "model.hidden_size": "32"} | STEPS)


@pytest.fixture
def able(monkeypatch):
    monkeypatch.setattr(settings, "works", lambda dtype: True)
    monkeypatch.setattr(accelerate, "bfloat16_is_faster", lambda: True)


@pytest.mark.usefixtures("able")
def test_auto_comes_to_it_where_it_can_be(narrow, monkeypatch):
    def comes_to(device=CPU, **changes):
        changes = {key.replace("__", "."): value for key, value in changes.items()}
        return resolve(override(narrow, changes), [preset("sudoku-4x4").shape], device)[0].model.fused

    assert comes_to() is True
    assert comes_to(training__precision="fp32") is True
    assert comes_to(training__precision="amp-bf16") == "auto"  # another machine may
    assert comes_to(model__neighbourhood="moore") == "auto"
    assert comes_to(model__fused="false") is False
    assert comes_to(torch.device("meta")) == "auto"  # not a CPU: a processor may read the run with the kernel
    monkeypatch.setattr(accelerate, "bfloat16_is_faster", lambda: False)
    assert comes_to() == "auto"
    assert comes_to(training__precision="fp32") is True
    assert comes_to(model__fused="true") is True


@pytest.mark.usefixtures("able")
@pytest.mark.parametrize(("changes", "words"), [
    ({"training.precision": "amp-bf16"}, r"this model in float32, products in bfloat16; type model\.fused=false"),
    ({"model.hidden_size": "40", "model.num_heads": "1"}, "model.hidden_size=40 is not a multiple of 16"),
    ({"model.mixer": "attention"}, "mixer=attention"),
    ({"model.expansion": "0.5"}, r"the inner width 16 \(model\.expansion\) is not a multiple of 32"),
    ({"model.dt": "0.5"}, "z ← F"),
], ids=str)  # fmt: skip
def test_what_it_cannot_compute_is_refused(changes, words, narrow, tmp_path):
    with pytest.raises(ConfigError, match=words):
        trainer_of(override(narrow, {"model.fused": "true"} | changes), tmp_path / "run")


def test_other_machines_are_refused(narrow, tmp_path, monkeypatch):
    monkeypatch.setattr(settings, "works", lambda dtype: False)
    with pytest.raises(ConfigError, match="a CPU with AVX-512 BF16, without AMX, and a C"):
        trainer_of(override(narrow, {"model.fused": "true"}), tmp_path / "run")
    assert resolve(narrow, [preset("sudoku-4x4").shape], torch.device("meta"))[0].model.fused == "auto"


OPENED = {"model.mixer": "groups", "model.symbols": "true", "model.open_only": "true", "model.initial": "random"}


@needed
@pytest.mark.parametrize("changes", [{}, OPENED], ids=["local", "open symbols"])
def test_a_training_with_whole_steps_is_one_without_up_to_rounding(changes, narrow, tmp_path):
    weights = []
    names = {"with": "auto", "without": "false", "again": "true", "recomputed": "true"}
    for name, fused in names.items():
        settings = {"training.precision": "fp32", "training.compile": "none", "model.fused": fused} | changes
        settings["model.gradient_checkpointing"] = str(name == "recomputed").lower()  # by calls, in training
        trainer = trainer_of(override(narrow, settings), tmp_path / name)
        assert trainer.config.model.fused is (fused != "false")
        torch.manual_seed(1)
        for _ in range(3):
            trainer.optimizer_step()
        weights.append(torch.cat([each.detach().flatten() for each in trainer.model.parameters()]))
    assert torch.equal(weights[0], weights[2])
    assert torch.equal(weights[1], weights[3])
    assert 0 < (weights[0] - weights[1]).norm() < 1e-3 * weights[1].norm()
