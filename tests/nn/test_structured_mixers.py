"""Gated convolution and group messages against float64 loops."""

from itertools import product

import numpy as np
import pytest
import torch
from reference import silu

from datasets_gen.sudoku import Sudoku
from reason.nn.geometry import Geometry, incidence, pooling
from reason.nn.groups import GroupMixer
from reason.nn.local import LocalMixer
from reason.nn.rope import rotary_2d_table


@pytest.mark.parametrize("neighbourhood", ["moore", "von-neumann"])
def test_local_mixing_is_a_gated_convolution_that_outside_cells_do_not_feed(neighbourhood):
    rows, columns, width, inner = 3, 4, 5, 2
    mixer = LocalMixer(width, inner, neighbourhood=neighbourhood).double()
    h = torch.randn(2, rows * columns, width, dtype=torch.float64)
    inside = (torch.rand(2, rows * columns, 1) < 0.7).double()
    got = mixer(h, Geometry(grid=(rows, columns), sends=inside)).detach().numpy()
    out = mixer.out.weight.detach().numpy()  # (D, I)
    offsets = [(i, j) for i, j in product((-1, 0, 1), repeat=2) if neighbourhood == "moore" or abs(i) + abs(j) <= 1]
    kernel = torch.zeros(2 * inner, width, 3, 3, dtype=torch.float64)
    for weight, (i, j) in zip(mixer.weight.detach().reshape(2 * inner, -1, width).unbind(1), offsets, strict=True):
        kernel[:, :, 1 + i, 1 + j] = weight
    sent = (h * inside).transpose(1, 2).unflatten(2, (rows, columns))
    y = torch.nn.functional.conv2d(sent, kernel, padding=1).flatten(2).transpose(1, 2).numpy()
    np.testing.assert_allclose(got, (silu(y[..., :inner]) * y[..., inner:]) @ out.T, atol=1e-12)


def test_group_mixing_adds_the_pooled_messages_of_every_group_with_their_variance():
    puzzle, width, inner, symbols = Sudoku(4), 3, 2, 5
    groups = [puzzle.structure.partition(name) for name in puzzle.structure.groups]
    mixer = GroupMixer(width, inner, len(groups), symbols=True).double()
    assert mixer.symbols is not None
    member = incidence(groups).astype(np.float64)
    pool, membership = torch.from_numpy(pooling(member)), torch.from_numpy(member.T.copy())
    geometry = Geometry(pool=pool, membership=membership, group_counts=(4, 4, 4), symbols=symbols)
    h = torch.randn(2, 16 * symbols, width, dtype=torch.float64)
    got = mixer(h, geometry).detach().numpy().reshape(2, 16, symbols, width)
    z = h.numpy().reshape(2, 16, symbols, width)
    own, out, among = (layer.weight.detach().numpy() for layer in (mixer.own, mixer.out, mixer.symbols))
    each = [layer.weight.detach().numpy() for layer in mixer.relations]
    for b, s, k in np.ndindex(2, 16, symbols):
        y = own @ z[b, s, k] + among @ z[b, s].sum(0) / np.sqrt(symbols)
        for weight, numbers in zip(each, groups, strict=True):
            y = y + weight @ z[b, numbers == numbers[s], k].sum(0) / 2
        np.testing.assert_allclose(got[b, s, k], out @ (silu(y[:inner]) * y[inner:]), atol=1e-12)
    pool = torch.from_numpy(pooling(incidence([np.array([0, 0, 0, 1])])))
    torch.testing.assert_close(pool, torch.tensor([[3**-0.5] * 3 + [0], [0, 0, 0, 1]]))


@pytest.mark.parametrize(("base", "slow"), [(16.0, 0.25), (10_000.0, 0.01)])
def test_rotary_2d_angles_are_those_of_row_and_column(base, slow):
    """Frequencies 1 and base^(−1/2) for each; the two slots of a prefix lie in row −1, columns 0 and 1."""
    places = [(-1, 0), (-1, 1), (0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]
    angles = torch.tensor([[row, slow * row, column, slow * column] * 2 for row, column in places])
    table = rotary_2d_table((2, 3), 8, base, prefix=2)
    torch.testing.assert_close(table, torch.stack([angles.cos(), angles.sin()]))
