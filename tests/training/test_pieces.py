"""Optimizers, averages, schedules and precision, each against its formula."""

from __future__ import annotations

import numpy as np
import pytest
import reference
import torch
from adam_atan2_pytorch import AdamAtan2 as Library
from torch import nn

from reason.config.schedules import Horizon
from reason.errors import ConfigError
from reason.models import RecursiveConfig, RecursiveModel, Shape
from reason.training.adam_atan2 import AdamAtan2WithEpsilon
from reason.training.ema import Ema, EmaConfig
from reason.training.optim import OptimizerConfig, Optimizers, SignSGD
from reason.training.precision import dtypes, pick_device

CPU = torch.device("cpu")
SMALL = RecursiveConfig(hidden_size=8, num_heads=2, expansion=1, puzzle_emb_len=2)


def model() -> RecursiveModel:
    return RecursiveModel(SMALL, Shape(seq_len=4, vocab_size=5, num_puzzle_identifiers=6))


@pytest.mark.parametrize("eps", [None, 0.5])
@pytest.mark.parametrize("kind", ["adam-atan2", "adamw"])
def test_weights_move_as_the_formula_says(kind: str, eps: float | None) -> None:
    net = model()
    config = OptimizerConfig(kind=kind, lr=0.01, weight_decay=0.3, betas=(0.9, 0.95), eps=eps)
    optimizers = Optimizers(net, config, Horizon(3, 1.0))
    start = net.head.weight.detach().double().numpy().copy()
    gradients = [torch.randn_like(net.head.weight) for _ in range(3)]
    for step, gradient in enumerate(gradients):
        net.head.weight.grad = gradient.clone()
        norm = optimizers.step(step)
        assert norm.item() == pytest.approx(gradient.norm().item(), rel=1e-5)
    if kind == "adam-atan2":
        expected = reference.adam_atan2(
            start, [g.double().numpy() for g in gradients], 0.01, (0.9, 0.95), 0.3, eps or 0
        )
    else:
        twin = nn.Parameter(torch.from_numpy(start))
        adamw = torch.optim.AdamW([twin], lr=0.01, betas=(0.9, 0.95), weight_decay=0.3, eps=eps or 1e-8)
        for gradient in gradients:
            twin.grad = gradient.double()
            adamw.step()
        expected = twin.detach().numpy()
    np.testing.assert_allclose(net.head.weight.detach().numpy(), expected, atol=1e-6)


def test_adam_atan2_is_the_librarys_without_epsilon() -> None:
    """The library has no epsilon; otherwise the same, to the bit; a parameter without a gradient waits."""
    ours, theirs = ([nn.Parameter(torch.arange(6.0).view(2, 3)), nn.Parameter(torch.ones(4))] for _ in range(2))
    steppers = AdamAtan2WithEpsilon(ours, 0.01, (0.9, 0.95), 0.0, 0.3), Library(theirs, 0.01, (0.9, 0.95), 0.3, a=1.0)
    for step in range(4):
        gradients = [torch.randn(2, 3), torch.randn(4) if step != 1 else None]
        for parameters, stepper in zip((ours, theirs), steppers, strict=True):
            for p, gradient in zip(parameters, gradients, strict=True):
                p.grad = gradient
            stepper.step()
    for a, b in zip(ours, theirs, strict=True):
        assert torch.equal(a, b)


def test_atan2_is_unchanged_by_the_scale_of_the_gradient() -> None:
    ends = []
    for scale in (1.0, 1e6):
        torch.manual_seed(3)
        net = model()
        optimizers = Optimizers(net, OptimizerConfig(lr=0.1, weight_decay=0), Horizon(1, 1.0))
        net.head.weight.grad = scale * torch.ones_like(net.head.weight)
        optimizers.step(0)
        ends.append(net.head.weight.detach().clone())
    torch.testing.assert_close(*ends)


def test_sign_sgd_moves_touched_rows_by_the_sign_of_their_sum() -> None:
    table = nn.Embedding(6, 3, sparse=True)
    before = table.weight.detach().clone()
    pull = torch.tensor([[1.0, 1, 0], [-3, 1, 0], [2, 2, -1]])  # rows 4, 4, 1
    (table(torch.tensor([4, 4, 1])) * pull).sum().backward()
    (table(torch.tensor([1])) * torch.tensor([[-5.0, 0, 0]])).sum().backward()  # a second supervision step
    SignSGD(table.weight, lr=0.1, weight_decay=0.5).step(factor=2.0)
    expected = before.clone()
    expected[4] = before[4] * (1 - 0.2 * 0.5) - 0.2 * torch.tensor([-1.0, 1, 0])
    expected[1] = before[1] * (1 - 0.2 * 0.5) - 0.2 * torch.tensor([-1.0, 1, -1])
    torch.testing.assert_close(table.weight.detach(), expected)
    assert table.weight.grad is None


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


def test_precision() -> None:
    assert dtypes("fp32", CPU) == (torch.float32, None)
    assert dtypes("bf16", CPU) == (torch.bfloat16, None)
    assert dtypes("amp-fp16", CPU) == (torch.float32, torch.float16)
    assert str(dtypes("amp-bf16", CPU)) == "float32, products in bfloat16"
    computes = torch.cpu._is_avx512_bf16_supported()
    assert dtypes("auto", CPU) == (torch.bfloat16 if computes else torch.float32, None)
    assert dtypes("amp", CPU) == (torch.float32, torch.bfloat16 if computes else None)


def test_a_device_that_is_not_there_is_refused() -> None:
    assert pick_device("cpu") == CPU
    with pytest.raises(ConfigError, match="device=auto"):
        pick_device("cuda:99")
