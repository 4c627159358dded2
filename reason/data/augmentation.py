"""Augmentation on the device: symmetries of a puzzle drawn for each row, and hints from its answer."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from datasets_gen.structure import TURNS, GridSymmetry
from reason.models.base import Batch


class Symmetries(NamedTuple):
    """A symmetry for each of B rows."""

    names: Tensor | None  # (B, tokens): the new name of each token; later tokens and IGNORE keep theirs
    source: Tensor | None  # (B, S): the source cell of each cell

    def apply(self, tokens: Tensor) -> Tensor:
        """Apply the symmetries to tokens (B, S), perhaps IGNORE."""
        if self.names is not None:
            tokens = _renamed(tokens, self.names)
        return tokens if self.source is None else tokens.gather(1, self.source)

    def undo(self, tokens: Tensor) -> Tensor:
        """Return the tokens (B, S) that `apply` maps to the given ones."""
        if self.source is not None:
            tokens = torch.empty_like(tokens).scatter(1, self.source, tokens)
        return tokens if self.names is None else _renamed(tokens, self.names.argsort(dim=1))


def _renamed(tokens: Tensor, names: Tensor) -> Tensor:
    known = tokens.clamp(0, names.shape[1] - 1)
    return torch.where(tokens == known, names.gather(1, known), tokens)


IDENTITY = Symmetries(None, None)  # leaves every row unchanged


def augment(batch: Batch, symmetry: GridSymmetry, generator: torch.Generator) -> Batch:
    """Apply a random symmetry to each row's question and label: it relabels tokens and moves cells."""
    symmetries = draw_symmetries(len(batch.inputs), symmetry, generator)
    assert symmetries.source is None or not batch.relations, "instances name cells: families with relations move none"
    return batch._replace(inputs=symmetries.apply(batch.inputs), labels=symmetries.apply(batch.labels))


def give_hints(batch: Batch, symbols: Tensor, most: int, generator: torch.Generator) -> Batch:
    """Fill 1 … `most` (uniform) of the empty cells of every second row, on average, with their answer.

    A puzzle with more clues is another puzzle with the same answer: 1,000 puzzles of 56 empty cells have two
    million neighbours of three hints or fewer each. (ours)
    """
    rows, device = len(batch.inputs), batch.inputs.device
    empty = ~torch.isin(batch.inputs, symbols) & torch.isin(batch.labels, symbols)  # (B, S)
    order = torch.rand(batch.inputs.shape, generator=generator, device=device).masked_fill(~empty, 2.0).argsort(dim=1)
    given = torch.randint(1, most + 1, (rows, 1), generator=generator, device=device)
    given = given * (torch.rand(rows, 1, generator=generator, device=device) < 0.5)
    chosen = torch.empty_like(order).scatter_(1, order, torch.arange(order.shape[1], device=device).expand_as(order))
    return batch._replace(inputs=torch.where(empty & (chosen < given), batch.labels, batch.inputs))


def draw_symmetries(
    rows: int, symmetry: GridSymmetry, generator: torch.Generator, restarts: Tensor | int | None = None
) -> Symmetries:
    """Draw a symmetry for each row, on the generator's device.

    restarts: the index of each row's restart on its puzzle, from 0. On a square the restarts use the eight rotations
    and reflections in order, beginning with the identity.
    """
    device = generator.device
    names = None
    first, last = symmetry.relabel
    if last > first:
        fixed = torch.arange(first, device=device).expand(rows, first)
        names = torch.cat([fixed, first + _permutations(rows, last - first + 1, generator, device)], dim=1)
    if symmetry.turns:
        drawn = torch.randint(TURNS, (rows,), generator=generator, device=device) if restarts is None else restarts
        return Symmetries(names, _turned(symmetry.rows_per_band, torch.as_tensor(drawn, device=device).expand(rows)))
    return Symmetries(names, _cell_sources(rows, symmetry, generator, device) if symmetry.moves else None)


def _permutations(rows: int, size: int, generator: torch.Generator, device: torch.device) -> Tensor:
    """Return (rows, size) independent uniform permutations."""
    return torch.rand(rows, size, generator=generator, device=device).argsort(dim=1)


def _moves(rows: int, bands: int, per_band: int, generator: torch.Generator, device: torch.device) -> Tensor:
    """Return (rows, bands · per_band): the source of each line; bands are permuted, and lines within each band."""
    band = _permutations(rows, bands, generator, device)[:, :, None]
    line = _permutations(rows * bands, per_band, generator, device).view(rows, bands, per_band)
    return (band * per_band + line).flatten(1)


def _turned(size: int, which: Tensor) -> Tensor:
    """Return the source cells (rows, cells) of a square grid under symmetry `which` (rows,) mod 8 of its eight."""
    grid = torch.arange(size**2, device=which.device).view(1, size, size).expand(len(which), -1, -1)
    bits = which.view(-1, 1, 1)
    grid = torch.where(bits & 1 > 0, grid.flip(1), grid)
    grid = torch.where(bits & 2 > 0, grid.flip(2), grid)
    return torch.where(bits & 4 > 0, grid.transpose(1, 2), grid).flatten(1)


def _cell_sources(rows: int, symmetry: GridSymmetry, generator: torch.Generator, device: torch.device) -> Tensor:
    """Return (rows, cells): the source cell of each cell."""
    down = _moves(rows, symmetry.bands, symmetry.rows_per_band, generator, device)
    across = _moves(rows, symmetry.stacks, symmetry.columns_per_stack, generator, device)
    width = across.shape[1]
    grid = down[:, :, None] * width + across[:, None, :]  # (rows, height, width)
    if symmetry.transpose:
        turned = torch.rand(rows, 1, 1, generator=generator, device=device) < 0.5
        grid = torch.where(turned, grid.transpose(1, 2), grid)
    return grid.flatten(1)
