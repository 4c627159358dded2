"""One puzzle as a CP-SAT model that returns solutions, random solutions, and solutions other than a known one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from datasets_gen.extensions.declared import graphs
from datasets_gen.extensions.declared.linear import ANY
from datasets_gen.extensions.declared.rules import constraint, cp

LIGHT = {"symmetry_level": 0, "linearization_level": 0, "cp_model_presolve": False}  # for models solved many times
PATIENCE = 10.0  # limit of a call of CP-SAT, in deterministic seconds


class NoPuzzle(Exception):
    """A random puzzle cannot be used; the text says why, as a verb phrase. The generator draws another one."""


class TooHard(NoPuzzle):
    """CP-SAT did not finish within `PATIENCE`."""


class Solver:
    """CP-SAT over S integer variables, deterministic: one worker and fixed seeds.

    domains: the possible values of each cell. optional: constraints that `restrict` switches on and off.
    whole: rules of `graphs` over a whole board with their cells; clauses enforce them.
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
        marks = [cp.boolvar(shape=len(some)) for _, some in whole]
        for marked, ((name, shape, part), some) in zip(marks, whole, strict=True):
            always = [*always, *(mark == constraint(part, [cell], ()) for mark, cell in zip(marked, some, strict=True))]
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
        self.branches = 0  # of the last call

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
        """Return a solution (S,), None if there is none; raises TooHard."""
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
                raise TooHard("exceed the time limit of CP-SAT: make the puzzle smaller, or show more")
            solution = solver.response_proto.solution
            if not self._cut(solution):
                return np.array([solution[cell] for cell in self._cells])

    def _cut(self, solution: Sequence[int]) -> bool:
        """Add the clauses of `whole` that a solution violates; returns whether there are any."""
        violated = False
        for name, shape, marks in self._whole:
            literals = [self._model.get_bool_var_from_proto_index(mark) for mark in marks]
            for pair, border in graphs.cuts(name, shape, [bool(solution[mark]) for mark in marks]):
                violated = True
                self._model.add_bool_or([*(~literals[cell] for cell in pair), *(literals[c] for c in sorted(border))])
        return violated

    def random(self, rng: np.random.Generator) -> np.ndarray | None:
        """Return a random solution (S,), by a search that follows random hints; None if there is none."""
        from ortools.sat.python import cp_model

        self._model.clear_hints()
        for cell in rng.random(len(self._cells)).argsort():
            domain = list(self._model.proto.variables[self._cells[cell]].domain)
            values = [v for low, high in zip(domain[::2], domain[1::2], strict=True) for v in range(low, high + 1)]
            hinted = self._model.get_int_var_from_proto_index(self._cells[cell])
            self._model.add_hint(hinted, values[int(rng.random() * len(values))])
        return self.answer(search_branching=cp_model.HINT_SEARCH, cp_model_presolve=False)

    def exclude(self, answer: np.ndarray, cells: Sequence[int]) -> None:
        """Require that solutions differ from `answer` in one of these cells, until `include`.

        The search begins near `answer`, because most other solutions share most of its values.
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
        """Allow any solution again."""
        self._model.clear_hints()
        self._allow(self._anything, [1])
        for here in self._differs:
            self._allow(here, [0])

    def restrict(self, domains: Sequence[Sequence[int]], switched: Sequence[bool]) -> None:
        """Set the domain of each cell, and switch the optional constraints."""
        for variable, values in zip(self._cells, domains, strict=True):
            self._allow(variable, values)
        for variable, on in zip(self._switches, switched, strict=True):
            self._allow(variable, [int(on)])


def _split_equalities(constraints: Any) -> None:
    """Replace conditional equalities of two variables by two inequalities each.

    OR-Tools 9.15 may ignore such an equality and abort the process with "Infeasible solution!"
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
