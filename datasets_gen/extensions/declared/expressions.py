"""Reads CPMpy constraints as instances of relations: a rule, its cells and its clue numbers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from datasets_gen.extensions.declared import graphs
from datasets_gen.extensions.declared.rules import MIRRORED, PLAIN, SYMMETRIC, Rule
from datasets_gen.layout import DatasetError

NUMERIC = ("sum", "*", "min", "max", "-", "abs")  # functions whose value is a number
INSTEAD = "AllDifferent, AllEqual, or a sum, Count, min, max, … of bare cells compared with a number"


class Instance(NamedTuple):
    """One constraint: a rule over cells with its clue numbers. If it has only one, "n" in the rule is this number."""

    rule: Rule
    cells: tuple[int, ...]
    numbers: tuple[int, ...] = ()
    places: int = 0  # 0: the order of the cells does not matter
    seen: bool = True  # whether networks see it

    @property
    def kind(self) -> tuple[str, int, bool]:
        """Return what the instances of one relation share."""
        return json.dumps(self.rule), self.places, self.seen

    @property
    def ordered(self) -> tuple[int, ...]:
        """Return the cells, ascending if their order does not matter."""
        return self.cells if self.places else tuple(sorted(self.cells))

    @property
    def clue(self) -> tuple[int, int] | None:
        """Return (cell, value) of `cell == value`; None: another constraint, or one that networks do not see."""
        if not self.seen or self.rule[:2] != ["==", "x0"] or not (self.numbers or type(self.rule[2]) is int):
            return None
        return self.cells[0], (*self.numbers, self.rule[2])[0]  # a negative value is in the rule

    @property
    def folded(self) -> Instance:
        """Return the instance with its clue number as a part of the rule."""
        if self.rule[-1] != "n":
            return self._replace(numbers=())
        return self._replace(rule=[*self.rule[:2], self.numbers[0]], numbers=())

    @property
    def unfolded(self) -> Instance:
        """Return the instance with the constant on the right of its comparison as clue number."""
        rule = self.rule
        if rule[0] in MIRRORED and type(rule[2]) is int and rule[2] >= 0:
            return self._replace(rule=[*rule[:2], "n"], numbers=(rule[2],))
        return self


class Drawn(NamedTuple):
    """One random puzzle; `cell == value` is a clue in its cell, other constraints are instances of relations."""

    answer: np.ndarray  # the grid of values of a solution
    shown: Sequence[Any] = ()  # constraints that every question contains
    optional: Sequence[Any] = ()  # constraints that the generator removes in random order while the answer stays unique
    absent: np.ndarray | None = None  # bool: cells that this puzzle does not have
    black: np.ndarray | None = None  # bool: shown cells that are drawn by the characters of `Declared.black`


class Runs(NamedTuple):
    """A nonogram's line: the runs of ones among the cells, from first to last, have these lengths."""

    cells: Sequence[Any]
    numbers: Sequence[int]


class Unseen(NamedTuple):
    """A constraint of any form, for the generator and the check of answers; networks do not see it."""

    constraint: Any


class Connected(NamedTuple):
    """The cells whose constraint holds are connected; networks see which cells are adjacent."""

    mask: Any  # a constraint over each cell, in the shape of a grid


class OneLoop(NamedTuple):
    """The edges whose constraint holds form one closed loop; networks see that each point has two of them or none.

    Every second row and column of the board has points; the cell between two points is their edge.
    """

    board: Any  # constraints; only those of edges are read


class _Cell(int):
    """The number of a cell, a type that distinguishes it from a constant."""


def instances(constraints: Any, cells: Mapping[str, int], seen: bool = True) -> list[Instance]:
    """Return the instances of nested lists of constraints; `cells` maps names of variables to cells.

    True, such as `cp.sum([]) == 0`, has no instance. Raises DatasetError for what is not a constraint.
    """
    if isinstance(constraints, Instance):
        return [constraints]
    if isinstance(constraints, Unseen):
        return instances(constraints.constraint, cells, seen=False)
    if isinstance(constraints, Runs):
        line = tuple(int(_tree(cell, cells)) for cell in constraints.cells)
        return [Instance(["runs"], line, tuple(int(number) for number in constraints.numbers), len(line), seen)]
    if isinstance(constraints, Connected | OneLoop):
        return [_whole(constraints, cells)._replace(seen=seen)]
    single = isinstance(constraints, str) or (hasattr(constraints, "args") and not isinstance(constraints, np.ndarray))
    if isinstance(constraints, Iterable) and not single:
        return [instance for each in constraints for instance in instances(each, cells, seen)]
    if constraints is None:
        raise DatasetError("None is not a constraint; `always` returns a list, `puzzle` Drawn(answer, shown, optional)")
    tree = _tree(constraints, cells)
    if not isinstance(tree, list):
        if tree == 1 and not isinstance(tree, _Cell):
            return []
        reason = "is never true" if tree == 0 else "is not a constraint on cells; compare cells with cells or numbers"
        raise DatasetError(f"{constraints!s:.60} {reason}")
    return _instances(tree) if seen else [_ordered(tree)._replace(seen=False)]


def _instances(tree: list[Any]) -> list[Instance]:
    """Return the instances of a constraint's tree: one for each part of `and`."""
    if (unordered := _unordered(tree)) is not None:
        return [Instance(*unordered).unfolded]
    if tree[0] == "and":
        return [instance for part in tree[1:] for instance in _instances(part)]
    return [_ordered(tree).unfolded]


def _whole(constraint: Connected | OneLoop, cells: Mapping[str, int]) -> Instance:
    """Return one instance over a board whose cells or edges are marked by one constraint."""
    name = "connected" if isinstance(constraint, Connected) else "one_loop"
    board = np.array(constraint[0], dtype=object)
    if board.ndim != 2 or (name == "one_loop" and not all(n % 2 and n > 1 for n in board.shape)):
        wanted = "a board" if name == "connected" else "a board of odd rows and columns"
        raise DatasetError(f"{name} needs {wanted}, but got the shape {board.shape}")
    shape, places = board.shape, list(np.ndindex(board.shape))
    if name == "one_loop":
        shape = (shape[0] // 2 + 1, shape[1] // 2 + 1)
        places = graphs.drawn_edges(shape)
    marks = [_ordered(_tree(board[place], cells)) for place in places]
    numeric = not isinstance(marks[0].rule, list) or marks[0].rule[0] in NUMERIC  # as in connected(x)
    if numeric or any(mark.rule != marks[0].rule or len(mark.cells) != 1 for mark in marks):
        raise DatasetError(f"{name}: mark every cell by the same constraint on this cell, as in {name}(x == 1)")
    return Instance([name, [*shape], marks[0].rule], tuple(m.cells[0] for m in marks), (), len(marks))


def _ordered(tree: Any) -> Instance:
    places: dict[int, int] = {}

    def placed(part: Any) -> Any:
        if isinstance(part, _Cell):
            return f"x{places.setdefault(int(part), len(places))}"
        return [placed(each) for each in part] if isinstance(part, list) else part

    rule = placed(tree)
    return Instance(rule, tuple(places), (), len(places))


def _unordered(tree: list[Any]) -> tuple[Rule, tuple[int, ...]] | None:
    """Return the rule over "x" and its cells if one symmetric function treats all cells alike, else None."""
    name, *parts = tree
    cells = [_cells(part) for part in parts]
    if name in SYMMETRIC and all(len(some) == 1 for some in cells) and len(set().union(*cells)) == len(parts):
        bodies = [_body(part) for part in parts]
        if all(body == bodies[0] for body in bodies):
            return [name, bodies[0]], tuple(cell for some in cells for cell in some)
    holding = [index for index, some in enumerate(cells) if some]
    if len(holding) != 1 or not isinstance(parts[holding[0]], list):
        return None
    if (inner := _unordered(parts[holding[0]])) is None:
        return None
    parts[holding[0]] = inner[0]
    return [name, *parts], inner[1]


def _body(part: Any) -> Any:
    """Replace the only cell of a part by "x". A function such as the maximum of one cell is this cell."""
    if isinstance(part, list) and len(part) == 2 and part[0] in SYMMETRIC:
        return _body(part[1])
    return "x" if isinstance(part, _Cell) else [_body(each) for each in part] if isinstance(part, list) else part


def _cells(part: Any) -> set[int]:
    if isinstance(part, _Cell):
        return {int(part)}
    return set().union(*map(_cells, part)) if isinstance(part, list) else set()


def _flat(parts: Iterable[Any]) -> list[Any]:
    return [x for part in parts for x in (_flat(part) if isinstance(part, list | tuple | np.ndarray) else [part])]


def _tree(expression: Any, cells: Mapping[str, int]) -> Any:
    """Convert an expression to nested lists whose leaves are numbers of cells."""
    if isinstance(expression, int | np.integer | np.bool_):
        return int(expression)
    name, parts = str(getattr(expression, "name", "")), getattr(expression, "args", None)
    if parts is None:
        if name in cells:
            return _Cell(cells[name])
        what = "a further variable" if re.fullmatch("[BI]V[0-9]+", name) else f"{expression!s:.60}"
        raise DatasetError(f"a constraint uses {what}, which is not a cell of the puzzle; for more, enlarge `grid`")
    if name == "indomain" and not len(parts[1]):
        raise DatasetError(f"{expression!s:.60} never holds, because it lists no values; list those that are allowed")
    if name == "wsum":
        weighted = [(int(weight), _tree(part, cells)) for weight, part in zip(*parts, strict=True)]
        return ["sum", *(part if weight == 1 else ["*", weight, part] for weight, part in weighted)]
    if name == "count" and isinstance(parts[1], int | np.integer):
        return ["sum", *(["==", _tree(part, cells), int(parts[1])] for part in _flat([parts[0]]))]
    if name == "indomain":
        return ["in", _tree(parts[0], cells), [int(number) for number in parts[1]]]
    if name == "table":
        line = [_tree(part, cells) for part in parts[0]]
        return ["or", *(["and", *(["==", c, int(v)] for c, v in zip(line, row, strict=True))] for row in parts[1])]
    if name.startswith("alldifferent_except"):
        free = [int(number) for number in parts[1]]
        pairs = combinations([_tree(part, cells) for part in parts[0]], 2)
        return _simplified("and", [["or", ["alldifferent", a, b], ["in", a, free]] for a, b in pairs])
    args = [_tree(part, cells) for part in _flat(parts)]
    if name == "mul":
        return [
            "*",
            *(x for part in args for x in (part[1:] if isinstance(part, list) and part[0] == "*" else [part])),
        ]
    if name == "sum" and len(args) == 2 and isinstance(args[1], list) and args[1][0] == "-" and len(args[1]) == 2:
        return ["-", args[0], args[1][1]]
    if name in MIRRORED:
        return _comparison(name, *args)
    if name in PLAIN or name in SYMMETRIC:
        return _simplified(name, args)
    raise DatasetError(f"{expression!s:.60}: {name} is not supported; write {INSTEAD}")


def _simplified(name: str, args: list[Any]) -> Any:
    """Return the tree of a function without constant arguments of and, or, not, ->; 0 or 1 if it is constant."""
    constants = [each for each in args if type(each) is int]
    if name in ("alldifferent", "allequal") and len(args) < 2:
        return 1
    if name == "not" and constants:
        return 1 - args[0]
    if name == "->" and constants:
        return _simplified("or", [_simplified("not", args[:1]), args[1]])
    if name not in ("and", "or") or (args and not constants):
        return [name, *args]
    decides = int(name == "or")
    others = [each for each in args if type(each) is not int]
    if decides in constants or not others:
        return decides if decides in constants else 1 - decides
    return others[0] if len(others) == 1 else [name, *others]


def _comparison(name: str, left: Any, right: Any) -> Any:
    """Normalize a comparison: constants on the right, else < or <=; == and != of two cells become unordered."""
    if isinstance(left, _Cell) and isinstance(right, _Cell) and name in ("==", "!="):
        return ["allequal" if name == "==" else "alldifferent", left, right]
    if type(left) is int or (type(right) is not int and name in (">", ">=")):
        name, left, right = MIRRORED[name], right, left
    return [name, left, right]
