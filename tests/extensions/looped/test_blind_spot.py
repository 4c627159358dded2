"""The readout blind spot: both lemmas to their orders, every probe by hand, every figure drawn."""

import json
import math

import numpy as np
import pytest
import torch
from evaluators import small
from test_model import SHAPE, make

from reason.extensions.looped.layers import Norm
from reason.extensions.looped.studies import blind_spot as S
from reason.models.base import IGNORE, Batch
from reason.models.states import precise
from reason.rollout import StepRecord, unroll

PRE = {"block": "llama", "norm_placement": "pre", "norm": "rmsnorm"}


def looped(eps=None, **changes):
    model = make(**PRE | changes).eval()
    for module in model.modules():
        if isinstance(module, Norm) and eps is not None:
            module.eps = eps
    return model


def recursive(**changes):
    attention = {"mixer": "attention", "positions": "rotary", "num_heads": 2, "puzzle_emb_len": 2}
    return precise(small(SHAPE, **attention | changes))


def puzzles(rows=3):
    inputs = torch.randint(0, SHAPE.vocab_size, (rows, SHAPE.seq_len))
    labels = torch.randint(0, SHAPE.vocab_size, (rows, SHAPE.seq_len))
    labels[:, 0] = IGNORE
    return Batch(inputs, labels, torch.zeros(rows, dtype=torch.long))


def at_scale(model, batch, s):
    """A state of random directions, every token of ‖·‖_rms = s, as after a loop that is read with the final readout."""
    x = model.encode(batch)
    u = torch.randn(x.x.shape, generator=torch.Generator().manual_seed(3), dtype=x.x.dtype)
    state = S.with_read_part(model.initial_state(x), s * u / S.rms(u))
    return StepRecord(model, 100, batch, x, state, state)


def order(sizes, errors):
    return float(np.polyfit(np.log(sizes), np.log(errors), 1)[0])


@pytest.mark.parametrize("norm", ["rmsnorm", "layernorm", "simple"])
def test_lemma_1_no_radial_derivative_through_a_scale_free_readout(norm):
    batch = puzzles()
    model = looped(eps=0.0, norm=norm)
    r, g = S.radial_gradient(at_scale(model, batch, 2.0), "softmax")
    assert max(r, abs(g)) < 1e-13
    raw = looped(norm=norm, readout="raw")
    r, g = S.radial_gradient(at_scale(raw, batch, 2.0), "softmax")
    assert min(r, abs(g)) > 1e-2


def test_lemma_1_with_an_epsilon_falls_as_one_over_scale_squared():
    model, batch = looped(), puzzles()
    sizes = [2.0**k for k in range(2, 7)]
    seen = [abs(S.radial_gradient(at_scale(model, batch, s), "softmax")[1]) for s in sizes]
    assert order(sizes, seen) == pytest.approx(-2, abs=0.02)


@pytest.mark.parametrize("num_layers", [1, 3])
def test_lemma_2_the_expansion_of_a_pre_norm_loop(num_layers):
    """‖F(su)‖ = s + a_rad + O(1/s); F(su)/‖F(su)‖ = u + b_⊥/s + O(1/s²), so s·(its length) = ‖b_⊥‖ + O(1/s)."""
    model, batch = looped(eps=0.0, num_layers=num_layers), puzzles()
    x = model.encode(batch)
    sizes, scale, angle, bs = [2.0**k for k in range(7, 13)], [], [], []
    for s in sizes:
        state = at_scale(model, batch, s).state
        after = model.step(state, x).z
        u = state.z / s
        b = after - state.z
        bs.append(b)
        a = (u * b).mean(-1, keepdim=True)
        scale.append((S.rms(after) - s - a).abs().max().item())
        angle.append((after / S.rms(after) - u - (b - a * u) / s).abs().max().item())
    assert order(sizes, scale) == pytest.approx(-1, abs=0.05)
    assert order(sizes, angle) == pytest.approx(-2, abs=0.05)
    moved = [(b - bs[-1]).abs().max().item() for b in bs[:-2]]  # b(su) nears b(u): later halves see su + O(1)
    assert order(sizes[:-2], moved) == pytest.approx(-1, abs=0.2)


def test_residual_update_and_token_norms_by_hand():
    h = torch.tensor([[[3.0, 0.0, 0.0, 0.0]]], dtype=torch.float64)
    found = S.residual_update(h, h + torch.tensor([[[2.0, 4.0, 0.0, 0.0]]], dtype=torch.float64))
    # s = 3/2, u = (2, 0, 0, 0), b = (2, 4, 0, 0): a_rad = ⟨u, b⟩/4 = 1, b_⊥ = (0, 4, 0, 0)
    assert found == pytest.approx({"scale": 1.5, "a_rad": 1.0, "b_perp": 2.0})
    h = torch.zeros(1, 5, 2, dtype=torch.float64)
    h[0, :, 0] = torch.tensor([1.0, 2, 3, 4, 10])
    p99 = float(np.quantile([1, 2, 3, 4, 10], 0.99))
    assert S.token_norms(h) == pytest.approx({"mean": 4, "median": 3, "p99": p99, "max": 10})


def test_radial_gradient_is_the_derivative_along_log_s():
    """g against a central difference of the loss under h ← e^{±t} h; r against the cosine token by token."""
    model, batch = looped(readout="raw"), puzzles()
    record = at_scale(model, batch, 1.5)
    r, g = S.radial_gradient(record, "stablemax")

    def loss(factor):
        return S.token_loss(record, factor * S.read_part(record.state), "stablemax").item()

    t = 1e-5
    assert g == pytest.approx((loss(math.exp(t)) - loss(math.exp(-t))) / (2 * t), rel=1e-6)
    h = S.read_part(record.state).detach().requires_grad_()
    S.token_loss(record, h, "stablemax").backward()
    cosines = torch.nn.functional.cosine_similarity(h.grad, h.detach(), dim=-1)[batch.labels != IGNORE]
    assert r == pytest.approx(cosines.abs().mean().item())


def test_the_clamp_holds_the_scale_and_a_scale_free_readout_is_flat_under_the_sweep():
    model, batch = looped(), puzzles()
    x = model.encode(batch)
    first = state = model.step(model.initial_state(x), x)
    for _ in range(2):
        z = model.step(state, x).z
        state = type(state)(z / S.rms(z) * S.rms(first.z))
    *_, last = unroll(model, batch, 3)
    found = S.clamp(last, "softmax")
    norms = (state.z.norm(dim=-1).mean() / last.state.z.norm(dim=-1).mean()).item()
    assert found["norm_ratio"] == pytest.approx(norms)
    assert found["clamped_ce"] == pytest.approx(S.token_loss(last, state.z, "softmax").item())
    assert found["delta_ce"] == pytest.approx(found["clamped_ce"] - found["ce"])
    batch = puzzles()
    for readout, flat in (("norm", True), ("raw", False)):
        model = looped(eps=0.0, readout=readout)
        rows = S.scale_sweep(at_scale(model, batch, 2.0), "softmax")
        assert (rows[0]["alpha"], rows[10]["alpha"], rows[-1]["alpha"]) == pytest.approx((0.1, 1, 10))
        assert (max(row["ce"] for row in rows) - min(row["ce"] for row in rows) < 1e-9) == flat


@pytest.mark.parametrize("model", [looped(coda=1), recursive(), recursive(states=1)])
def test_every_probe_on_every_family(model):
    batch = puzzles()
    before = [p.clone() for p in model.parameters()]
    found = S.blind_spot(model, batch, loops=3, far=4)
    assert [row["loop"] for row in found["by_loop"]] == [1, 2, 3, 4]
    json.dumps(found, allow_nan=False)
    a, b = torch.randn(2, 20_000, found["width"])
    seen = torch.nn.functional.cosine_similarity(a, b, dim=-1).abs().mean().item()
    assert found["random_r"] == pytest.approx(seen, rel=0.05)
    for k, out in enumerate(unroll(precise(model), batch, 3)):
        assert found["by_loop"][k]["norm"] == pytest.approx(S.token_norms(S.read_part(out.state)), rel=1e-9)
        ce = torch.nn.functional.cross_entropy(out.logits.flatten(0, 1), batch.labels.flatten())
        assert found["by_loop"][k]["ce"] == pytest.approx(ce.item())
    assert found["ce_gap"] == found["by_loop"][0]["ce"] - found["by_loop"][2]["ce"]
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
