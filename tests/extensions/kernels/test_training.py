"""Kernels of our own: compiled once and kept; what `auto` comes to, what is refused, and a training with them."""

import subprocess
import warnings

import pytest
import torch
from conftest import pairs, trainer_of

from reason.config.overrides import override
from reason.errors import ConfigError
from reason.extensions.kernels import library as kernels
from reason.presets import preset
from reason.training.auto import resolve

BF16, FP32 = kernels.DTYPES
OPENED = "model.mixer=groups model.symbols=true model.open_only=true model.initial=random"
needed = pytest.mark.skipif(not kernels.works(FP32), reason="a CPU with AVX2 and a C++ compiler")


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
        assert kernels.works.__wrapped__(FP32) is False
    assert not list(cache.glob("*.so"))


def test_other_processors_have_none_and_no_warning(monkeypatch):
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: True)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert kernels.works.__wrapped__(BF16) is False
        monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "DEFAULT")
        assert kernels.works.__wrapped__(FP32) is False


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


@pytest.fixture
def narrow(tiny):
    words = "model.mixer=local model.neighbourhood=von-neumann model.positions=none model.puzzle_emb_len=0 "
    words += "model.q_from=mean model.expansion=4 model.hidden_size=32 training.compile=auto training.precision=bf16"
    return override(tiny, pairs(words))


@pytest.fixture
def able(monkeypatch):
    monkeypatch.setattr("reason.extensions.kernels.settings.works", lambda dtype: True)
    monkeypatch.setattr("reason.training.accelerate.bfloat16_is_faster", lambda: True)


@pytest.mark.usefixtures("able")
def test_auto_comes_to_it_where_it_can_be(narrow, monkeypatch):
    def comes_to(words, device="cpu"):
        config, shapes = override(narrow, pairs(words)), [preset("sudoku-4x4").shape]
        return resolve(config, shapes, torch.device(device))[0].model.fused

    assert comes_to("") is True
    assert comes_to("training.precision=fp32") is True
    assert comes_to("training.precision=amp-bf16") == "auto"  # another machine may
    assert comes_to("model.neighbourhood=moore") == "auto"
    assert comes_to("model.fused=false") is False
    assert comes_to("", "meta") == "auto"  # not a CPU: a processor may read the run with the kernel
    monkeypatch.setattr("reason.training.accelerate.bfloat16_is_faster", lambda: False)
    assert comes_to("") == "auto"
    assert comes_to("training.precision=fp32") is True
    assert comes_to("model.fused=true") is True


@pytest.mark.usefixtures("able")
@pytest.mark.parametrize(("changes", "words"), [
    ({"training.precision": "amp-bf16"}, r"this model in float32, products in bfloat16; type model\.fused=false"),
    ({"model.hidden_size": "40", "model.num_heads": "1"}, "model.hidden_size=40 is not a multiple of 16"),
    ({"model.mixer": "attention"}, "mixer=attention"),
    ({"model.expansion": "0.5"}, r"the inner width 16 \(model\.expansion\) is not a multiple of 32"),
    ({"model.dt": "0.5"}, "z ← F"),
    ({"model.gradient_checkpointing": "true"}, "recomputes nothing"),
], ids=str)  # fmt: skip
def test_what_it_cannot_compute_is_refused(changes, words, narrow, tmp_path):
    with pytest.raises(ConfigError, match=words):
        trainer_of(override(narrow, {"model.fused": "true"} | changes), tmp_path / "run")


def test_other_machines_are_refused(narrow, tmp_path, monkeypatch):
    monkeypatch.setattr("reason.extensions.kernels.settings.works", lambda dtype: False)
    with pytest.raises(ConfigError, match="a CPU with AVX-512 BF16, without AMX, and a C"):
        trainer_of(override(narrow, {"model.fused": "true"}), tmp_path / "run")
    assert resolve(narrow, [preset("sudoku-4x4").shape], torch.device("meta"))[0].model.fused == "auto"


@needed
@pytest.mark.parametrize("words", ["", OPENED], ids=["local", "open symbols"])
def test_a_training_with_whole_steps_is_one_without_up_to_rounding(words, narrow, tmp_path):
    weights = []
    for name, fused in {"with": "auto", "without": "false", "again": "true", "recomputed": "auto"}.items():
        settings = {"training.precision": "fp32", "training.compile": "none", "model.fused": fused} | pairs(words)
        settings["model.gradient_checkpointing"] = str(name == "recomputed").lower()
        trainer = trainer_of(override(narrow, settings), tmp_path / name)
        assert trainer.config.model.fused == ("auto" if name == "recomputed" else fused != "false")
        torch.manual_seed(1)
        for _ in range(3):
            trainer.optimizer_step()
        weights.append(torch.cat([each.detach().flatten() for each in trainer.model.parameters()]))
    assert torch.equal(weights[0], weights[2])
    assert torch.equal(weights[1], weights[3])
    assert 0 < (weights[0] - weights[1]).norm() < 1e-3 * weights[1].norm()
