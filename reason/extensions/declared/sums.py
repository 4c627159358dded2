"""Linear constraints of puzzles as sparse matrices on the device: those of a set, and those of each puzzle of a batch.

A boolean says "cell i has value v"; a constraint is lo ≤ Σ w·b ≤ hi (datasets_gen/extensions/declared/linear.py).
Every cell has one value; the cells of a group differ; every instance of a relation has the linear form of its rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import embedding_bag, one_hot, pad
from torch.utils._pytree import tree_map_only

from datasets_gen.extensions.declared.linear import DIFFERENT, Sum, hidden_count, linear_form
from datasets_gen.structure import Relation
from reason.models.base import Context, Shape

SMALL = 9  # whole numbers below it have a feature each
FEATURES = 4 * SMALL + 4 + 2 + 1  # of `features`
MOST_FORMS = 2**14  # of one relation; of a relation of more, only the forms of given instances are computed
Kind = tuple[int, tuple[int, ...]]  # of an instance: the number of its cells, and its clue numbers


class Lists(NamedTuple):
    """A sparse matrix (R, N): for each row the columns that it sums up, and their weights."""

    columns: Tensor  # (E,) int32, row by row
    starts: Tensor  # (R + 1,) int32: where the entries of each row begin
    weights: Tensor  # (E,) float32 or wider


class Dense(NamedTuple):
    """B matrices of an ONNX graph, which has no product with a sparse one; its runtime computes those of a set once."""

    matrix: Tensor  # (B, R, N)

    @classmethod
    def of(cls, puzzle: Tensor, row: Tensor, column: Tensor, weight: Tensor, shape: tuple[int, int, int]) -> Dense:
        """Build the matrices of entries (E,); those of a column beyond `shape` are left out."""
        empty = weight.new_zeros(*shape[:2], shape[2] + 1)
        return cls(empty.index_put((puzzle, row, column), weight, accumulate=True)[..., :-1])

    @property
    def transposed(self) -> Dense:
        """(B, N, R)."""
        return Dense(self.matrix.mT)

    def __matmul__(self, h: Tensor) -> Tensor:
        """(N·B, …) -> (R·B, …)."""
        by_puzzle = h.flatten(1).unflatten(0, (-1, self.matrix.shape[0])).transpose(0, 1)  # (B, N, …)
        return (self.matrix @ by_puzzle).transpose(0, 1).flatten(0, 1).unflatten(1, h.shape[1:])


class Sparse(NamedTuple):
    """A sparse matrix and its transpose: a product and its gradient both gather, and neither scatters."""

    rows: Lists
    columns: Lists

    @classmethod
    def of(cls, row: Tensor, column: Tensor, weight: Tensor, shape: tuple[int, int]) -> Sparse:
        """Build the matrix of entries (E,); those of a row or a column beyond `shape` are left out."""
        outside = (row >= shape[0]) | (column >= shape[1])
        weight = weight.masked_fill(outside, 0.0)  # sorted behind the last row, to which they would be added
        both = []
        for key, other, count in ((row, column, shape[0]), (column, row, shape[1])):
            ordered, order = torch.sort(torch.where(outside, count, key), stable=True)
            starts = torch.searchsorted(ordered, torch.arange(count + 1, device=key.device))
            listed = torch.where(outside, 0, other)[order]
            both.append(Lists(listed.int(), starts.int(), weight[order]))
        return cls(*both)

    @property
    def transposed(self) -> Sparse:
        """(N, R)."""
        return Sparse(self.columns, self.rows)

    def __matmul__(self, h: Tensor) -> Tensor:
        """(N, …) -> (R, …)."""
        return _Product.apply(h, *self.rows, *self.columns)


class _Product(torch.autograd.Function):
    """Σ w·h over the columns of each row; the gradient is the product with the transpose."""

    @staticmethod
    def forward(h: Tensor, columns: Tensor, starts: Tensor, weights: Tensor, *_: Tensor) -> Tensor:
        flat, weights = h.reshape(len(h), -1), weights.to(h.dtype)
        found = embedding_bag(columns, flat, starts, mode="sum", per_sample_weights=weights, include_last_offset=True)
        return found.view(-1, *h.shape[1:])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        ctx.lists = inputs[1:]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return _Product.apply(grad, *ctx.lists[3:], *ctx.lists[:3]), *[None] * 6

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, *_: Any) -> Any:
        return _Product.apply(tangent, *ctx.lists)


class Terms(NamedTuple):
    """The terms of M constraints of each of B puzzles, as arrays."""

    booleans: Tensor  # (B, M, P): cell·K + index of the value; −1 if there is none
    weights: Tensor  # (B, M, P): 0 there
    bounds: Tensor  # (B, M, 2): lo and hi

    def padded(self, longest: int) -> Terms:
        """Return the same, padded to `longest` terms."""
        more = (0, longest - self.booleans.shape[-1])
        return self._replace(booleans=pad(self.booleans, more, value=-1), weights=pad(self.weights, more))


class Sums(NamedTuple):
    """M constraints over N booleans; the terms of the last W differ in weight.

    `matrix` has a row for each of the M, with 1 for each of its n terms, and then one for each of the W, with w over
    the largest |w|.
    """

    matrix: Sparse | Dense  # (M + W, N)
    scale: Tensor  # (M + W, B, 1): 1/√n
    features: Tensor  # (M, B, FEATURES)
    weighted: int  # W

    @classmethod
    def of(cls, terms: Terms, booleans: int, weighted: int, dtype: torch.dtype) -> Sums:
        """Build the sums; rows are ordered by constraint, columns by boolean, and within each by the B puzzles."""
        batch, count, _ = terms.booleans.shape
        there, last = terms.booleans >= 0, slice(count - weighted, None)
        puzzle = torch.arange(batch, device=there.device)[:, None, None].expand_as(there)
        row = torch.arange(count, device=there.device)[:, None].expand_as(there)
        column = torch.where(there, terms.booleans, booleans)
        ratio = terms.weights.to(dtype) / terms.weights.abs().amax(-1, keepdim=True).clamp(min=1)
        size = there.sum(-1)
        root = size.clamp(min=1).to(dtype).rsqrt()

        def entries(all_terms: Tensor, of_weighted: Tensor) -> Tensor:
            return torch.cat([all_terms.flatten(), of_weighted[:, last].flatten()])

        puzzles, rows, columns = (
            entries(*each) for each in ((puzzle, puzzle), (row, row + weighted), (column, column))
        )
        weights, high = entries(torch.ones_like(ratio), ratio), count + weighted
        matrix: Sparse | Dense
        if torch.compiler.is_exporting():
            matrix = Dense.of(puzzles, rows, columns, weights, (batch, high, booleans))
        else:
            of_all = rows * batch + puzzles, columns * batch + puzzles
            matrix = Sparse.of(*of_all, weights, (high * batch, booleans * batch))
        scale = torch.cat([root, root[:, last]], dim=1).T[..., None]
        return cls(matrix, scale, features(terms, size).transpose(0, 1), weighted)


def features(terms: Terms, size: Tensor) -> Tensor:
    """(B, M, FEATURES): how far the bounds lie above the least that the terms can sum to, its range, their number."""
    least, most = terms.weights.clamp(max=0).sum(-1), terms.weights.clamp(min=0).sum(-1)
    low, high, reach = terms.bounds[..., 0] - least, terms.bounds[..., 1] - least, most - least
    wholes = torch.stack([low, high, reach, size], dim=-1).clamp(min=0)
    small = one_hot(wholes.clamp(max=SMALL), SMALL + 1)[..., :-1].flatten(-2)
    shares = torch.stack([low, high], dim=-1) / reach.clamp(min=1)[..., None]
    signs = (terms.weights >= 0).all(-1, keepdim=True)
    return torch.cat([small, (1.0 + wholes).log2() / 4, shares, signs], dim=-1).float()


class Tables(NamedTuple):
    """The linear forms of F kinds of instances of one relation, of up to P cells."""

    codes: Tensor  # (F,) ascending: `code` of the number of cells and the clue numbers of each form
    places: Tensor  # (F, C, T): the place of each term's cell, P + i for hidden boolean i; −1 if there is none
    values: Tensor  # (F, C, T)
    weights: Tensor  # (F, C, T)
    bounds: Tensor  # (F, C, 2)
    hidden: int  # booleans, at most
    weighted: bool  # whether terms of one constraint differ in weight


def code(size: Any, numbers: Sequence[Any], highest: int) -> Any:
    """Return one whole number for a number of cells and clue numbers, −1 if there is none."""
    for number in numbers:
        size = size * (highest + 2) + number + 1
    return size


def tables(relation: Relation, kinds: Sequence[Kind], largest: int, values: tuple[int, ...]) -> Tables:
    """Return the forms of these kinds of instances of up to `largest` cells, each with one of `values`."""
    coded = sorted((code(size, some + (-1,) * (relation.clues - len(some)), relation.highest), size, some)
                   for size, some in kinds)  # fmt: skip
    forms = [linear_form(relation.rule, size, some, values) for _, size, some in coded]
    count = max(map(len, forms))
    longest = max((len(each.places) for some in forms for each in some), default=0)
    terms = np.zeros((3, len(forms), count, longest), np.int64)
    terms[0], bounds = -1, np.zeros((len(forms), count, 2), np.int64)
    hidden = max(hidden_count(some, size) for some, (_, size, _) in zip(forms, coded, strict=True))
    for f, (some, (_, size, _)) in enumerate(zip(forms, coded, strict=True)):
        for c, each in enumerate(some):
            places = [place + (largest - size) * (place >= size) for place in each.places]
            terms[:, f, c, : len(places)] = places, each.values, each.weights
            bounds[f, c] = each.low, each.high
    weighted = any({*each.weights} != {1} for some in forms for each in some)
    codes, placed, which, weights, ends = map(torch.from_numpy, (np.array([each[0] for each in coded]), *terms, bounds))
    return Tables(codes, placed, which, weights, ends, hidden, weighted)


def all_kinds(relation: Relation, largest: int) -> list[Kind]:
    """Return the kinds of all instances of up to `largest` cells that a relation may have; [] if they are too many."""
    found: list[tuple[int, ...]] = [()]
    if relation.rule != ["runs"]:
        found = [(number,) for number in range(relation.highest + 1)] if relation.clues else found
    else:
        for some in found:  # which grows
            if len(some) < relation.clues and len(found) <= MOST_FORMS:
                found += [(*some, n) for n in range(1, largest - sum(some) - len(some) + 1)]
    sizes = [relation.places] if relation.places else range(1, largest + 1)
    return [(size, some) for size in sizes for some in found] if len(sizes) * len(found) <= MOST_FORMS else []


def kinds_of(rows: Tensor, relation: Relation) -> tuple[Kind, ...]:
    """Return the kinds of instances (B, M, C + P) of a relation; one at least."""
    numbers, cells = rows.long().split([relation.clues, rows.shape[-1] - relation.clues], dim=-1)
    every = torch.cat([(cells >= 0).sum(-1, keepdim=True), numbers], dim=-1).flatten(0, 1).unique(dim=0).tolist()
    found = tuple((size, tuple(number for number in some if number >= 0)) for size, *some in every if size)
    return found or ((relation.places or 1, (0,) * relation.clues),)


class LinearConstraints(nn.Module):
    """Called with a `Context`: the constraints of the set, and those of each puzzle where it has some."""

    def __init__(self, shape: Shape, hidden_index: int = 0):
        """Compute the constraints of the set. hidden_index: the embedding index of hidden booleans."""
        super().__init__()
        self.hidden_index = hidden_index
        structure = shape.structure
        self.cells, self.symbols = shape.seq_len, len(structure.alphabet)
        tokens = structure.alphabet
        self.values = tuple((structure.lowest or 0) + token - tokens[0] for token in tokens)
        self.relations = {index: each for index, each in enumerate(structure.relations) if each.seen}
        self._tables: dict[Any, Tables] = {}
        groups = [structure.partition(name) for name in structure.groups]
        every = [(DIFFERENT, np.flatnonzero(group == n)) for group in groups for n in range(group.max() + 1)]
        every += [(each.rule, np.array(cells)) for each in self.relations.values() for cells in each.instances]
        one = Sum((0,) * self.symbols, tuple(range(self.symbols)), (1,) * self.symbols, 1, 1)
        found = [(np.array([cell * self.symbols]), one) for cell in range(self.cells)]
        self.hidden = 0  # booleans of instances that every puzzle has
        for rule, cells in every:
            form = linear_form(rule, len(cells), (), self.values)
            more = hidden_count(form, len(cells))
            beyond = self.cells * self.symbols + self.hidden + np.arange(more)
            found += [(np.concatenate([cells * self.symbols, beyond]), each) for each in form]
            self.hidden += more
        found.sort(key=lambda each: {*each[1].weights} != {1})
        self.weighted = sum({*each.weights} != {1} for _, each in found)
        terms = np.zeros((2, 1, len(found), max(len(each.places) for _, each in found)), np.int64)
        terms[0] = -1
        for c, (first, each) in enumerate(found):
            terms[:, 0, c, : len(each.places)] = first[[*each.places]] + each.values, each.weights
        bounds = np.array([[(each.low, each.high) for _, each in found]])
        for name, array in zip(Terms._fields, (*terms, bounds), strict=True):
            self.register_buffer(name, torch.from_numpy(array), persistent=False)

    def forward(self, context: Context) -> tuple[Sums, ...]:
        """Return the sums of the set, for booleans (N, …), and those of the puzzles, for booleans (N·B, …)."""
        set_terms = Terms(*(getattr(self, name) for name in Terms._fields))
        dtype, booleans = torch.promote_types(context.x.dtype, torch.float32), context.x.shape[1]
        found = [Sums.of(set_terms, booleans, self.weighted, dtype)]
        own, first = [], self.cells * self.symbols + self.hidden
        for index, rows in self._drawn(context.relations):
            own.append(self._puzzle_terms(index, rows, first))
            first += rows.shape[1] * self._table(index, rows).hidden
        if own:
            own.sort(key=lambda each: each[1])
            longest = max(terms.booleans.shape[-1] for terms, _ in own)
            same = [terms.padded(longest) for terms, _ in own]
            terms = Terms(*(torch.cat(parts, dim=1) for parts in zip(*same, strict=True)))
            weighted = sum(terms.booleans.shape[1] for terms, differs in own if differs)
            found.append(Sums.of(terms, booleans, weighted, dtype))
        return tuple(found)

    def extend(self, index: Tensor, relations: tuple[Tensor, ...]) -> Tensor:
        """Append the hidden booleans of these puzzles to embedding indices: (B, S·K) -> (B, S·K + hidden)."""
        drawn = self._drawn(relations)
        hidden = self.hidden + sum(rows.shape[1] * self._table(number, rows).hidden for number, rows in drawn)
        return pad(index, (0, hidden), value=self.hidden_index)

    def _drawn(self, relations: tuple[Tensor, ...]) -> list[tuple[int, Tensor]]:
        """Return the relations of which puzzles have instances of their own (B, M, C + P), and these."""
        return [(index, relations[index]) for index in self.relations if relations and relations[index].shape[1]]

    def _table(self, index: int, rows: Tensor) -> Tables:
        """Return the cached tables on the device of the instances; a copy at each step would wait for the host."""
        relation, largest = self.relations[index], rows.shape[-1] - self.relations[index].clues
        key: Any = index, largest, rows.device
        kinds: Sequence[Kind] = () if key in self._tables else all_kinds(relation, largest)
        if key not in self._tables and not kinds:
            kinds = kinds_of(rows, relation)
            key = *key, kinds
        if key not in self._tables:
            made = tables(relation, kinds, largest, self.values)
            self._tables[key] = tree_map_only(Tensor, lambda t: t.to(rows.device), made)
        return self._tables[key]

    def _puzzle_terms(self, index: int, rows: Tensor, first: int) -> tuple[Terms, bool]:
        """Return the constraints of instances (B, M, C + P), and whether the terms of one may differ in weight.

        first: the number of their first hidden boolean.
        """
        relation, table = self.relations[index], self._table(index, rows)
        numbers, cells = rows.long().split([relation.clues, rows.shape[-1] - relation.clues], dim=-1)
        size = (cells >= 0).sum(-1)
        asked = code(size, numbers.unbind(-1), relation.highest)
        if torch.compiler.is_exporting():  # ONNX has no binary search
            which = (table.codes < asked[..., None]).sum(-1)
        else:
            which = torch.searchsorted(table.codes, asked)
        which = which.clamp(max=len(table.codes) - 1)
        places, values, weights, bounds = (part[which] for part in table[1:5])  # (B, M, C', T)
        there = (places >= 0) & (size > 0)[..., None, None]
        hidden = first + torch.arange(rows.shape[1] * table.hidden, device=rows.device)
        hidden = hidden.view(rows.shape[1], table.hidden)
        start = torch.cat([cells * self.symbols, hidden.expand(rows.shape[0], -1, -1)], dim=-1)  # (B, M, P + hidden)
        booleans = start[:, :, None].expand(-1, -1, places.shape[2], -1).gather(-1, places.clamp(min=0)) + values
        terms = Terms(torch.where(there, booleans, -1), weights * there, bounds * (size > 0)[..., None, None])
        return Terms(*(part.flatten(1, 2) for part in terms)), table.weighted
