"""Rules: constraints as nested lists for JSON, evaluated by numpy or converted to CPMpy constraints.

A rule is [operator, part, ...]. A part is a rule, a whole number, "n" (the clue number of the instance), or one of:

    "x"             all cells of an unordered instance: ["==", ["sum", "x"], "n"]
    "x0", "x1", …   the places of an ordered instance: ["<", "x0", "x1"]

Other rules are ["in", part, [numbers]], ["runs"] (a nonogram's line) and, over a board of ordered cells, each marked
by a part over "x0", ["connected", [rows, columns], part] and ["one_loop", [rows, columns], part] (graphs.py).
"""

from __future__ import annotations

import importlib
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np

from datasets_gen.extensions.declared import graphs
from datasets_gen.layout import DatasetError

Rule = Any  # a nested list
DIFFERENT = ["alldifferent", "x"]
GRAPHS = ("connected", "one_loop")
WORDS = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge", "-": "minus", "*": "times", "->": "then"}
MIRRORED = {"==": "==", "!=": "!=", "<": ">", ">": "<", "<=": ">=", ">=": "<="}


class _Cpmpy:
    """Imports CPMpy at its first use; sets are read and checked without it."""

    def __getattr__(self, name: str) -> Any:
        try:
            module = importlib.import_module("cpmpy")
            importlib.import_module("ortools")
        except ImportError as error:
            install = "pip install 'recursive-reasoners[puzzles]'"
            raise DatasetError(f"declared puzzles need CPMpy and OR-Tools ({error}): {install}") from None
        return getattr(module, name)


cp: Any = _Cpmpy()


def _different(a: np.ndarray) -> np.ndarray:
    ordered = np.sort(a, -1)
    return (ordered[..., 1:] != ordered[..., :-1]).all(-1)


def _number(part: Any) -> Any:
    """Return truth values as numbers, because numpy has no difference of them."""
    return part.astype(int) if isinstance(part, np.ndarray | np.bool_) and part.dtype.kind == "b" else part


# Functions of any number of parts, whose order does not matter: (numpy over the last axis, CPMpy of a list).
SYMMETRIC: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "sum": (lambda a: a.sum(-1), lambda v: cp.sum(v)),
    "*": (lambda a: a.prod(-1), lambda v: reduce(operator.mul, v)),
    "min": (lambda a: a.min(-1), lambda v: cp.min(v)),
    "max": (lambda a: a.max(-1), lambda v: cp.max(v)),
    "and": (lambda a: a.all(-1), lambda v: cp.all(v)),
    "or": (lambda a: a.any(-1), lambda v: cp.any(v)),
    "alldifferent": (_different, lambda v: cp.AllDifferent(v)),
    "allequal": (lambda a: (a == a[..., :1]).all(-1), lambda v: cp.AllEqual(v)),
}
# Functions of one or two parts, arrays or expressions of CPMpy.
PLAIN: dict[str, Callable[..., Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "->": lambda a, b: ~a | b,
    "not": operator.invert,
    "-": lambda a, b=None: -_number(a) if b is None else _number(a) - _number(b),
    "abs": abs,
}


def evaluate(rule: Rule, values: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Return (...) bool: whether a rule holds for cell values (..., k) and clue numbers (..., C), -1 for none."""
    if rule == ["runs"]:
        return _has_runs(values, numbers)
    if rule[0] in GRAPHS:
        name, shape, part = rule
        return graphs.holds(name, shape, np.broadcast_to(amount(part, values[..., None]), values.shape))
    number = numbers[..., 0] if numbers.shape[-1] else None
    return np.broadcast_to(amount(rule, values, number), values.shape[:-1])


def amount(part: Rule, values: np.ndarray, number: np.ndarray | None = None) -> np.ndarray:
    """Return the value (...) of a rule or of a part, such as a sum, over cells (..., k) and a clue number (...)."""

    def symmetric(name: str, parts: list[Any]) -> Any:
        return SYMMETRIC[name][0](np.stack(np.broadcast_arrays(*parts), -1))

    cells = [values[..., place] for place in range(values.shape[-1])]
    return np.asarray(_applied(part, cells, number, symmetric, np.isin))


def constraint(rule: Rule, cells: list[Any], numbers: tuple[int, ...]) -> Any:
    """Return the CPMpy constraint of a rule over variables."""
    if rule == ["runs"]:
        return _automaton(cells, [number for number in numbers if number >= 0])
    number = numbers[0] if numbers else None
    if rule[0] in GRAPHS:
        name, shape, part = rule
        return graphs.posted(name, shape, [constraint(part, [cell], ()) for cell in cells])
    return _applied(rule, cells, number, lambda name, parts: SYMMETRIC[name][1](parts), lambda a, b: cp.InDomain(a, b))


def _applied(
    rule: Rule,
    cells: Sequence[Any],
    number: Any,
    symmetric: Callable[[str, list[Any]], Any],
    among: Callable[[Any, list[int]], Any],
) -> Any:
    """Apply a rule to cells: arrays of values, or variables."""

    def value(part: Rule, names: Mapping[str, Any]) -> Any:
        if isinstance(part, int):
            return part
        if isinstance(part, str):
            return names[part]
        name, *parts = part
        if name == "in":
            return among(value(parts[0], names), parts[1])
        if name in SYMMETRIC and len(parts) == 1 and spread(parts[0]):
            return symmetric(name, [value(parts[0], {**names, "x": cell}) for cell in cells])
        operands = [value(each, names) for each in parts]
        return PLAIN[name](*operands) if name in PLAIN else symmetric(name, operands)

    return value(rule, {f"x{place}": cell for place, cell in enumerate(cells)} | {"n": number})


def spread(part: Rule) -> bool:
    """Return whether a part over "x" is repeated for every cell."""
    inner = isinstance(part, list) and (part[0] not in SYMMETRIC or len(part) > 2)  # of one cell
    return part == "x" or (inner and any(map(spread, part[1:])))


def _has_runs(values: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Return whether the runs of ones, from first to last, have the lengths `numbers`."""
    numbers = np.concatenate([numbers, np.full((*numbers.shape[:-1], 1), -1)], -1)
    filled = values == 1
    before = np.concatenate([np.zeros_like(filled[..., :1]), filled[..., :-1]], -1)
    run = (filled & ~before).cumsum(-1)
    lengths = np.stack([(filled & (run == each + 1)).sum(-1) for each in range(numbers.shape[-1])], -1)
    return (lengths == np.maximum(numbers, 0)).all(-1) & (run[..., -1] <= numbers.shape[-1])


def _automaton(cells: list[Any], lengths: list[int]) -> Any:
    """Return a regular constraint: any zeros, the first run, at least one zero, the second run, …, any zeros."""
    steps, state = [(0, 0, 0)], 0
    for index, length in enumerate(lengths):
        if index:
            steps += [(state, 0, state + 1), (state + 1, 0, state + 1)]
            state += 1
        for _ in range(length):
            steps.append((state, 1, state + 1))
            state += 1
    if lengths:
        steps += [(state, 0, state + 1), (state + 1, 0, state + 1)]
    return cp.Regular(cells, steps, 0, [state, state + 1] if lengths else [0])


def check(rule: Rule, name: str, places: int) -> None:
    """Raise DatasetError if a rule cannot be evaluated."""
    try:
        evaluate(rule, np.zeros((1, places or 2), int), np.zeros((1, 1), int))
    except Exception:
        raise DatasetError(f"relation {name}: {rule!r:.60} is not a rule; regenerate the set") from None


def renamable(rule: Rule) -> bool:
    """Return whether a rule only compares cells for equality, so that renamed values satisfy it, too."""
    name, *parts = rule if isinstance(rule, list) else [rule]
    bare = [part for part in parts if isinstance(part, str) and part != "n"]
    if bare and len(bare) == len(parts) and name in ("alldifferent", "allequal", "==", "!="):
        return True
    return (
        not bare and name in (*SYMMETRIC, *PLAIN) and all(renamable(part) for part in parts if isinstance(part, list))
    )


def named(rule: Rule) -> str:
    """Return a short name of a rule: "sum_eq" of ["==", ["sum", "x"], "n"]; it includes a constant on the right."""
    words = _words(rule)
    if rule[0] in MIRRORED:
        _, left, right = rule
        words = [*_words(left), WORDS[rule[0]], *_words(right)]
    return "_".join(words)[:40].strip("_")


def _words(rule: Rule) -> list[str]:
    if isinstance(rule, str):
        return []
    if isinstance(rule, int):
        return [f"minus{-rule}" if rule < 0 else str(rule)]
    if rule[0] in GRAPHS:
        return [rule[0]]
    match rule:
        case ["sum", ["==", "x", counted]]:
            return ["count", str(counted)]
        case ["in", part, members]:
            return [*_words(part), "in", *map(str, members)]
    name, *parts = rule
    return [WORDS.get(name, name), *(word for part in parts for word in _words(part))]
