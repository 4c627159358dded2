"""A constraint as data: nested lists that JSON keeps, evaluated with numpy or turned into a CPMpy constraint.

A rule is [operator, part, ...]. A part is a rule, a whole number, "n" (the clue number of the instance), and one of:

    "x"             the cells of an unordered instance, however many: ["==", ["sum", "x"], "n"]
    "x0", "x1", …   the places of an ordered instance: ["<", "x0", "x1"]

Beside these stand ["in", part, [numbers]], ["table", [rows], part, ...] and ["runs"] (a nonogram's line).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import reduce
from operator import mul
from typing import Any

import numpy as np

from datasets_gen.extensions.declared.lazily import cp
from datasets_gen.layout import DatasetError

Rule = Any  # a nested list
WORDS = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge", "-": "minus", "*": "times"}
MIRRORED = {"==": "==", "!=": "!=", "<": ">", ">": "<", "<=": ">=", ">=": "<="}


def _quotient(a: Any, b: Any) -> Any:
    """a / b rounded towards zero; NaN, of which no comparison holds, where b is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(b == 0, np.nan, np.trunc(np.true_divide(a, b)))


def _different(a: np.ndarray) -> np.ndarray:
    ordered = np.sort(a, -1)
    return (ordered[..., 1:] != ordered[..., :-1]).all(-1)


def _kinds(a: np.ndarray) -> np.ndarray:
    ordered = np.sort(a, -1)
    return 1 + (ordered[..., 1:] != ordered[..., :-1]).sum(-1)


# Functions of any number of parts, whose order does not matter: (numpy over the last axis, CPMpy of a list).
SYMMETRIC: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "sum": (lambda a: a.sum(-1), lambda v: cp.sum(v)),
    "*": (lambda a: a.prod(-1), lambda v: reduce(mul, v)),
    "min": (lambda a: a.min(-1), lambda v: cp.min(v)),
    "max": (lambda a: a.max(-1), lambda v: cp.max(v)),
    "and": (lambda a: a.all(-1), lambda v: cp.all(v)),
    "or": (lambda a: a.any(-1), lambda v: cp.any(v)),
    "xor": (lambda a: a.sum(-1) % 2 == 1, lambda v: cp.Xor(v)),
    "nvalue": (_kinds, lambda v: cp.NValue(v)),
    "alldifferent": (_different, lambda v: cp.AllDifferent(v)),
    "allequal": (lambda a: (a == a[..., :1]).all(-1), lambda v: cp.AllEqual(v)),
}
# Functions of one or two parts: (numpy, CPMpy).
PLAIN: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "==": (lambda a, b: a == b, lambda a, b: a == b),
    "!=": (lambda a, b: (a < b) | (a > b), lambda a, b: a != b),  # NaN differs from nothing
    "<": (lambda a, b: a < b, lambda a, b: a < b),
    "<=": (lambda a, b: a <= b, lambda a, b: a <= b),
    ">": (lambda a, b: a > b, lambda a, b: a > b),
    ">=": (lambda a, b: a >= b, lambda a, b: a >= b),
    "->": (lambda a, b: ~np.asarray(a, bool) | np.asarray(b, bool), lambda a, b: a.implies(b)),
    "not": (lambda a: ~np.asarray(a, bool), lambda a: ~a),
    "-": (lambda a, b=None: -(0 + a) if b is None else 0 + a - b, lambda a, b=None: -a if b is None else a - b),
    "abs": (np.abs, lambda a: cp.Abs(a)),
    "div": (_quotient, lambda a, b: a // b),
    "mod": (lambda a, b: a - b * _quotient(a, b), lambda a, b: a % b),
    "pow": (lambda a, b: a**b, lambda a, b: a**b),
}


def evaluate(rule: Rule, values: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Whether a rule holds for the cells' values (..., k) and clue numbers (..., C), -1 for none: (...) bool."""
    if rule[0] == "runs":
        return _has_runs(values, numbers)
    return np.broadcast_to(_value(rule, values, numbers), values.shape[:-1])


def _value(rule: Rule, values: np.ndarray, numbers: np.ndarray) -> Any:
    if isinstance(rule, int):
        return rule
    if isinstance(rule, str):
        return values if rule == "x" else numbers[..., 0] if rule == "n" else values[..., int(rule[1:])]
    operator, *parts = rule
    if operator == "in":
        return np.isin(_value(parts[0], values, numbers), parts[1])
    if operator == "table":
        row = np.stack([_value(part, values, numbers) for part in parts[1:]], -1)
        return (row[..., None, :] == np.array(parts[0])).all(-1).any(-1)
    found = [_value(part, values, numbers) for part in parts]
    if operator in PLAIN:
        return PLAIN[operator][0](*found)
    return SYMMETRIC[operator][0](found[0] if _each(parts) else np.stack(np.broadcast_arrays(*found), -1))


def _each(parts: list[Rule]) -> bool:
    """Whether the only part stands for one of every cell."""

    def spread(part: Rule) -> bool:
        inner = isinstance(part, list) and (part[0] not in SYMMETRIC or len(part) > 2)  # of one cell
        return part == "x" or (inner and any(map(spread, part[1:])))

    return len(parts) == 1 and spread(parts[0])


def _has_runs(values: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Whether the runs of ones, from first to last, have the lengths `numbers`."""
    numbers = np.concatenate([numbers, np.full((*numbers.shape[:-1], 1), -1)], -1)
    filled = values == 1
    before = np.concatenate([np.zeros_like(filled[..., :1]), filled[..., :-1]], -1)
    run = (filled & ~before).cumsum(-1)
    lengths = np.stack([(filled & (run == each + 1)).sum(-1) for each in range(numbers.shape[-1])], -1)
    return (lengths == np.maximum(numbers, 0)).all(-1) & (run[..., -1] <= numbers.shape[-1])


def constraint(rule: Rule, cells: list[Any], numbers: tuple[int, ...]) -> Any:
    """The CPMpy constraint of a rule over variables."""
    if rule[0] == "runs":
        return _automaton(cells, [number for number in numbers if number >= 0])
    names = {f"x{place}": cell for place, cell in enumerate(cells)}
    return _expression(rule, names | {"n": numbers[0] if numbers else None}, cells)


def _expression(rule: Rule, names: Mapping[str, Any], cells: list[Any]) -> Any:
    if isinstance(rule, int):
        return rule
    if isinstance(rule, str):
        return names[rule]
    operator, *parts = rule
    if operator == "in":
        return cp.InDomain(_expression(parts[0], names, cells), parts[1])
    if operator == "table":
        return cp.Table([_expression(part, names, cells) for part in parts[1:]], parts[0])
    if operator in SYMMETRIC and _each(parts):
        return SYMMETRIC[operator][1]([_expression(parts[0], {**names, "x": cell}, cells) for cell in cells])
    found = [_expression(part, names, cells) for part in parts]
    return PLAIN[operator][1](*found) if operator in PLAIN else SYMMETRIC[operator][1](found)


def _automaton(cells: list[Any], lengths: list[int]) -> Any:
    """Regular: any zeros, the first run, a zero or more, the second run, …, any zeros."""
    steps, state = [(0, 0, 0)], 0
    for index, length in enumerate(lengths):
        if index:
            steps += [(state, 0, state + 1), (state + 1, 0, state + 1)]
            state += 1
        for _ in range(length):
            steps.append((state, 1, state + 1))
            state += 1
    if lengths:
        steps.append((state, 0, state + 1))
        steps.append((state + 1, 0, state + 1))
    return cp.Regular(cells, steps, 0, [state, state + 1] if lengths else [0])


def check(rule: Rule, name: str) -> None:
    """Refuse a rule of an edited file.

    Raises:
        DatasetError: it is none of those that the top of this file describes.
    """

    def sound(part: Any) -> bool:
        if isinstance(part, int | str):
            return type(part) is int or re.fullmatch(r"x\d*|n", str(part)) is not None
        if not isinstance(part, list) or len(part) < 2 or not isinstance(part[0], str):
            return False
        known = part[0] in ("in", "table") or part[0] in PLAIN or part[0] in SYMMETRIC
        inner = part[1:2] if part[0] == "in" else part[2:] if part[0] == "table" else part[1:]
        return known and all(map(sound, inner))

    if rule != ["runs"] and not (isinstance(rule, list) and sound(rule)):
        raise DatasetError(f"relation {name}: no rule is {rule!r:.60}; regenerate the set")


def named(rule: Rule) -> str:
    """A short name of a rule: "sum_eq" of ["==", ["sum", "x"], "n"]; a constant on the right is part of it."""
    words = _words(rule)
    if rule[0] in MIRRORED:
        _, left, right = rule
        words = [*_words(left), WORDS[rule[0]], *([] if right == "n" else _words(right))]
    return "_".join(words)[:40].strip("_")


def _words(rule: Rule) -> list[str]:
    if isinstance(rule, str):
        return []
    if isinstance(rule, int):
        return [f"minus{-rule}" if rule < 0 else str(rule)]
    operator, *parts = rule
    if operator == "sum" and isinstance(parts[0], list) and parts[0][0] in ("==", "in") and parts[0][1] == "x":
        return ["count", *map(str, [parts[0][2]] if parts[0][0] == "==" else parts[0][2])]
    if operator == "in":
        return [*_words(parts[0]), "in", *map(str, parts[1])]
    if operator == "table":
        return ["table"]
    return [{"->": "then"}.get(operator) or WORDS.get(operator, operator), *(w for part in parts for w in _words(part))]
