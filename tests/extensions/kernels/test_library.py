"""Kernels of our own: compiled once and kept; without a compiler, or on another processor, none."""

import subprocess
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from reason.extensions.kernels import library as kernels
from reason.extensions.kernels.library import works

BF16, FP32 = kernels.DTYPES
needed = pytest.mark.skipif(not works(FP32), reason="a CPU with AVX2 and a C++ compiler")


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """An empty cache, and one small source in place of the kernels."""
    (tmp_path / "answer.cpp").write_text('extern "C" int answer() { return 42; }\n')
    monkeypatch.setattr(kernels, "SOURCES", tmp_path)
    kernels.library.cache_clear()
    yield tmp_path / "__pycache__"
    kernels.library.cache_clear()


@pytest.mark.parametrize("compiler", ["no-such-compiler", "false"])
def test_without_a_compiler_one_warning_says_so(monkeypatch: pytest.MonkeyPatch, cache: Path, compiler: str) -> None:
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX2")
    monkeypatch.setenv("CXX", compiler)
    with pytest.warns(UserWarning, match="training is slower"):
        assert works.__wrapped__(FP32) is False
    assert not list(cache.glob("*.so"))


def test_other_processors_have_none_and_no_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: True)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert works.__wrapped__(BF16) is False
        monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "DEFAULT")
        assert works.__wrapped__(FP32) is False


@needed
@pytest.mark.parametrize("writable", [True, False])
def test_kernels_are_compiled_once_by_the_chosen_compiler(
    cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, writable: bool
) -> None:
    commands, run = list[list[str]](), subprocess.run
    monkeypatch.setattr(subprocess, "run", lambda *args, **how: commands.append(args[0]) or run(*args, **how))
    monkeypatch.setattr("os.access", lambda *_: writable)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    monkeypatch.setenv("CXX", "env g++")
    for _ in range(2):
        kernels.library.cache_clear()
        assert kernels.library(FP32).answer() == 42
    assert [command[:2] for command in commands] == [["env", "g++"]]
    assert len(list((cache if writable else tmp_path / "user/reason/kernels").glob("*.so"))) == 1
