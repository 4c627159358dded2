"""Attention within groups against numpy in float64; what it is equivariant to; boards of other sizes; a GPU's step."""

import numpy as np
import pytest
import torch
from conftest import pairs
from reference import silu
from test_queued import SCHEDULED, hold_one_queue
from test_structured import GROUPS, OPEN, RECURSIVE, SYMBOLS, close, make, run, shape, sudokus
from test_structured import test_moving_rows_within_bands_moves_the_logits as move_rows

from datasets_gen.structure import Structure
from datasets_gen.sudoku import Sudoku
from reason.config.overrides import override
from reason.extensions.group_attention.mixer import GroupAttention
from reason.models import RecursiveConfig
from reason.models.base import Shape
from reason.nn.geometry import Geometry

OURS = {"mixer": "group-attention"}


@pytest.mark.parametrize("symbols", [1, 3])
def test_a_layer_is_attention_within_each_group_and_a_gated_mlp(symbols):
    groups, width = [np.array([0, 0, 1, 1]), np.array([1, 0, 1, 0])], 6
    mixer = GroupAttention(width, 5, groups, symbols > 1).double()
    sends = (torch.rand(2, 4 * symbols, 1) < 0.6).double()
    h = torch.randn(2, 4 * symbols, width, dtype=torch.float64)
    got = mixer(h, Geometry(sends=sends, group_counts=(2, 2), symbols=symbols)).detach().numpy()
    layers = (mixer.qkv, mixer.join, mixer.up, mixer.out)
    qkv, join, up, out = (layer.weight.detach().numpy().T for layer in layers)
    z = np.reshape(h.numpy() @ qkv * sends.numpy(), (2, 4 * symbols, -1, 3, width // 2))  # 0 at what sends nothing
    cell, symbol = np.divmod(np.arange(4 * symbols), symbols)
    together = [(symbol[:, None] == symbol) & (each[cell][:, None] == each[cell]) for each in groups]
    heard = []
    for r, pairs_heard in enumerate([*together, cell[:, None] == cell][: z.shape[2]]):
        weights = pairs_heard * np.exp(z[:, :, r, 0] @ z[:, :, r, 1].swapaxes(1, 2) / np.sqrt(width // 2))
        heard.append(weights / weights.sum(-1, keepdims=True) @ z[:, :, r, 2])
    u = h.numpy() + np.concatenate(heard, -1) @ join
    u /= np.sqrt((u**2).mean(-1, keepdims=True) + 1e-5)
    gate, value = np.split(u @ up, 2, -1)
    np.testing.assert_allclose(got, u - h.numpy() + (silu(gate) * value) @ out, atol=1e-10)


@pytest.mark.parametrize("settings", [GROUPS, SYMBOLS, OPEN], ids=str)
def test_moved_rows_and_larger_boards(settings):
    move_rows(settings | OURS, "recursive")
    small, large = make("recursive", Sudoku(4), settings | OURS), make("recursive", Sudoku(6), settings | OURS)
    if "symbols" in settings:  # no weight depends on the size
        large.load_state_dict(small.state_dict())
        small.add_shape(shape(Sudoku(6)))
        tokens = sudokus(Sudoku(6))
        close(run(small, tokens)[0], run(large, tokens)[0])


def test_groups_have_one_size():
    unlike = Shape(seq_len=4, vocab_size=5, structure=Structure(groups={"part": (0, 0, 0, 1)}, symbols=(3, 4)))
    message = RecursiveConfig(**RECURSIVE | GROUPS | OURS).missing_structure(unlike)
    assert "one size, and the groups part of the set" in message


def test_steps_of_one_form_queue_the_same_operators(tiny):
    own = "model.mixer=group-attention model.positions=none model.symbols=true model.open_only=true data.augment=true"
    hold_one_queue(override(tiny, SCHEDULED | {"model.h_cycles": "2"} | pairs(own)))
