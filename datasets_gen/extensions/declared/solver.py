"""One puzzle as a CP-SAT model: random solutions, other solutions, and the clues that leave only one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from datasets_gen.extensions.declared import graphs
from datasets_gen.extensions.declared.linear import ANY
from datasets_gen.extensions.declared.rules import constraint, cp

LIGHT = {"symmetry_level": 0, "linearization_level": 0, "cp_model_presolve": False}  # a model is asked dozens of times
PATIENCE = 10.0  # deterministic seconds of CP-SAT until a question of the generator counts as too hard


class NoPuzzle(Exception):
    """One random puzzle cannot be used, and why not, of several: the generator draws another."""


class TooHard(NoPuzzle):
    """CP-SAT gave no answer within `PATIENCE`."""


class Solver:
    """CP-SAT over S integer variables; one worker and fixed seeds, so the same questions have the same answers.

    domains: the values that each cell may take. optional: constraints that hold only while they are asked for.
    whole: rules over a whole board with their cells, of `graphs`, which are enforced by clauses.
    """

    def __init__(
        self,
        cells: Iterable[Any],
        domains: Sequence[Sequence[int]],
        always: list[Any],
        optional: Sequence[Any] = (),
        whole: Sequence[tuple[Any, Sequence[Any]]] = (),
    ) -> None:
        switches = [cp.boolvar() for _ in optional]
        asked = [switch.implies(each) for switch, each in zip(switches, optional, strict=True)]
        marks = [cp.boolvar(shape=len(own)) for _, own in whole]
        for marked, ((name, shape, part), own) in zip(marks, whole, strict=True):
            always = [*always, *(mark == constraint(part, [cell], ()) for mark, cell in zip(marked, own, strict=True))]
            always += graphs.local(name, shape, marked)
        translated = cp.SolverLookup.get("ortools", cp.Model([*always, *asked]))
        self._whole = [
            (name, shape, [translated.solver_var(mark).index for mark in marked])
            for marked, ((name, shape, _), _) in zip(marks, whole, strict=True)
        ]
        self._cells = [translated.solver_var(cell).index for cell in cells]
        self._switches = [translated.solver_var(switch).index for switch in switches]
        self._model = translated.ort_model
        _split_equalities(self._model.proto.constraints)
        for cell, values in zip(self._cells, domains, strict=True):
            self._allow(cell, values)
        self.branches = 0  # of the last question

    def _allow(self, variable: int, values: Sequence[int]) -> None:
        """Restrict a variable to ascending values."""
        ranges: list[int] = []
        for value in values:
            if ranges and ranges[-1] == value - 1:
                ranges[-1] = value
            else:
                ranges += [value, value]
        domain = self._model.proto.variables[variable].domain
        domain.clear()
        domain.extend(ranges)

    def answer(self, **settings: Any) -> np.ndarray | None:
        """A solution (S,), None where there is none."""
        from ortools.sat.python import cp_model

        solver = cp_model.CpSolver()
        for name, value in {"num_workers": 1, "max_deterministic_time": PATIENCE, **settings}.items():
            setattr(solver.parameters, name, value)
        self.branches = 0
        while True:
            status = solver.solve(self._model)
            self.branches += solver.num_branches
            if status == cp_model.INFEASIBLE:
                return None
            if status == cp_model.UNKNOWN:
                raise TooHard("take CP-SAT too long: make the puzzle smaller, or show more")
            found = solver.response_proto.solution
            if not self._cut(found):
                return np.array([found[cell] for cell in self._cells])

    def _cut(self, found: Sequence[int]) -> bool:
        """Forbid a solution that breaks a constraint over a whole board, and its like, from now on."""
        broken = False
        for name, shape, marks in self._whole:
            literals = [self._model.get_bool_var_from_proto_index(mark) for mark in marks]
            for pair, border in graphs.cuts(name, shape, [bool(found[mark]) for mark in marks]):
                broken = True
                self._model.add_bool_or([*(~literals[cell] for cell in pair), *(literals[c] for c in sorted(border))])
        return broken

    def random(self, rng: np.random.Generator) -> np.ndarray | None:
        """A random solution (S,): a search that follows random hints; None: there is none."""
        from ortools.sat.python import cp_model

        self._model.clear_hints()
        for cell in rng.random(len(self._cells)).argsort():
            domain = list(self._model.proto.variables[self._cells[cell]].domain)
            values = [v for low, high in zip(domain[::2], domain[1::2], strict=True) for v in range(low, high + 1)]
            hinted = self._model.get_int_var_from_proto_index(self._cells[cell])
            self._model.add_hint(hinted, values[int(rng.random() * len(values))])
        return self.answer(search_branching=cp_model.HINT_SEARCH, cp_model_presolve=False)

    def exclude(self, answer: np.ndarray, cells: Sequence[int]) -> None:
        """Ask for another solution from now on: one that differs from `answer` in one of these cells.

        The search begins near `answer`: most other solutions share most of its values.
        """
        model = self._model
        model.clear_hints()
        for cell, value in zip(self._cells, answer.tolist(), strict=True):
            model.add_hint(model.get_int_var_from_proto_index(cell), value)
        differs = [model.new_bool_var("") for _ in cells]
        for cell, here in zip(cells, differs, strict=True):
            model.add(model.get_int_var_from_proto_index(self._cells[cell]) != int(answer[cell])).only_enforce_if(here)
        anything = model.new_bool_var("")
        model.add_bool_or([anything, *differs])
        self._anything, *self._differs = (each.index for each in (anything, *differs))
        self._allow(self._anything, [0])

    def include(self) -> None:
        """Ask for any solution again."""
        self._model.clear_hints()
        self._allow(self._anything, [1])
        for here in self._differs:
            self._allow(here, [0])

    def restrict(self, domains: Sequence[Sequence[int]], switched: Sequence[bool]) -> None:
        """Give every cell its domain, and switch the optional constraints."""
        for variable, values in zip(self._cells, domains, strict=True):
            self._allow(variable, values)
        for variable, on in zip(self._switches, switched, strict=True):
            self._allow(variable, [int(on)])


def _split_equalities(constraints: Any) -> None:
    """Replace conditional equalities of two variables by two inequalities each.

    OR-Tools 9.15 may ignore such an equality, and then aborts the process with "Infeasible solution!"
    (https://github.com/google/or-tools/issues/5003).
    """
    for equality in [each for each in constraints if each.has_linear() and each.enforcement_literal]:
        linear = equality.linear
        if len(linear.vars) == 2 and len(linear.domain) == 2 and linear.domain[0] == linear.domain[1]:
            value, other = linear.domain[0], constraints.add()
            other.copy_from(equality)
            for half, ends in ((equality, (value, ANY)), (other, (-ANY, value))):
                half.linear.domain.clear()
                half.linear.domain.extend(ends)
