"""The looped transformer against naive float64 formulas, its causal mask, its options, its sizes."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import reference
import torch
from evaluators import random_batch, shaken

from datasets_gen.structure import Structure
from reason.dynamics.jacobian import jvp, vjp
from reason.extensions.looped.layers import PLACEMENTS, Norm
from reason.extensions.looped.model import LoopedConfig, LoopedModel
from reason.models import Shape
from reason.rollout import unroll

SHAPE = Shape(seq_len=5, vocab_size=7)
SMALL = {"hidden_size": 8, "num_heads": 2, "dropout": 0.0}
NORMS = ("layernorm", "rmsnorm", "simple")

OPTIONS = {
    "prelude and coda": {"prelude": 2, "coda": 1},
    "three layers": {"num_layers": 3},
    "input_injection": {"between": ("injection",)},
    "inter-loop norm": {"between": ("norm",)},
    "damping": {"between": ("damping",)},
    "all of them": {"between": ("injection", "norm", "damping"), "prelude": 1, "coda": 1},
    "not causal": {"causal": False},
    "raw": {"readout": "raw", "norm_placement": "pre"},
    "final-only": {"readout": 3, "coda": 1, "between": ("norm",)},
    "llama": {"block": "llama", "norm": "rmsnorm", "norm_placement": "pre", "expansion": 4.0},
    "another final norm": {"norm": "rmsnorm", "final_norm": "layernorm"},
}
TWELVE = {f"{p} {n} {b}": {"norm_placement": p, "norm": n, "block": b}
          for p, n, b in itertools.product(PLACEMENTS, NORMS, ("gpt", "llama"))}  # fmt: skip
VARIANTS = TWELVE | OPTIONS
SOME = {name: VARIANTS[name] for name in ("pre layernorm gpt", "post-sandwich simple llama", *OPTIONS)}


def make(shape=SHAPE, **changes):
    return shaken(LoopedModel(LoopedConfig(**SMALL | changes), shape, torch.float64).double())


def batch(rows=2, cells=SHAPE.seq_len):
    return random_batch(rows, cells, SHAPE.vocab_size)


def naive(model, inputs, loops):
    """State and logits of one row after each loop, straight from docs/math.md §8."""
    c = model.config
    w = {name: value.detach().numpy() for name, value in model.state_dict().items()}

    def turn(head):
        if c.positions == "rotary-2d":
            return reference.rotate_2d(head, model.shape.structure.grid[1], c.rope_theta)
        return reference.rotate(head, c.rope_theta) if c.positions == "rotary" else head

    def stack(h, name, layers):
        for i in range(layers):
            at = f"{name}.blocks.{i}"
            h = reference.transformer_block(h, w, at, c.block, c.norm_placement, c.norm, c.num_heads, c.causal, turn)
        return h

    def norm(h, name):
        eps = 1e-5 if c.block == "gpt" else 1e-6
        kind = c.final_norm or c.norm if name == "final_norm" else c.norm
        return reference.norm(h, kind, w.get(f"{name}.weight"), w.get(f"{name}.bias"), eps)

    x = stack(w["tokens.weight"][inputs] + w.get("positions.weight", 0), "prelude", c.prelude)
    z, seen = x, []
    for k in range(1, loops + 1):
        if "norm" in c.between:
            z = norm(z, "inter_loop_norm")
        if "damping" in c.between:
            z = z / (1 + np.exp(-w["damping"]))
        if "injection" in c.between:
            z = z + x
        z = stack(z, "block", c.num_layers)
        read = stack(z, "coda", c.coda)
        if c.readout == "norm" or (c.readout != "raw" and k >= c.readout):
            read = norm(read, "final_norm")
        logits = read @ w["tokens.weight"].T
        seen.append({"z": z, "logits": logits})
    return seen


def hold_formulas(model, puzzles, **tolerance):
    for row, inputs in enumerate(puzzles.inputs.numpy()):
        for seen, want in zip(unroll(model, puzzles, 3), naive(model, inputs, 3), strict=True):
            np.testing.assert_allclose(seen.state.z[row].detach().numpy(), want["z"], **tolerance)
            np.testing.assert_allclose(seen.logits[row].detach().numpy(), want["logits"], **tolerance)


@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS)
def test_loops_equal_the_formulas(changes):
    hold_formulas(make(**changes), batch(), atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("rope_theta", [10_000.0, 20.0])
@pytest.mark.parametrize("positions", ["rotary", "rotary-2d"])
def test_rotary_loops_equal_the_formulas(positions, rope_theta):
    grid = Shape(seq_len=6, vocab_size=7, structure=Structure(grid=(2, 3)))
    model = make(grid, causal=False, positions=positions, rope_theta=rope_theta, num_heads=1, prelude=1)
    hold_formulas(model, batch(1, cells=6), atol=1e-5)


def test_a_readout_without_a_step_is_a_final_one():
    model = make(readout=3)
    x = model.encode(batch())
    state = model.initial_state(x)
    early, late = model.readout(state, x, 2).logits, model.readout(state, x, 3).logits
    assert torch.equal(model.readout(state, x).logits, late)
    assert not torch.allclose(early, late)
    always = make()
    assert torch.equal(always.readout(state, x).logits, always.readout(state, x, 0).logits)


@pytest.mark.parametrize("changes", SOME.values(), ids=SOME)
def test_every_weight_is_trained(changes):
    model = make(**changes)
    *_, out = unroll(model, batch(), 3)
    (out.logits * torch.randn_like(out.logits)).sum().backward()
    assert [name for name, p in model.named_parameters() if p.grad is None or p.grad.abs().sum() == 0] == []


@pytest.mark.parametrize("changes", [{}, {"norm_placement": "pre", "prelude": 1, "coda": 1, "between": ("injection",)}])
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_the_causal_mask_leaks_nothing(changes, dtype):
    """Whatever stands after cell i changes no bit of what cells up to i hold and say, in value and in gradient."""
    model, one = make(**changes), batch(1)
    model.dtype = dtype
    model = model.double() if dtype == torch.float64 else model.float()
    for cell in range(SHAPE.seq_len - 1):
        other = one.inputs.clone()
        other[:, cell + 1 :] = (other[:, cell + 1 :] + 1 + torch.arange(SHAPE.seq_len - cell - 1)) % SHAPE.vocab_size
        for a, b in zip(unroll(model, one, 3), unroll(model, one._replace(inputs=other), 3), strict=True):
            assert torch.equal(a.state.z[:, : cell + 1], b.state.z[:, : cell + 1])
            assert torch.equal(a.logits[:, : cell + 1], b.logits[:, : cell + 1])
            assert not torch.equal(a.state.z[:, cell + 1 :], b.state.z[:, cell + 1 :])
    context = model.encode(one)
    x = context.x.detach().requires_grad_()
    context = replace(context, x=x)
    state = model.step(model.step(model.initial_state(context), context), context)
    for cell in range(SHAPE.seq_len):
        (gradient,) = torch.autograd.grad(state.z[0, cell].square().sum(), x, retain_graph=True)
        assert gradient[0, cell + 1 :].abs().sum() == 0
        assert (gradient[0, : cell + 1].abs().sum(-1) > 0).all()


def test_dropout_is_for_training_and_never_in_the_maps():
    model, puzzles = make(dropout=0.5), batch()
    model.eval()
    quiet = model.encode(puzzles)
    state = model.initial_state(quiet)
    moved, said = model.step(state, quiet), model.readout(state, quiet)
    model.train()
    assert not torch.equal(model.encode(puzzles).x, quiet.x)
    assert not torch.equal(model.step(state, quiet).z, moved.z)
    assert torch.equal(model.readout(state, quiet).logits, said.logits)  # no coda, nothing to drop
    for kind in ("f_h", "cycle", "step"):
        f, z = model.map(state, quiet, kind)
        assert torch.equal(f(z), moved.z)


def test_initial_weights_are_those_of_gpt():
    model = LoopedModel(LoopedConfig(hidden_size=64, num_heads=2), Shape(seq_len=64, vocab_size=64))
    for name, p in model.named_parameters():
        if name.endswith("bias"):
            assert p.abs().sum() == 0
        elif p.ndim == 2:
            assert p.std().item() == pytest.approx(0.02, rel=0.05)
        else:
            assert (p == 1).all()


@pytest.mark.parametrize("kind", NORMS)
def test_norms_and_the_gradient_of_their_jacobian_products(kind):
    """Both forms of a centred norm are one function; a Jacobian term differentiates its products once more."""
    layer = Norm(4, kind, 1e-3).double()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.normal_()
    x, v = torch.randn(2, 3, 4, dtype=torch.float64), torch.randn(2, 3, 4, dtype=torch.float64)
    parts = [None if p is None else p.detach().numpy() for p in (layer.weight, layer.bias)]
    expected = reference.norm(x.numpy(), kind, *parts, 1e-3)
    np.testing.assert_allclose(layer(x).detach().numpy(), expected, rtol=1e-12)
    np.testing.assert_allclose(torch.func.jvp(layer, (x,), (v,))[0].detach().numpy(), expected, rtol=1e-12)
    for product in (jvp, vjp):
        assert torch.autograd.gradcheck(lambda z, product=product: product(layer, z, v), x.requires_grad_())
    x, wide = (100 + torch.randn(2, 64)).bfloat16(), Norm(64, kind)
    torch.testing.assert_close(wide(x), wide(x.float()).bfloat16(), atol=0, rtol=0)  # computed in float32
