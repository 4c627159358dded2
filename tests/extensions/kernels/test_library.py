"""Kernels of our own: compiled once, kept with their digest, loaded only where it fits; without a compiler none."""

import subprocess
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from reason.extensions.kernels import library as kernels
from reason.extensions.kernels.self_test import works

BF16, FP32 = kernels.DTYPES
needed = pytest.mark.skipif(not works(FP32), reason="a CPU with AVX2 and a C++ compiler")


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """An empty cache, and one small source in place of the kernels."""
    sources = tmp_path / "sources"
    sources.mkdir()
    (sources / "answer.cpp").write_text('extern "C" int answer() { return 42; }\n')
    monkeypatch.setattr(kernels, "SOURCES", sources)
    monkeypatch.setattr(kernels, "CACHE", tmp_path / "cache")
    kernels.library.cache_clear()
    yield tmp_path / "cache"
    kernels.library.cache_clear()


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands that compile."""
    commands: list[list[str]] = []
    run = subprocess.run
    monkeypatch.setattr(subprocess, "run", lambda *args, **how: commands.append(args[0]) or run(*args, **how))
    return commands


def again() -> int:
    kernels.library.cache_clear()
    return int(kernels.library(FP32).answer())


@pytest.mark.parametrize("compiler", ["no-such-compiler", "false"])
def test_without_a_compiler_one_warning_says_so(monkeypatch: pytest.MonkeyPatch, cache: Path, compiler: str) -> None:
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX2")
    monkeypatch.setenv("CXX", compiler)
    with pytest.warns(UserWarning, match="training is slower"):
        assert works.__wrapped__(FP32) is False
    assert list(cache.iterdir()) == []


def test_other_processors_have_none_and_no_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: True)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert works.__wrapped__(BF16) is False
        monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "DEFAULT")
        assert works.__wrapped__(FP32) is False


@needed
def test_kernels_are_compiled_once(cache: Path, compiled: list[list[str]]) -> None:
    assert [again(), again()] == [42, 42]
    assert len(compiled) == 1
    assert {file.suffix for file in cache.iterdir()} == {".so", ".sha256"}


@needed
def test_a_compiler_may_have_a_launcher(
    monkeypatch: pytest.MonkeyPatch, cache: Path, compiled: list[list[str]]
) -> None:
    monkeypatch.setenv("CXX", "env g++")
    assert again() == 42
    assert compiled[0][:2] == ["env", "g++"]


@needed
@pytest.mark.parametrize("damage", ["cut to half", "a bit flipped", "empty", "no digest", "written by others"])
def test_what_is_damaged_is_compiled_anew(cache: Path, compiled: list[list[str]], damage: str) -> None:
    assert again() == 42
    (file,) = cache.glob("*.so")
    whole = file.read_bytes()
    kernels.library.cache_clear()
    file.unlink()  # the library that is loaded keeps its pages
    match damage:
        case "cut to half":
            file.write_bytes(whole[: len(whole) // 2])
        case "a bit flipped":
            file.write_bytes(whole[:5000] + bytes([whole[5000] ^ 1]) + whole[5001:])
        case "empty":
            file.write_bytes(b"")
        case "no digest":
            file.write_bytes(whole)
            file.with_suffix(".sha256").unlink()
        case "written by others":
            file.write_bytes(whole)
            file.chmod(0o777)
    assert again() == 42
    assert len(compiled) == 2


@needed
def test_where_nothing_can_be_kept_it_is_compiled_for_the_process(
    monkeypatch: pytest.MonkeyPatch, cache: Path, compiled: list[list[str]]
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise PermissionError

    monkeypatch.setattr(Path, "mkdir", refused)
    assert again() == 42
    assert not cache.exists()


@needed
def test_what_a_compiler_got_wrong_is_not_used(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    wrong = kernels.SOURCES / "wrong"
    wrong.mkdir()
    own = Path(kernels.__file__).parent / "cpp"
    for source in (*own.glob("*.h"), *own.glob("*.cpp")):
        text = source.read_text()
        (wrong / source.name).write_text(text.replace("0.0416683881f", "0.3f"))  # of exp
    monkeypatch.setattr(kernels, "SOURCES", wrong)
    with pytest.warns(UserWarning, match="computes other numbers than torch"):
        assert works.__wrapped__(FP32) is False
    assert not list(cache.glob("*.sha256"))  # the next process compiles, and tests, anew


@needed
def test_what_this_compiler_makes_computes_what_torch_does(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    monkeypatch.setattr(kernels, "SOURCES", Path(kernels.__file__).parent / "cpp")
    assert works.__wrapped__(FP32) is True
    assert list(cache.glob("*.sha256"))
    assert kernels.library(FP32) not in kernels.UNTESTED
