"""Layers against float64 loops and against what they are meant to keep."""

import numpy as np
import pytest
import reference
import torch

from reason.models.states import normal_like
from reason.nn.attention import Attention, attend
from reason.nn.linear import truncated_normal_
from reason.nn.mlp import SwiGLU, inner_width, tanh
from reason.nn.norms import rms_norm
from reason.nn.rope import rotary_table


def test_truncated_draws_keep_their_deviation_and_none_depends_on_the_order_in_memory():
    sample = truncated_normal_(torch.empty(1_000_000), std=0.3)
    assert sample.std().item() == pytest.approx(0.3, rel=5e-3)
    assert sample.abs().max().item() == pytest.approx(2 * 0.3 / 0.8796, rel=1e-2)
    draws = []
    for z in (torch.zeros(5, 3, 4), torch.zeros(3, 5, 4).transpose(0, 1)):
        torch.manual_seed(0)
        draws.append(normal_like(z))
    assert torch.equal(*draws)


def test_rms_norm_in_float32_over_any_axis_and_an_inner_width_of_a_multiple_of_256():
    x = torch.randn(3, 4, 5, dtype=torch.float64)
    for dim in (-1, 0, 1):
        np.testing.assert_allclose(rms_norm(x, dim).numpy(), reference.rms(x.numpy(), dim))
    half = (100 * torch.randn(2, 512)).bfloat16()
    torch.testing.assert_close(rms_norm(half), rms_norm(half.float()).bfloat16(), atol=0, rtol=0)
    widths = {(97, 4): 512, (512, 4): 1536, (128, 4): 512, (36, 4): 256, (384, 1): 256}
    assert {sizes: inner_width(*sizes) for sizes in widths} == widths


@pytest.mark.parametrize(("dtype", "atol"), [(torch.float64, 1e-15), (torch.float32, 5e-7), (torch.bfloat16, 0.004)])
def test_compiled_tanh(dtype, atol):
    x = torch.cat([torch.linspace(-1000, 1000, 101), 4 * torch.randn(1000)]).to(dtype).requires_grad_()
    compiled = torch.compile(tanh, backend="aot_eager")(x)
    torch.testing.assert_close(compiled, torch.tanh(x), atol=atol, rtol=0)
    (gradient,) = torch.autograd.grad(compiled.sum(), x)
    torch.testing.assert_close(gradient, 1 - torch.tanh(x.double()).square(), atol=atol, rtol=0, check_dtype=False)


@pytest.mark.parametrize("rotary", [True, False])
def test_attention(rotary):
    layer = Attention(8, num_heads=2).double()
    x = torch.randn(2, 5, 8, dtype=torch.float64)
    got = layer(x, rotary_table(5, 4).double() if rotary else None).detach().numpy()
    w = {f"a.{name}": value.detach().numpy() for name, value in layer.state_dict().items()}
    turn = reference.rotate if rotary else reference.unturned
    for row in range(2):
        np.testing.assert_allclose(got[row], reference.attention(x[row].numpy(), w, "a", 2, turn=turn), atol=1e-6)


def test_both_forms_of_attention_agree():
    """bfloat16 on a CPU takes another road than float32; the two differ by rounding alone."""
    q, k, v = (torch.randn(2, 3, 7, 8).bfloat16() for _ in range(3))
    exact = attend(q.float(), k.float(), v.float())
    torch.testing.assert_close(attend(q, k, v).float(), exact, atol=2e-2, rtol=2e-2)


@pytest.mark.parametrize("activation", ["silu", "tanh"])
def test_swiglu_over_either_axis(activation):
    layer = SwiGLU(6, 256, activation).double()
    x = torch.randn(6, 3, 6, dtype=torch.float64)
    act = reference.silu if activation == "silu" else np.tanh
    w = layer.gate_up.weight.detach().numpy(), layer.down.weight.detach().numpy()
    for row in range(6):
        np.testing.assert_allclose(layer(x)[row].detach().numpy(), reference.swiglu(x[row].numpy(), *w, act))
    over_cells = layer.over_sequence(x)  # (S, B, D): cell s of row b
    for row in range(3):
        expected = reference.swiglu(x[:, row].numpy().T, *w, act).T
        np.testing.assert_allclose(over_cells[:, row].detach().numpy(), expected)
