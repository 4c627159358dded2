"""Linear form: a constraint on cells as linear constraints lo ≤ Σ w·b ≤ hi on booleans b, "cell i has value v".

A comparison of sums becomes one linear constraint. Another constraint on two cells becomes one for each value of each
cell: at most one of this value and of the other cell's conflicting values. A product becomes a sum of exponents for
each prime. The runs of a line get hidden booleans for the cell where each begins. All others are transformed by CPMpy
for pseudo-Boolean solvers, with its hidden booleans. If each cell has one of the values, form and constraint are
equivalent; a cell without one (absent, or shown with a value that no open cell has) adds nothing to a sum.
Exceptions: the forms of `connected` and `one_loop` state only what holds at each cell or point (`_nearby`).
"""

from __future__ import annotations

import ast
import itertools
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from datasets_gen.extensions.declared import graphs
from datasets_gen.extensions.declared.rules import DIFFERENT, GRAPHS, Rule, amount, constraint, cp, evaluate, spread

ANY = 2**31  # a bound that no sum reaches


class Sum(NamedTuple):
    """lo ≤ Σ w·b ≤ hi over the terms of one constraint; a boolean is (place of the cell, index of the value).

    With n cells, place n + i with value index 0 is the i-th hidden boolean.
    """

    places: tuple[int, ...]
    values: tuple[int, ...]
    weights: tuple[int, ...]
    low: int
    high: int


def linear_form(rule: Rule, size: int, numbers: tuple[int, ...], values: tuple[int, ...]) -> tuple[Sum, ...]:
    """Return the linear form of a rule over `size` cells, each with one of `values`."""
    return _linear_form(repr(rule), size, numbers, values)


def hidden_count(form: tuple[Sum, ...], size: int) -> int:
    """Return the number of hidden booleans of the linear form of a rule over `size` cells."""
    return max((place + 1 - size for each in form for place in each.places if place >= size), default=0)


@lru_cache(2**14)
def _linear_form(text: str, size: int, numbers: tuple[int, ...], values: tuple[int, ...]) -> tuple[Sum, ...]:
    rule = ast.literal_eval(text)
    if rule == DIFFERENT:
        each = int(size == len(values))  # as many cells as values: every value occurs
        return tuple(_sum({(place, v): 1 for place in range(size)}, each, 1) for v in range(len(values)))
    if (compared := _compared(rule, numbers, size, values)) is not None:
        return (compared,)
    if rule == ["runs"]:
        return _runs(numbers, size, values)
    if rule[0] in GRAPHS:
        return _nearby(rule, size, values)
    if size == 2:
        return _clashes(rule, numbers, values)
    if (exponents := _product(rule, numbers, values, size)) is not None:
        return exponents
    return _transformed(rule, size, numbers, values)


def _sum(terms: dict[tuple[int, int], int], low: int, high: int) -> Sum:
    """Clip the bounds to the sum's range; if weights differ, keep terms of weight 0: their cells get the message."""
    if {*terms.values()} <= {0, 1}:
        terms = {boolean: weight for boolean, weight in terms.items() if weight} or terms
    places, values = zip(*sorted(terms), strict=True)
    weights = tuple(terms[boolean] for boolean in sorted(terms))
    least, most = sum(min(w, 0) for w in weights), sum(max(w, 0) for w in weights)
    return Sum(places, values, weights, max(low, least), min(high, most))


def _compared(rule: Rule, numbers: tuple[int, ...], size: int, values: tuple[int, ...]) -> Sum | None:
    """Return the form of a comparison of sums over cells, such as of values or of counts; None for other rules."""
    ends = {"==": (0, 0), "<=": (-ANY, 0), ">=": (0, ANY), "<": (-ANY, -1), ">": (1, ANY)}
    name, left, right = rule if len(rule) == 3 else ("", 0, [0])
    if within := name == "in" and right == [*range(right[0], right[-1] + 1)]:  # successive numbers
        ends["in"] = right[0], right[-1]
    if name not in ends:
        return None
    weights = np.zeros((size, len(values)), np.int64)
    constant = 0
    for sign, part in ((1, left), (-1, 0 if within else right)):
        if (summed := _summed(part, numbers, size, values)) is None:
            return None
        weights, constant = weights + sign * summed[0], constant + sign * summed[1]
    used = np.flatnonzero(weights.any(1)).tolist() or [0]
    terms = {(place, v): int(weights[place, v]) for place in used for v in range(len(values))}
    return _sum(terms, ends[name][0] - constant, ends[name][1] - constant)


def _summed(part: Rule, numbers: tuple[int, ...], size: int, values: tuple[int, ...]) -> tuple[np.ndarray, int] | None:
    """Return the amount that each value of each cell adds to a part (n, K), and a constant; None: it is not a sum."""
    nothing = np.zeros((size, len(values)), np.int64)
    if isinstance(part, int) or part == "n":
        return nothing, numbers[0] if part == "n" else part
    if part[0] == "sum" and len(part) == 2 and spread(part[1]):
        return nothing + amount(part, np.array(values)[:, None]), 0  # of one cell
    if len(names := _names(part)) == 1 and "x" not in names:
        place = int(names.pop()[1:])
        nothing[place] = amount(part, np.broadcast_to(np.array(values)[:, None], (len(values), size)))
        return nothing, 0
    if part[0] not in ("sum", "-"):
        return None
    summands = [_summed(each, numbers, size, values) for each in part[1:]]
    first = 1 if part[0] == "sum" or len(summands) > 1 else -1
    weights, constant = nothing, 0
    for index, each in enumerate(summands):
        if each is None:
            return None
        sign = first if index == 0 or part[0] == "sum" else -1
        weights, constant = weights + sign * each[0], constant + sign * each[1]
    return weights, constant


def _names(part: Rule) -> set[str]:
    """Return the names of cells in a part: "x" or "x0", "x1", …"""
    if isinstance(part, list):
        return set().union(*map(_names, part[1:]))
    return {part} - {"n"} if isinstance(part, str) else set()


def _clashes(rule: Rule, numbers: tuple[int, ...], values: tuple[int, ...]) -> tuple[Sum, ...]:
    """Return one sum for each value of two cells: at most one of it and of the conflicting values of the other cell.

    A cell that has none of the values, such as a wall, is not constrained.
    """
    grid = np.stack(np.meshgrid(values, values, indexing="ij"), -1)
    fits = evaluate(rule, grid, np.broadcast_to(np.array(numbers, np.int64), (*grid.shape[:2], len(numbers))))
    sums = []
    for cell, table in ((0, fits), (1, fits.T)):
        for v, partners in enumerate(table):
            clashing = {(1 - cell, w): 1 for w in np.flatnonzero(~partners).tolist()}
            if clashing:
                sums.append(_sum({(cell, v): 1, **clashing}, 0, 1))
    return tuple(sums)


def _product(rule: Rule, numbers: tuple[int, ...], values: tuple[int, ...], size: int) -> tuple[Sum, ...] | None:
    """Return ∏ x = n as Σ e_p(x) = e_p(n) for every prime p that divides a value; None for other rules."""
    if rule != ["==", ["*", "x"], "n"] or min(values) < 1:
        return None
    sums, left = [], numbers[0]
    for prime in (p for p in range(2, max(values) + 1) if all(p % d for d in range(2, p))):
        exponents = [_exponent(value, prime) for value in values]
        terms = {(place, v): each for place in range(size) for v, each in enumerate(exponents)}
        if any(exponents):
            total = _exponent(left, prime) if left else 0
            left //= prime**total
            sums.append(_sum(terms, total, total))
    return tuple(sums) if left == 1 else (_contradiction(values),)  # n is 0 or has a factor that no value has


def _exponent(number: int, prime: int) -> int:
    return next(e for e in itertools.count() if number % prime ** (e + 1))


def _runs(lengths: tuple[int, ...], size: int, values: tuple[int, ...]) -> tuple[Sum, ...]:
    """Return the form of runs of ones with hidden booleans "run r begins d cells after its first possible cell"."""
    one, slack = values.index(1), size - sum(lengths) - max(0, len(lengths) - 1)
    if slack < 0:
        return (_contradiction(values),)
    begins = [[(size + run * (slack + 1) + late, 0) for late in range(slack + 1)] for run in range(len(lengths))]
    sums = [_sum(dict.fromkeys(places, 1), 1, 1) for places in begins]
    for one_run, after in itertools.pairwise(begins):
        ordered = {at: -late for late, at in enumerate(one_run)} | {at: late for late, at in enumerate(after)}
        sums.append(_sum(ordered, 0, ANY))
    covered = [{(cell, one): 1} for cell in range(size)]
    for run, length in enumerate(lengths):
        earliest = sum(lengths[:run]) + run
        for late, at in enumerate(begins[run]):
            for cell in range(earliest + late, earliest + late + length):
                covered[cell][at] = -1
    return (*sums, *(_sum(terms, 0, 0) for terms in covered))


def _nearby(rule: Rule, size: int, values: tuple[int, ...]) -> tuple[Sum, ...]:
    """Return what a constraint over a whole board states of each node; networks learn the rest from the adjacency.

    one_loop: the number of marked edges at a point is twice a hidden boolean. connected: the marked neighbours of a
    cell less the cell itself are at least −1, which always holds.
    """
    name, shape, mark = rule
    marks = np.flatnonzero(evaluate(mark, np.array(values)[:, None], np.empty((len(values), 0), np.int64))).tolist()
    sums, arcs = [], graphs.arcs_of(name, shape)
    for node in range(shape[0] * shape[1]):
        around = [cell for a, _, cell in arcs if a == node]
        terms = {(cell, v): 1 for cell in around for v in marks}
        if name == "one_loop":
            sums.append(_sum({**terms, (size + node, 0): -2}, 0, 0))
        elif marks:
            sums.append(_sum({**terms, **{(node, v): -1 for v in marks}}, -1, ANY))
    return tuple(sums)


def _contradiction(values: tuple[int, ...]) -> Sum:
    """Return a sum that nothing satisfies: the first cell has two values at once."""
    return Sum((0,) * len(values), tuple(range(len(values))), (1,) * len(values), 2, 2)


def _transformed(rule: Rule, size: int, numbers: tuple[int, ...], values: tuple[int, ...]) -> tuple[Sum, ...]:
    """Return the rule as transformed by CPMpy for pseudo-Boolean solvers."""
    from cpmpy.transformations.cse import CSEMap
    from cpmpy.transformations.int2bool import IntVarEncDirect
    from cpmpy.transformations.to_opb import to_opb

    cells = [cp.intvar(min(values), max(values), name=f"x{place}") for place in range(size)]
    known = CSEMap()
    encoded = {cell.name: IntVarEncDirect(cell, csemap=known) for cell in cells}
    booleans = {
        boolean.name: (place, v)
        for place, cell in enumerate(cells)
        for v, boolean in enumerate(encoded[cell.name].vars())
    }
    bounds: dict[tuple[tuple[tuple[int, int], int], ...], list[int]] = {}
    try:
        constraints = to_opb([constraint(rule, cells, numbers)], csemap=known, ivarmap=encoded, encoding="direct")
    except NotImplementedError:
        return (_contradiction(values),)
    for each in constraints:
        (weights, literals), least = each.args[0].args, int(each.args[1])
        terms: dict[tuple[int, int], int] = {}
        for weight, literal in zip(weights, literals, strict=True):
            name = str(literal.name).removeprefix("~")
            booleans.setdefault(name, (size + len(booleans) - size * len(values), 0))  # a hidden one
            if negated := str(literal.name).startswith("~"):
                least -= int(weight)
            terms[booleans[name]] = terms.get(booleans[name], 0) + (-int(weight) if negated else int(weight))
        key = tuple(sorted(terms.items()))
        mirrored = tuple((boolean, -weight) for boolean, weight in key)
        if mirrored in bounds:  # Σ ≥ a and −Σ ≥ −b are one constraint
            bounds[mirrored][1] = min(bounds[mirrored][1], -least)
        else:
            bounds.setdefault(key, [least, ANY])[0] = max(least, bounds.get(key, [least])[0])
    return tuple(_positive(dict(key), *lohi) for key, lohi in bounds.items())


def _positive(terms: dict[tuple[int, int], int], low: int, high: int) -> Sum:
    """Return a sum, negated if its weights are negative in total."""
    if sum(terms.values()) < 0:
        terms, low, high = {boolean: -weight for boolean, weight in terms.items()}, -high, -low
    return _sum(terms, low, high)
