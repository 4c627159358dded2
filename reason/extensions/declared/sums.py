"""Linear constraints of puzzles as sparse matrices on the device: those of a set, and those of each puzzle of a batch.

A boolean says "cell i has value v"; a constraint is lo ≤ Σ w·b ≤ hi (datasets_gen/extensions/declared/linear.py).
Every cell has one value; the cells of a group differ; every instance of a relation has the linear form of its rule.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import embedding_bag, one_hot, pad

from datasets_gen.extensions.declared.linear import DIFFERENT, Sum, linear_form
from datasets_gen.layout import DatasetError
from datasets_gen.structure import Relation
from reason.context import Context
from reason.models.base import Shape

SMALL = 9  # whole numbers below it have a feature each
FEATURES = 4 * SMALL + 4 + 2 + 1  # of `features`
MOST_FORMS = 2**14  # of one relation


class Lists(NamedTuple):
    """A sparse matrix (R, N): for each row the columns that it sums up, and their weights."""

    columns: Tensor  # (E,) int32, row by row
    starts: Tensor  # (R + 1,) int32: where the entries of each row begin
    weights: Tensor  # (E,) float32 or wider


class Sparse(NamedTuple):
    """A sparse matrix and its transpose: a product and its gradient both gather, and neither scatters."""

    rows: Lists
    columns: Lists

    @classmethod
    def of(cls, row: Tensor, column: Tensor, weight: Tensor, shape: tuple[int, int]) -> Sparse:
        """From entries (E,); those of a row or a column beyond `shape` are left out."""
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

    booleans: Tensor  # (B, M, P): cell·K + index of the value; −1 where there is none
    weights: Tensor  # (B, M, P): 0 there
    bounds: Tensor  # (B, M, 2): lo and hi

    def padded(self, longest: int) -> Terms:
        """With room for `longest` terms."""
        room = (0, longest - self.booleans.shape[-1])
        return self._replace(booleans=pad(self.booleans, room, value=-1), weights=pad(self.weights, room))


class Sums(NamedTuple):
    """M constraints over N booleans; the terms of the last W differ in weight.

    `read` has a row for each of the M, 1 for each of its n terms, and then one for each of the W, w over the largest
    |w|; all over √n. `answer` is the transpose, without √n.
    """

    read: Sparse  # (M + W, N)
    answer: Sparse  # (N, M + W)
    features: Tensor  # (M, B, FEATURES)
    weighted: int  # W

    @classmethod
    def of(cls, terms: Terms, booleans: int, weighted: int, dtype: torch.dtype) -> Sums:
        """Rows and columns are numbered constraint by constraint and boolean by boolean, the B puzzles in turn."""
        batch, count, _ = terms.booleans.shape
        there, last = terms.booleans >= 0, slice(count - weighted, None)
        owner = torch.arange(batch, device=there.device)[:, None, None]
        shape = ((count + weighted) * batch, booleans * batch)
        row = (torch.arange(count, device=there.device)[:, None] * batch + owner).expand_as(there)
        column = torch.where(there, terms.booleans * batch + owner, shape[1])
        ratio = terms.weights.to(dtype) / terms.weights.abs().amax(-1, keepdim=True).clamp(min=1)
        size = there.sum(-1)
        root = size.clamp(min=1).to(dtype).rsqrt()[..., None].expand_as(ratio)

        def entries(all_terms: Tensor, of_weighted: Tensor) -> Tensor:
            return torch.cat([all_terms.flatten(), of_weighted[:, last].flatten()])

        at = entries(row, row + weighted * batch), entries(column, column)
        weights = entries(torch.ones_like(ratio), ratio)
        read = Sparse.of(*at, weights * entries(root, root), shape)
        answer = Sparse.of(*at, weights, shape).transposed
        return cls(read, answer, features(terms, size).transpose(0, 1), weighted)


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
    """The linear forms of one relation, for every number of cells and every clue number."""

    form: Tensor  # (sizes, numbers): which form
    places: Tensor  # (F, C, P): the place of each term's cell in the instance; −1 where there is none
    values: Tensor  # (F, C, P)
    weights: Tensor  # (F, C, P)
    bounds: Tensor  # (F, C, 2)
    weighted: bool  # whether terms of one constraint differ in weight


def tables(relation: Relation, largest: int, values: tuple[int, ...]) -> Tables:
    """The forms of a relation of up to `largest` cells, each with one of `values`.

    Raises:
        DatasetError: the relation has no linear form, or too many.
    """
    numbers: list[tuple[int, ...]] = [(n,) for n in range(relation.highest + 1)] if relation.clues else [()]
    sizes = [relation.places] if relation.places else [*range(1, largest + 1)]
    if len(sizes) * len(numbers) > MOST_FORMS:
        raise DatasetError(
            f"{relation.name}: {len(sizes)} sizes and {len(numbers)} numbers are more than {MOST_FORMS} linear forms; "
            "use smaller numbers"
        )
    forms = [linear_form(relation.rule, size, number, values) for size in sizes for number in numbers]
    count, longest = max(map(len, forms)), max(len(each.places) for some in forms for each in some)
    terms = np.zeros((3, len(forms), count, longest), np.int64)
    terms[0], bounds = -1, np.zeros((len(forms), count, 2), np.int64)
    for f, some in enumerate(forms):
        for c, each in enumerate(some):
            terms[:, f, c, : len(each.places)] = each.places, each.values, each.weights
            bounds[f, c] = each.low, each.high
    form = np.zeros((largest + 1, len(numbers)), np.int64)
    form[sizes] = np.arange(len(forms)).reshape(len(sizes), -1)
    weighted = any({*each.weights} != {1} for some in forms for each in some)
    places, which, weights = map(torch.from_numpy, terms)
    return Tables(torch.from_numpy(form), places, which, weights, torch.from_numpy(bounds), weighted)


class LinearConstraints(nn.Module):
    """Called with a `Context`: the constraints of the set, and those of each puzzle where it has some."""

    def __init__(self, shape: Shape):
        """Raises DatasetError where a relation has no linear form."""
        super().__init__()
        structure = shape.structure
        self.cells, self.symbols = shape.seq_len, len(structure.alphabet)
        tokens = structure.alphabet
        self.values = tuple((structure.lowest or 0) + token - tokens[0] for token in tokens)
        self.relations = {index: each for index, each in enumerate(structure.relations) if each.seen}
        self._tables: dict[tuple[int, int], Tables] = {}
        groups = [structure.partition(name) for name in structure.groups]
        every = [(DIFFERENT, np.flatnonzero(group == n)) for group in groups for n in range(group.max() + 1)]
        every += [(each.rule, np.array(cells)) for each in self.relations.values() for cells in each.instances]
        one = Sum((0,) * self.symbols, tuple(range(self.symbols)), (1,) * self.symbols, 1, 1)
        found = [(np.array([cell]), one) for cell in range(self.cells)]
        found += [(cells, each) for rule, cells in every for each in linear_form(rule, len(cells), (), self.values)]
        found.sort(key=lambda each: {*each[1].weights} != {1})
        self.weighted = sum({*each.weights} != {1} for _, each in found)
        terms = np.zeros((2, 1, len(found), max(len(each.places) for _, each in found)), np.int64)
        terms[0] = -1
        for c, (cells, each) in enumerate(found):
            terms[:, 0, c, : len(each.places)] = cells[[*each.places]] * self.symbols + each.values, each.weights
        bounds = np.array([[(each.low, each.high) for _, each in found]])
        for name, array in zip(Terms._fields, (*terms, bounds), strict=True):
            self.register_buffer(name, torch.from_numpy(array), persistent=False)

    def forward(self, context: Context) -> tuple[Sums, ...]:
        """Of the set, for booleans (N, …); of the puzzles, for booleans (N·B, …), the puzzles in turn."""
        of_set = Terms(*(getattr(self, name) for name in Terms._fields))
        booleans, dtype = self.cells * self.symbols, torch.promote_types(context.x.dtype, torch.float32)
        found = [Sums.of(of_set, booleans, self.weighted, dtype)]
        own = [
            self._of_each(index, context.relations[index])
            for index in self.relations
            if index < len(context.relations) and context.relations[index].shape[1]
        ]
        if own:
            own.sort(key=lambda each: each[1])
            longest = max(terms.booleans.shape[-1] for terms, _ in own)
            same = [terms.padded(longest) for terms, _ in own]
            terms = Terms(*(torch.cat(parts, dim=1) for parts in zip(*same, strict=True)))
            weighted = sum(terms.booleans.shape[1] for terms, differs in own if differs)
            found.append(Sums.of(terms, booleans, weighted, dtype))
        return tuple(found)

    def _of_each(self, index: int, rows: Tensor) -> tuple[Terms, bool]:
        """The constraints of instances (B, M, C + P), and whether the terms of one may differ in weight."""
        relation, largest = self.relations[index], rows.shape[-1] - self.relations[index].clues
        if (index, largest) not in self._tables:
            self._tables[index, largest] = tables(relation, largest, self.values)
        form, *parts, weighted = self._tables[index, largest]
        numbers, cells = rows.long().split([relation.clues, largest], dim=-1)
        size = (cells >= 0).sum(-1)
        known = size > 0
        number = numbers[..., 0].clamp(min=0) if relation.clues else torch.zeros_like(size)
        which = form.to(rows.device)[size, number]  # (B, M)
        places, values, weights, bounds = (part.to(rows.device)[which] for part in parts)  # (B, M, C', P')
        there = (places >= 0) & known[..., None, None]
        cell = cells[:, :, None].expand(-1, -1, places.shape[2], -1).gather(-1, places.clamp(min=0))
        booleans = torch.where(there, cell * self.symbols + values, -1)
        terms = Terms(booleans, weights * there, bounds * known[..., None, None])
        return Terms(*(part.flatten(1, 2) for part in terms)), weighted
