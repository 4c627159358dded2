"""Averages and precision, each against its formula."""

import pytest
import torch

from reason.errors import ConfigError
from reason.models import RecursiveConfig, RecursiveModel, Shape
from reason.training import device, precision
from reason.training.device import float32_by_onednn, pick_device
from reason.training.ema import Ema, EmaConfig
from reason.training.precision import dtypes

CPU = torch.device("cpu")
SMALL = RecursiveConfig(hidden_size=8, num_heads=2, expansion=1, puzzle_emb_len=2)


def model() -> RecursiveModel:
    return RecursiveModel(SMALL, Shape(seq_len=4, vocab_size=5, num_puzzle_identifiers=6))


@pytest.mark.parametrize("ramp", [False, True])
def test_ema(ramp: bool) -> None:
    net = model()
    average = Ema(net, EmaConfig(decay=0.9, warmup=ramp))
    expected = net.head.weight.detach().clone()
    for step in range(1, 30):
        with torch.no_grad():
            net.head.weight.add_(torch.randn_like(net.head.weight))
        average.update(step)
        rate = min(0.9, (1 + step) / (10 + step)) if ramp else 0.9
        expected = rate * expected + (1 - rate) * net.head.weight.detach()
    torch.testing.assert_close(average.state_dict()["head.weight"], expected)
    assert "puzzle_embedding.weight" not in average.state_dict()  # the authors evaluate the table itself
    other = Ema(model(), EmaConfig(decay=0.9))
    other.load_state_dict(average.state_dict())
    torch.testing.assert_close(other.state_dict()["head.weight"], expected)


@pytest.mark.parametrize(("bf16", "amx", "maker", "faster"), [
    (True, True, "GenuineIntel", True),
    (True, False, "GenuineIntel", False),
    (True, False, "AuthenticAMD", True),
    (False, False, "AuthenticAMD", False),
])  # fmt: skip
def test_auto_takes_bfloat16_where_it_is_faster(
    bf16: bool, amx: bool, maker: str, faster: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: bf16)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: amx)
    monkeypatch.setattr(precision, "_processor", lambda: f"vendor_id : {maker}")
    precision.bfloat16_is_faster.cache_clear()
    try:
        assert dtypes("auto", CPU) == (torch.bfloat16 if faster else torch.float32, None)
        assert dtypes("amp", CPU) == (torch.float32, torch.bfloat16 if faster else None)
    finally:
        precision.bfloat16_is_faster.cache_clear()


def test_a_device_that_is_not_there_is_refused() -> None:
    assert pick_device("cpu") == CPU
    with pytest.raises(ConfigError, match="device=auto"):
        pick_device("cuda:99")


def test_float32_products_stay_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    """oneDNN computes them where it does not round the factors; where it would, torch's setting stays as it was."""
    products = torch.backends.mkldnn.matmul
    before = products.fp32_precision
    device._exact_by_onednn.cache_clear()
    try:
        float32_by_onednn()
        for rows, inner, columns in ((7, 5, 3), (300, 81, 512)):
            a, b = torch.randn(rows, inner), torch.randn(inner, columns)
            torch.testing.assert_close(a @ b, (a.double() @ b.double()).float(), rtol=1e-5, atol=1e-4)
        device._exact_by_onednn.cache_clear()
        products.fp32_precision = "ieee"
        monkeypatch.setattr(torch, "allclose", lambda *_, **__: False)  # where oneDNN rounds
        float32_by_onednn()
        assert products.fp32_precision == "ieee"
    finally:
        products.fp32_precision = before
        device._exact_by_onednn.cache_clear()
