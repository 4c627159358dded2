"""Constraints as data: CPMpy's expressions, rules in JSON, and numpy agree."""

import itertools
import json
from collections import Counter

import numpy as np
import pytest

from datasets_gen.extensions.declared import Runs, connected, cp, one_loop, unseen
from datasets_gen.extensions.declared.expressions import instances
from datasets_gen.extensions.declared.relations import gather, holds, listed, rows
from datasets_gen.extensions.declared.rules import PLAIN, SYMMETRIC, check, constraint, evaluate
from datasets_gen.extensions.declared.solver import Solver
from datasets_gen.layout import DatasetError
from datasets_gen.structure import Structure

cp_module = pytest.importorskip("cpmpy")
X = cp_module.intvar(0, 4, shape=5, name="x")
CELLS = {cell.name: number for number, cell in enumerate(X)}
a, b, c, d, e = X

# Every kind of constraint: its rule, and the cells of the instance.
KINDS = {
    "alldifferent": (cp.AllDifferent(X), ["alldifferent", "x"]),
    "alldifferent of two": (a != b, ["alldifferent", "x"]),
    "allequal": (cp.AllEqual(X[:3]), ["allequal", "x"]),
    "allequal of two": (b == a, ["allequal", "x"]),
    "not allequal": (~cp.AllEqual(X[:3]), ["not", ["allequal", "x"]]),
    "sum": (cp.sum(X) == 9, ["==", ["sum", "x"], "n"]),
    "sum of two": (a + b == 5, ["==", ["sum", "x"], "n"]),
    "sum below": (sum(X) < 8, ["<", ["sum", "x"], "n"]),
    "sum in": (cp.InDomain(cp.sum(X[:3]), [1, 2, 7]), ["in", ["sum", "x"], [1, 2, 7]]),
    "equal weights": (2 * a + 2 * b + 2 * c <= 12, ["<=", ["sum", ["*", 2, "x"]], "n"]),
    "product": (a * b * c == 8, ["==", ["*", "x"], "n"]),
    "count": (cp.Count(X, 2) >= 2, [">=", ["sum", ["==", "x", 2]], "n"]),
    "count by hand": (cp.sum(X == 2) != 1, ["!=", ["sum", ["==", "x", 2]], "n"]),
    "min": (cp.min(X) >= 1, [">=", ["min", "x"], "n"]),
    "max": (cp.max(X) > 3, [">", ["max", "x"], "n"]),
    "or": (cp.any(X == 4), ["or", ["==", "x", 4]]),
    "and": (cp.all([cell > 0 for cell in X[:2]]), ["and", [">", "x", 0]]),
    "less": (b < a, ["<", "x0", "x1"]),
    "greater": (a > b, ["<", "x0", "x1"]),
    "at least": (a >= b, ["<=", "x0", "x1"]),
    "constant first": (a < 3, ["<", "x0", "n"]),
    "one cell": (a != 3, ["!=", "x0", "n"]),
    "distance": (abs(a - b) == 2, ["==", ["abs", ["-", "x0", "x1"]], "n"]),
    "difference": (a - b == 1, ["==", ["-", "x0", "x1"], "n"]),
    "negative constant": (a - b == -1, ["==", ["-", "x0", "x1"], -1]),
    "weights": (2 * a + b == 6, ["==", ["sum", ["*", 2, "x0"], "x1"], "n"]),
    "offset": (a == b + 1, ["==", "x0", ["sum", "x1", 1]]),
    "implication": ((a == 2).implies(b == 3), ["->", ["==", "x0", 2], ["==", "x1", 3]]),
    "three": (a + b == c, ["==", ["sum", "x0", "x1"], "x2"]),
    "visibility": (cp.sum([b > a, c > cp.max([a, b]), X[3] > cp.max(X[:3])]) == 1, ["==", ["sum", ["<", "x0", "x1"],
        ["<", ["max", "x0", "x1"], "x2"], ["<", ["max", "x0", "x1", "x2"], "x3"]], "n"]),
    "table": (cp.Table([a, b], [[1, 2], [3, 0]]), ["or", ["and", ["==", "x0", 1], ["==", "x1", 2]],
        ["and", ["==", "x0", 3], ["==", "x1", 0]]]),
    "different or 0": (cp.AllDifferentExcept0([a, b]), ["or", ["alldifferent", "x0", "x1"], ["in", "x0", [0]]]),
    "opposite": (-a <= -2, ["<=", ["-", "x0"], -2]),
    "maxima of one cell": (cp.sum([cp.max([cell]) == 2 for cell in X[:3]]) == 1, ["==", ["sum", ["==", "x", 2]], "n"]),
    "maximum and a constant": (cp.max(X) + 1 == 5, ["==", ["sum", ["max", "x"], 1], "n"]),
    "difference of truths": ((a == 1) - (b == 1) == 0, ["==", ["-", ["==", "x0", 1], ["==", "x1", 1]], "n"]),
    "implies what is false": ((a < 2).implies(cp.sum([]) == 1), ["not", ["<", "x0", 2]]),
}  # fmt: skip


def values(count=300):
    return np.random.default_rng(0).integers(0, 5, (count, len(X)))


def told(expression, row):
    """CPMpy's own value of an expression."""
    for cell, value in zip(X, row.tolist(), strict=True):
        cell._value = value
    return bool(expression.value())


@pytest.mark.parametrize("kind", KINDS)
def test_a_rule_says_what_its_expression_says(kind):
    expression, rule = KINDS[kind]
    (found,) = instances(expression, CELLS)
    assert found.rule == rule
    assert json.loads(json.dumps(found.rule)) == rule
    check(found.rule, kind, found.places)
    drawn = values()
    right = evaluate(found.rule, drawn[:, found.cells], np.tile(np.array(found.numbers, int), (len(drawn), 1)))
    again = constraint(found.rule, [X[cell] for cell in found.cells], found.numbers)
    assert right.tolist() == [told(expression, row) for row in drawn]
    assert right.tolist() == [told(again, row) for row in drawn]
    assert 0 < right.sum() < len(drawn), "the draw says nothing"
    folded = evaluate(found.folded.rule, drawn[:, found.cells], np.zeros((len(drawn), 0), int))
    assert (folded == right).all()


def test_every_operator_is_tried():
    used = json.dumps([rule for _, rule in KINDS.values()])
    assert [operator for operator in (*PLAIN, *SYMMETRIC) if f'"{operator}"' not in used] == []


def test_runs_are_a_nonogram_line():
    grids = np.array(list(itertools.product((0, 1), repeat=5)))
    for numbers in [(), (1,), (5,), (2, 1), (1, 1, 1)]:
        (found,) = instances(Runs(X, numbers), CELLS)
        (relation,) = gather((), [[found]])  # the numbers stay clues, even where every line has the same
        assert (relation.name, relation.places, relation.clues) == ("runs", 5, len(numbers))
        clues = np.tile(np.array([*numbers, *[-1] * (3 - len(numbers))]), (len(grids), 1))
        right = evaluate(found.rule, grids, clues)
        lengths = [tuple(len(run) for run in "".join(map(str, row)).split("0") if run) for row in grids]
        assert right.tolist() == [each == numbers for each in lengths]
        assert (evaluate(found.rule, grids, np.tile(np.array(numbers, int), (len(grids), 1))) == right).all()
        again = constraint(found.rule, list(X), numbers)
        assert right.tolist() == [told(again, row) for row in grids]


def apart(ends):
    """The ends (a, b) of edges: does a path lead from each node to each?"""
    reached, left = set(ends[0]), list(ends)
    while near := [each for each in left if reached & {*each}]:
        left = [each for each in left if each not in near]
        reached.update(*near)
    return bool(left)


def is_connected(cells):
    beside = [(a, b) for a in cells for b in cells if abs(a[0] - b[0]) + abs(a[1] - b[1]) == 1]
    return len(cells) < 2 or ({each for pair in beside for each in pair} == {*cells} and not apart(beside))


def is_one_loop(edges):
    ends = [((r // 2, c // 2), ((r + 1) // 2, (c + 1) // 2)) for r, c in edges]
    return bool(ends) and {*Counter(end for pair in ends for end in pair).values()} == {2} and not apart(ends)


@pytest.mark.parametrize(("whole", "naive", "shape", "proved"), [
    (connected, is_connected, (1, 4), True), (connected, is_connected, (2, 3), True),
    (connected, is_connected, (3, 3), True), (connected, is_connected, (3, 4), False),
    (one_loop, is_one_loop, (3, 3), True), (one_loop, is_one_loop, (3, 5), True),
    (one_loop, is_one_loop, (5, 5), False),
])  # fmt: skip
def test_boards_that_are_connected_or_one_loop(whole, naive, shape, proved):
    """On all small boards: numpy, the hidden variables of CPMpy, and the clauses of the solver."""
    x = cp.intvar(0, 1, shape=shape, name="x")
    (found,) = instances(whole(x == 1), {cell.name: number for number, cell in enumerate(x.flat)})
    cells, places = [x.flat[cell] for cell in found.cells], [divmod(cell, shape[1]) for cell in found.cells]
    boards = np.array(list(itertools.product((0, 1), repeat=len(cells))))
    right = [naive([place for place, on in zip(places, board, strict=True) if on]) for board in boards.tolist()]
    assert 0 < sum(right) < len(boards)
    check(found.rule, "mine", found.places)
    assert evaluate(found.rule, boards, np.zeros((len(boards), 0), int)).tolist() == right
    domains, told = [[0, 1]] * len(cells), constraint(found.rule, cells, ())
    solvers = [Solver(cells, domains, [told]), Solver(cells, domains, [], (), [(found.rule, cells)])]
    for solver in solvers if proved else []:
        for board, holding in zip(boards.tolist(), right, strict=True):
            solver.restrict([[value] for value in board], [])
            assert (solver.answer() is not None) == holding


def test_an_and_of_different_things_is_several_constraints():
    found = instances([[(a < b) & (cp.sum(X) == 3)]], CELLS)
    assert [each.rule for each in found] == [["<", "x0", "x1"], ["==", ["sum", "x"], "n"]]
    true = [cp.sum([]) == 0, cp.AllDifferent(X[:1]), cp.AllDifferentExcept0(X[:1])]
    assert [each.rule for each in instances(iter([*true, a < b]), CELLS)] == [["<", "x0", "x1"]]


def test_the_solver_gets_no_conditional_equality():  # OR-Tools 9.15 may ignore one, and then aborts
    proto = Solver([*X], [range(5)] * 5, [(a < b).implies(c == d)])._model.proto
    conditional = [each.linear for each in proto.constraints if each.has_linear() and each.enforcement_literal]
    assert {len({*each.domain}) > 1 for each in conditional if len(each.vars) == 2} == {True}


REFUSED = {
    "another variable": (cp.intvar(0, 3, name="y") < a, "uses y, which is not a cell of the puzzle"),
    "unknown": (cp.Circuit(list(X)), "circuit is not supported; write AllDifferent"),
    "count of a cell": (cp.Count(X[:2], c) == 1, "count is not supported"),
    "no constraint": (3, "is not a constraint on cells"),
    "no board": (connected(X == 1), "connected needs a board, but got the shape"),
    "no points": (one_loop(np.reshape(X[:4] == 1, (2, 2))), "one_loop needs a board of odd rows and columns"),
    "marks": (connected([[a == 1, b == 2]]), "mark every cell by the same constraint on this cell"),
    "cells as marks": (connected([X[:3]]), "mark every cell by the same constraint on this cell"),
    "nothing": (None, "None is not a constraint; `always` returns a list"),
    "false": (cp.sum([]) == 1, "False is never true"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_constraint_without_a_relation_is_refused_in_one_line(case):
    expression, words = REFUSED[case]
    with pytest.raises(DatasetError, match=words) as raised:
        instances(expression, CELLS)
    assert "\n" not in str(raised.value)


def test_an_unseen_constraint_may_have_any_form():
    assert [found.clue for found in instances([a == 3, unseen(a == 3), a < 3], CELLS)] == [(0, 3), None, None]
    (found,) = instances(unseen(a + 2 * b + 3 * c == 4 * d), CELLS)
    assert (found.places, found.seen, found.numbers) == (4, False, ())
    drawn = values()
    right = evaluate(found.rule, drawn[:, found.cells], np.zeros((len(drawn), 0), int))
    assert right.tolist() == [told(a + 2 * b + 3 * c == 4 * d, row) for row in drawn]


@pytest.mark.parametrize("rule", [
    None, [], "x y", ["foo", "x"], ["sum"], ["==", ["sum", "y"], 3], ["in", "q", [1]],
    ["connected", [10**6, 10**6], "x0"],
])  # fmt: skip
def test_a_rule_of_an_edited_file_is_refused(rule):
    with pytest.raises(DatasetError, match=r"relation mine: .* is not a rule"):
        check(rule, "mine", 0)


def test_a_constant_that_never_varies_is_part_of_the_rule():
    always = instances([cp.AllDifferent(X), cp.sum(X) == 9], CELLS)
    drawn = [instances([a < b, cp.sum(X[:2]) == 3, d - e == 1], CELLS), instances([cp.sum(X[1:]) == 4, e < a], CELLS)]
    relations = gather(always, drawn)
    assert {relation.name: (relation.clues, relation.highest) for relation in relations} == {
        "alldifferent": (0, 0), "sum_eq_9": (0, 0), "lt": (0, 0), "sum_eq": (1, 4), "minus_eq_1": (0, 0)
    }  # fmt: skip
    assert [len(relation.instances) for relation in relations] == [1, 1, 0, 0, 0]
    table = rows(relations, drawn)
    assert table.shape == (2, 3, 1 + 1 + 4)
    structure = Structure(relations=relations)
    assert [(relation.name, *rest) for relation, *rest in listed(structure, table[1])] == [
        ("sum_eq", (4,), [1, 2, 3, 4]), ("lt", (), [4, 0])
    ]  # fmt: skip
    grids = values(5000)
    with pytest.raises(ValueError, match=r"lt, sum_eq, minus_eq_1|sum_eq, .*the instances of each puzzle are needed"):
        holds(structure, None, grids)
    for number, own in enumerate(drawn):
        right = holds(structure, np.tile(table[number], (len(grids), 1, 1)), grids)
        each = [
            evaluate(i.rule, grids[:, i.cells], np.tile(np.array(i.numbers), (len(grids), 1))) for i in always + own
        ]
        assert (right == np.all(each, 0)).all()


def test_a_clue_beyond_those_of_a_set_is_refused():
    drawn = [instances([cp.sum(X[:2]) == 3, cp.sum(X[:3]) == 4], CELLS)]
    relations = gather([], drawn)
    with pytest.raises(DatasetError, match="sum_eq 5: the clues of this set are at most 1 numbers from 0 to 4"):
        rows(relations, [instances([cp.sum(X) == 5], CELLS)])
    with pytest.raises(DatasetError, match="lt is not a relation of this set; it has sum_eq"):
        rows(relations, [instances([a < b], CELLS)])
