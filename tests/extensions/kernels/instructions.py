"""The types of numbers and the instructions that this machine has kernels for."""

from collections.abc import Iterator

import pytest
import torch

from reason.extensions.kernels import library as kernels


@pytest.fixture(params=["bfloat16", "float32", "float32 by AVX2"])
def numbers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[torch.dtype]:
    """A type of numbers, and the kernels of a set of instructions for it."""
    dtype = torch.bfloat16 if request.param == "bfloat16" else torch.float32
    if request.param.endswith("AVX2"):
        if torch.backends.cpu.get_cpu_capability() != "AVX512":
            pytest.skip("the other case has AVX2 here")
        monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX2")
    kernels.library.cache_clear()
    if not kernels.works.__wrapped__(dtype):
        pytest.skip("a CPU and a C++ compiler for it")
    yield dtype
    kernels.library.cache_clear()
