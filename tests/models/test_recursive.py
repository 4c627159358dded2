"""The recursive model against a naive float64 loop, and its gradient's reach."""

from itertools import pairwise

import numpy as np
import pytest
import reference
import torch

from reason.models import RecursiveConfig, RecursiveModel, Shape
from reason.models.base import Batch

SHAPE = Shape(seq_len=5, vocab_size=7, num_puzzle_identifiers=3)
SMALL = {"hidden_size": 8, "num_heads": 2, "expansion": 1.0, "puzzle_emb_len": 2, "h_cycles": 2, "l_cycles": 3}

VARIANTS = {
    "trm attention": {},
    "trm mlp": {"mixer": "mlp", "positions": "none"},
    "hrm": {"separate_networks": True, "gradient": "last-call", "puzzle_emb_len": 1},
    "learned positions": {"positions": "learned"},
    "no positions": {"positions": "none"},
    "learned positions, mlp": {"mixer": "mlp", "positions": "learned"},
    "identical layers": {"num_layers": 1, "repeats": 2},
    "tanh": {"activation": "tanh", "mixer": "mlp", "positions": "none"},
    "no prefix": {"puzzle_emb_len": 0},
    "all cycles": {"gradient": "all-cycles"},
    "input state": {"initial": "input"},
    "euler": {"dt": 0.5},
    "noise": {"dt": 0.25, "noise": "additive", "sigma": 0.3, "separate_networks": True},
    "mean q": {"q_from": "mean"},
    "single z": {"states": 1},
    "single z, mlp": {"states": 1, "mixer": "mlp", "positions": "none"},
}


def make(**changes):
    model = RecursiveModel(RecursiveConfig(**SMALL | changes), SHAPE, torch.float64).double()
    with torch.no_grad():
        if model.puzzle_embedding is not None:
            model.puzzle_embedding.weight.normal_()
        model.q_head.weight.normal_()
    return model


def batch(rows=3):
    inputs = torch.randint(0, SHAPE.vocab_size, (rows, SHAPE.seq_len))
    return Batch(inputs, inputs.clone(), torch.arange(rows) % SHAPE.num_puzzle_identifiers)


def begun(**changes):
    model = make(**changes)
    context = model.encode(batch())
    return model, model.initial_state(context), context


def naive_step(model, inputs, identifier):
    """One supervision step of one puzzle from the initial state, straight from docs/math.md §1."""
    c = model.config
    w = {name: value.detach().numpy() for name, value in model.state_dict().items()}
    x = w["tokens.weight"][inputs]
    if c.puzzle_emb_len:
        slots = np.zeros((c.puzzle_emb_len, c.hidden_size))
        slots[0] = w["puzzle_embedding.weight"][identifier]
        x = np.concatenate([slots, x])
    if c.positions == "learned":
        x = (x + w["positions.weight"]) / np.sqrt(2)
    x = np.sqrt(c.hidden_size) * x
    if c.initial == "input":
        z_h, z_l = x.copy(), np.zeros_like(x)
    else:
        z_h, z_l = (np.tile(w[name], (len(x), 1)) for name in ("initial_h", "initial_l"))

    def move(z, f):
        return z + c.dt * (f - z) + (c.sigma * c.dt**0.5 if c.noise == "additive" else 0)  # ζ = 1

    if c.states == 1:
        z = z_h
        for _ in range(c.h_cycles):
            for _ in range(c.l_cycles):
                z = move(z, reference.network(z + x, w, "f_l", c))
            z = move(z, reference.network(z, w, "f_l", c))
        z_h = z_l = z
    else:
        for _ in range(c.h_cycles):
            for _ in range(c.l_cycles):
                z_l = move(z_l, reference.network(z_l + z_h + x, w, "f_l", c))
            z_h = move(z_h, reference.network(z_h + z_l, w, "f_h" if c.separate_networks else "f_l", c))
    slot = z_h[0] if c.q_from == "first" else z_h[c.puzzle_emb_len :].mean(0)
    q = slot @ w["q_head.weight"].T + w["q_head.bias"]
    return {"z_h": z_h, "z_l": z_l, "logits": z_h[c.puzzle_emb_len :] @ w["head.weight"].T, "q": q}


@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS)
def test_step_equals_the_naive_loop(changes, monkeypatch):
    monkeypatch.setattr("reason.models.recursion.normal_like", torch.ones_like)
    model, puzzles = make(**changes), batch()
    x = model.encode(puzzles)
    state = model.step(model.initial_state(x), x)
    out = model.readout(state, x)
    for row in range(3):
        expected = naive_step(model, puzzles.inputs[row].numpy(), int(puzzles.identifiers[row]))
        got = {"z_h": state[0][row], "z_l": state[-1][row], "logits": out.logits[row]}
        for name, value in (got | {"q": torch.stack([out.q_halt[row], out.q_continue[row]])}).items():
            # rotary tables and rms_norm's accumulation are float32 by definition
            np.testing.assert_allclose(value.detach().numpy(), expected[name], atol=3e-5, err_msg=name)


@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS)
def test_every_variant_trains_every_weight(changes):
    model, start, x = begun(**changes)
    out = model.readout(model.step(start, x), x)
    (out.logits.square().mean() + out.q_halt.sum()).backward()
    without = [name for name, p in model.named_parameters() if p.grad is None or p.grad.to_dense().abs().sum() == 0]
    assert without == []


@pytest.mark.parametrize(("gradient", "expected"), [
    ("last-call", [False] * 6 + [True, True]),  # 2 cycles × (3 low + 1 high)
    ("last-cycle", [False] * 4 + [True] * 4),
    ("all-cycles", [True] * 8),
    *((k, [False] * (8 - k) + [True] * k) for k in (1, 5, 8)),
])  # fmt: skip
def test_gradient_reach(gradient, expected):
    """Which network calls of one supervision step carry a gradient, in order."""
    model, start, x = begun(gradient=gradient)
    calls = []
    model.f_l.register_forward_hook(lambda *_: calls.append(torch.is_grad_enabled()))
    model.step(start, x)
    assert calls == expected


def test_random_initial_states_are_draws_of_their_own():
    """Of every row, and of the high and the low state where there are two."""
    _, (z_h, z_l), _ = begun(initial="random", states=2)
    for a, b in ((z_h, z_l), (z_h[0], z_h[1])):
        assert not torch.equal(a, b)
        assert abs(a.std().item() - 1) < 0.2
    assert len(begun(initial="random", states=1)[1]) == 1


@pytest.mark.parametrize("changes", [{}, {"states": 1}])
def test_the_path_has_every_call_and_ends_with_the_step(changes):
    """N_H·(N_L + 1) states, z_H still until the last of a cycle."""
    model, start, x = begun(**changes)
    path = model.path(start, x)
    assert len(path) == 2 * (3 + 1)
    torch.testing.assert_close(path[-1], model.step(start, x))
    if not changes:
        assert [torch.equal(a.z_h, b.z_h) for a, b in pairwise(path)] == [True, True, False] + [True] * 3 + [False]
        assert not any(torch.equal(a.z_l, b.z_l) for a, b in pairwise(path[:3]))


@pytest.mark.parametrize("states", [1, 2])
def test_the_input_state_is_x_where_the_readout_looks(states):
    model, start, x = begun(states=states)
    found = model.input_state(x)
    assert found.z_h is x.x
    torch.testing.assert_close(found, start._replace(z_h=x.x), rtol=0, atol=0)


@pytest.mark.parametrize("kind", ["f_h", "cycle", "step"])
@pytest.mark.parametrize("states", [1, 2])
def test_maps_move_the_state_as_the_step_does(kind, states):
    model, state, x = begun(states=states, separate_networks=states == 2)
    move, point = model.map(state, x, kind)
    if kind == "f_h":
        network, argument = (model.f_l, state.z_h) if states == 1 else (model.f_h, state.z_h + state.z_l)
        torch.testing.assert_close(move(point), network(argument, x.geometry))
    else:
        moved = model.step(state, x) if kind == "step" else model.path(state, x)[SMALL["l_cycles"]]
        torch.testing.assert_close(move(point), torch.stack(moved, dim=1))
