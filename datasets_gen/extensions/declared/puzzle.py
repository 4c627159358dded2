"""The base class of puzzles that a CPMpy model declares: one page of code each, see pages."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from datasets_gen.extensions.declared.expressions import Instance, instances
from datasets_gen.extensions.declared.relations import IN_GROUPS, holds, listed, rows
from datasets_gen.extensions.declared.rules import check, constraint, cp, evaluate
from datasets_gen.extensions.declared.solver import NoPuzzle, Solver
from datasets_gen.family import Puzzle
from datasets_gen.layout import DatasetError
from datasets_gen.structure import GridSymmetry, Structure

ABSENT, BLANK, FIRST = 0, 1, 2  # tokens: a cell that this puzzle does not have, an open cell, the lowest value
FACTS = {  # what dataset.json keeps of a page
    "grid": list, "values": str, "lowest": int, "shown_only": str, "interchangeable": bool, "unique": bool
}  # fmt: skip
Fill = Callable[..., np.ndarray]
Typed = tuple[np.ndarray, np.ndarray | None]  # tokens (S,) and relations (M, 1 + C + P)


class Drawn(NamedTuple):
    """One random puzzle as a page draws it; `cell == value` is a clue in its cell, other constraints are relations."""

    answer: np.ndarray  # the grid of values that is the solution, or one of them
    shown: Sequence[Any] = ()  # constraints that stay
    optional: Sequence[Any] = ()  # constraints that the generator removes in random order while the answer stays unique
    absent: np.ndarray | None = None  # bool: cells that this puzzle does not have


class Declared(Puzzle):
    """A puzzle declared by CPMpy constraints over a grid of integer variables.

    Tokens: 0 a cell that the puzzle does not have, 1 an open cell, 2 and more the values.
    """

    name = "declared"
    grid: tuple[int, int] = (1, 1)
    values: str = ""  # a character of each value, from the lowest
    lowest: int = 1  # the value of the first character
    shown_only: str = ""  # values that stand only where they are shown, as a wall does
    interchangeable: bool = False  # may any two values change places?
    form: ClassVar[str] = ""  # which text form the puzzle is typed in, see datasets_gen/extensions/declared/text.py
    reserved: ClassVar[str] = ":"  # what the text form reads as something else than a value
    unique: bool = True  # has every puzzle one solution? If not, the rules alone judge answers
    fewest: int = 0  # clues that the generator leaves at least
    moves: GridSymmetry | None = None  # moves of the cells that keep every puzzle's rules
    rating_name = "branches"

    def always(self, x: Any) -> list[Any]:
        """The constraints of every puzzle, over variables `x` in the grid's shape."""
        return []

    def puzzle(self, x: Any, rng: np.random.Generator, fill: Fill) -> Drawn:
        """A random puzzle; fill(constraints) is a random grid that obeys them and `always`."""
        answer = fill()
        return Drawn(answer, optional=[cell == value for cell, value in zip(x.flat, answer.flat, strict=True)])

    def __init__(self, structure: Structure | None = None, **facts: Any) -> None:
        self._structure = structure
        vars(self).update({name: tuple(v) if name == "grid" else v for name, v in facts.items()})

    @classmethod
    def of_task(cls, task: Mapping[str, Any], structure: Structure | None) -> Self:
        """The puzzle of a set: what dataset.json states goes before what the page says now."""
        facts = {name: task[name] for name in ("name", *FACTS)}
        if wrong := next((name for name, kind in FACTS.items() if type(facts[name]) is not kind), None):
            raise DatasetError(f"task {facts} describes no puzzle: {wrong} is {facts[wrong]!r}; regenerate the set")
        for relation in () if structure is None else structure.relations:
            check(relation.rule, relation.name, relation.places)
        return cls(structure, **facts)

    def of(self, structure: Structure) -> Self:
        """The same puzzle with the structure of a set."""
        return self.of_task(self.task, structure)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Declared) and (self.task, self._structure) == (other.task, other._structure)

    def __hash__(self) -> int:
        return hash((self.name, self.grid, self.values))

    @property
    def task(self) -> dict[str, Any]:
        """What dataset.json keeps: enough to check and draw puzzles without the page."""
        facts = {name: getattr(self, name) for name in FACTS}
        return {"name": self.name, **facts, "grid": list(self.grid), **({"form": self.form} if self.form else {})}

    @property
    def structure(self) -> Structure:
        """That of the set, with its relations; without a set, the grid and the values that may change places."""
        if self._structure is not None:
            return self._structure
        tokens = tuple(value - self.lowest + FIRST for value in self.open_values)
        lowest = {} if self.interchangeable else {"lowest": self.open_values[0]}
        kind = {"symbols" if self.interchangeable else "values": tokens, **lowest} if len(tokens) > 1 else {}
        return Structure(grid=self.grid if min(self.grid) > 1 else None, **kind)

    @property
    def grid_shape(self) -> tuple[int, int]:
        """(rows, columns)."""
        return self.grid

    @property
    def characters(self) -> str:
        """A space where no cell is, a dot for an open one, and the values."""
        return " ." + self.values

    @property
    def several(self) -> bool:  # type: ignore[override]
        """Whether a question may have several solutions."""
        return not self.unique

    @property
    def rules(self) -> str:
        """What `verify` says."""
        return "every question has one solution, and every label is it" if self.unique else super().rules

    @property
    def symmetry(self) -> GridSymmetry | None:
        """The declared moves of cells; else values change places where they are interchangeable."""
        if self.moves is not None or not self.interchangeable:
            return self.moves
        rows, columns = self.grid
        return GridSymmetry(1, rows, 1, columns, False, (FIRST, self.vocab_size - 1), moves=False)

    # -- cells, variables and constraints

    @cached_property
    def cells(self) -> Any:
        """The CPMpy variables in the grid's shape."""
        return cp.intvar(self.lowest, self.lowest + len(self.values) - 1, shape=self.grid, name="x")

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {cell.name: number for number, cell in enumerate(self.cells.flat)}

    @property
    def open_values(self) -> list[int]:
        """The values that a cell may take where nothing is shown."""
        return [self.lowest + i for i, value in enumerate(self.values) if value not in self.shown_only]

    def read(self, constraints: Any) -> tuple[dict[int, int], list[Instance]]:
        """The clues in cells and the other instances among constraints."""
        givens: dict[int, int] = {}
        others = []
        for instance in instances(constraints, self._numbers):
            if instance.rule != ["==", "x0", "n"]:
                others.append(instance)
                continue
            cell, value = instance.cells[0], instance.numbers[0]
            if not self.lowest <= value < self.lowest + len(self.values):
                raise DatasetError(f"clue {value} of cell {cell} is no value of {self.name}: {self.values}")
            if givens.setdefault(cell, value) != value:
                raise DatasetError(f"cell {cell} has two clues: {givens[cell]} and {value}")
        return givens, others

    @cached_property
    def always_instances(self) -> list[Instance]:
        """What `always` declares."""
        givens, found = self.read(self.always(self.cells))
        if givens:
            raise DatasetError(f"{self.name}: `always` shows a clue; show it in `puzzle`")
        return found

    def domains(self, givens: Mapping[int, int], absent: np.ndarray | None = None) -> list[list[int]]:
        """The values of every cell under these clues; an absent cell keeps one value."""
        gone = np.zeros(self.seq_len, bool) if absent is None else absent.ravel()
        return [
            [givens[cell]] if cell in givens else [self.lowest] if gone[cell] else self.open_values
            for cell in range(self.seq_len)
        ]

    def fill(self, rng: np.random.Generator, constraints: Sequence[Any] = (), hidden: Sequence[Any] = ()) -> np.ndarray:
        """A random grid of values that obeys `always` and constraints; `hidden` ones are of no known relation."""
        givens, own = self.read(list(constraints))
        if own or hidden:
            solver = Solver(self.cells.flat, self.domains({}), [*self.posted([*self.always_instances, *own]), *hidden])
        else:
            solver = self._free
        solver.restrict(self.domains(givens), [])
        if (answer := solver.random(rng)) is None:
            raise NoPuzzle("have no solution: its rules contradict one another or what is shown")
        return answer.reshape(self.grid)

    @cached_property
    def _free(self) -> Solver:
        """Of the grids that obey `always`; translated once."""
        return Solver(self.cells.flat, self.domains({}), self.posted(self.always_instances))

    def posted(self, instances: Iterable[Instance]) -> list[Any]:
        """The CPMpy constraints of instances."""
        cells = self.cells.flat
        return [constraint(each.rule, [cells[c] for c in each.cells], each.numbers) for each in instances]

    # -- judging

    def solver(self, question: np.ndarray, relations: np.ndarray | None = None) -> Solver:
        """A solver of one question (S,) with its relations (M, 1 + C + P)."""
        givens = {int(c): int(question[c]) - FIRST + self.lowest for c in np.flatnonzero(question >= FIRST)}
        every = [Instance(r.rule, tuple(cells), numbers) for r, numbers, cells in self.constraints_of(relations)]
        return Solver(self.cells.flat, self.domains(givens, question == ABSENT), self.posted(every))

    def solved(self, questions: np.ndarray, answers: np.ndarray, relations: np.ndarray | None = None) -> np.ndarray:
        """(N, S), (N, S), (N, M, 1 + C + P) -> (N,) bool: the answer keeps every clue and obeys every relation."""
        return self._kept(questions, answers).all(1) & holds(self.structure, relations, self._values(answers))

    def _kept(self, questions: np.ndarray, answers: np.ndarray) -> np.ndarray:
        """(N, S) bool: the cell is absent, keeps its clue, or holds a value that needs no clue."""
        free = np.isin(answers, np.array(self.open_values) - self.lowest + FIRST)
        return (questions == ABSENT) | ((questions == BLANK) & free) | ((questions == answers) & (answers >= FIRST))

    def _values(self, tokens: np.ndarray) -> np.ndarray:
        return tokens.astype(np.int64) - FIRST + self.lowest

    def mistake(self, question: np.ndarray, answer: np.ndarray, relations: np.ndarray | None = None) -> str | None:
        """The first cell or relation that an answer breaks."""
        kept = self._kept(question[None], answer[None])[0]
        if not kept.all():
            cell = int(kept.argmin())
            told = [
                repr(self.characters[t]) if t < self.vocab_size else f"token {t}"
                for t in (answer[cell], question[cell])
            ]
            return f"the answer has {told[0]} at {self.place(cell)}, where the question has {told[1]}"
        values = self._values(answer)
        for relation, numbers, cells in self.constraints_of(relations):
            if not evaluate(relation.rule, values[cells], np.array(numbers, np.int64)):
                held = " ".join(self.characters[answer[cell]] for cell in cells)
                clues = "".join(f" {number}" for number in numbers)
                name, where = relation.name.removesuffix(IN_GROUPS), ", ".join(map(self.place, cells))
                return f"{name}{clues} is broken by {held} at {where}"
        return None

    def constraints_of(self, relations: np.ndarray | None) -> list[Any]:
        """(relation, clue numbers, cells) of the set's own instances, then of a puzzle's (M, 1 + C + P)."""
        always = [(relation, (), list(cells)) for relation in self.structure.relations for cells in relation.instances]
        return [*always, *listed(self.structure, relations)]

    def own(self, relations: np.ndarray | None) -> list[Instance]:
        """The instances of one puzzle (M, 1 + C + P), constants on the right of comparisons as clue numbers."""
        own = listed(self.structure, relations)
        return [Instance(r.rule, tuple(cells), numbers, r.places, r.seen).unfolded for r, numbers, cells in own]

    def fault(self, question: np.ndarray, answer: np.ndarray, relations: np.ndarray | None = None) -> str | None:
        """The first broken rule, or that the question has another solution."""
        if broken := self.mistake(question, answer, relations):
            return broken
        if not self.unique or self._only(question, answer, relations):
            return None
        return "the question has more than one solution"

    def _only(self, question: np.ndarray, answer: np.ndarray, relations: np.ndarray | None) -> bool:
        solver = self.solver(question, relations)
        solver.exclude(self._values(answer), np.flatnonzero(question == BLANK).tolist())
        return solver.answer(max_deterministic_time=1e6) is None

    def exact(self, question: np.ndarray, relations: np.ndarray | None = None) -> tuple[int, np.ndarray]:
        """How many solutions CP-SAT finds, 2 for more, and one of them."""
        found = self.solver(question, relations).answer(max_deterministic_time=1e6)
        if found is None:
            return 0, question
        answer = np.where(question == ABSENT, ABSENT, found - self.lowest + FIRST).astype(np.uint8)
        return 1 if self._only(question, answer, relations) else 2, answer

    def features(self, questions: np.ndarray, answers: np.ndarray) -> dict[str, np.ndarray]:
        """Statistics (N,) by name."""
        return {"clues in cells": (questions >= FIRST).sum(1)}

    def signatures(self, questions: np.ndarray, answers: np.ndarray, relations: np.ndarray | None = None) -> np.ndarray:
        """(N,) uint64, equal for the same clues and relations, values renamed where they are interchangeable."""
        found = []
        for n, question in enumerate(questions):
            own = listed(self.structure, None if relations is None else relations[n])
            told = [(r.name, numbers, tuple(cells if r.places else sorted(cells))) for r, numbers, cells in own]
            found.append(signature(question, told, self.interchangeable))
        return np.array(found, np.uint64)

    # -- text

    def of_constraints(self, constraints: Any, absent: np.ndarray | None = None) -> Typed:
        """Tokens (S,) and relations (M, 1 + C + P) of the question that constraints over `cells` state."""
        givens, own = self.read(constraints)
        tokens = np.full(self.seq_len, BLANK, np.uint8)
        if absent is not None:
            tokens[absent.ravel()] = ABSENT
        for cell, value in givens.items():
            tokens[cell] = value - self.lowest + FIRST
        table = rows(self.structure.relations, [own])
        return tokens, None if table is None else table[0]

    @property
    def typed_as(self) -> dict[str, int]:
        """The token of each character; a space is none, but stands between cells."""
        return {character: token for token, character in enumerate(self.characters) if token != ABSENT}

    def clues(self, board: str) -> list[Any]:
        """The constraints that a board's characters state, cell by cell; spaces and line ends are passed over."""
        tokens = super().parse(board)
        cells, lowest = self.cells.flat, self.lowest - FIRST
        return [cells[cell] == int(tokens[cell]) + lowest for cell in np.flatnonzero(tokens >= FIRST)]

    def draw(self, tokens: np.ndarray, question: np.ndarray | None = None, relations: np.ndarray | None = None) -> str:
        """The grid as text, and a line for every relation of this puzzle."""
        own = listed(self.structure, relations)
        lines = [f"{r.name}{''.join(f' {n}' for n in numbers)}: {' '.join(map(str, c))}" for r, numbers, c in own]
        return "\n".join([super().draw(tokens), *lines])

    def typed(self, text: str) -> Typed:
        """Tokens (S,) and relations (M, 1 + C + P) of a typed puzzle."""
        lines = text.split("\n")
        tokens = super().parse("\n".join(line for line in lines if ":" not in line))
        table = rows(self.structure.relations, [[self._typed_relation(line) for line in lines if ":" in line]])
        return tokens, None if table is None else table[0]

    def _typed_relation(self, line: str) -> Instance:
        head, _, tail = line.partition(":")
        name, *numbers = head.split() or [""]
        known = {relation.name: relation for relation in self.structure.relations}
        if (relation := known.get(name)) is None:
            raise DatasetError(f"{line!r}: no relation {name}; this set has {', '.join(known) or 'none'}")
        clues, cells = (tuple(whole(word, "number") for word in words) for words in (numbers, tail.split()))
        fewest = int(relation.rule[-1] == "n")
        fits = 0 < len(cells) == len(set(cells)) and len(cells) == (relation.places or len(cells))
        if not (fits and max(cells) < self.seq_len and fewest <= len(clues) <= relation.clues):
            form = f"{name}{' NUMBER' * relation.clues}: CELL CELL…"
            raise DatasetError(f"{line!r}: type `{form}`, different cells from 0 to {self.seq_len - 1}")
        return Instance(relation.rule, cells, clues, relation.places, relation.seen)

    def parse(self, text: str) -> np.ndarray:
        """The tokens (S,) of a typed puzzle."""
        return self.typed(text)[0]


def signature(question: np.ndarray, own: Iterable[Any], interchangeable: bool) -> int:
    """A number of the clues in cells (S,) and of other instances; the same when interchangeable values are renamed."""
    tokens = question.tolist()
    if interchangeable:
        order = {token: FIRST + i for i, token in enumerate(dict.fromkeys(t for t in tokens if t >= FIRST))}
        tokens = [order.get(token, token) for token in tokens]
    text = repr((tokens, sorted(own))).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


def whole(word: str, what: str) -> int:
    """The whole number that a word is."""
    if not re.fullmatch("[0-9]{1,9}", word):
        raise DatasetError(f"{word!r} is no {what}; type a whole number")
    return int(word)
