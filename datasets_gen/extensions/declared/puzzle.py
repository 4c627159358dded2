"""The base class of puzzles that a CPMpy model declares; the folder `pages` has one file for each."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from datasets_gen.extensions.declared import shapes
from datasets_gen.extensions.declared.expressions import Drawn, Instance, instances
from datasets_gen.extensions.declared.relations import IN_GROUPS, answer_signature, holds, listed, rows, signature
from datasets_gen.extensions.declared.rules import GRAPHS, check, constraint, cp, evaluate, named
from datasets_gen.extensions.declared.solver import NoPuzzle, Solver
from datasets_gen.extensions.declared.user_code import file_of, note, user_code
from datasets_gen.family import Puzzle
from datasets_gen.layout import DatasetError
from datasets_gen.structure import GridSymmetry, Relation, Structure

BLACK = "#9d9a92"  # of black cells in pictures, on which a digit can be read
ABSENT, BLANK, FIRST = 0, 1, 2  # tokens: an absent cell, an open cell, the lowest value
FACTS = {  # fields of `task` in dataset.json, with their types
    "grid": list, "values": str, "lowest": int, "shown_only": str, "interchangeable": bool, "unique": bool
}  # fmt: skip
KINDS = {"values": str, "shown_only": str, "black": str, "lowest": int, "fewest": int, "unique": bool}
MOST_VALUES = 256 - FIRST  # with those of black cells: tokens are uint8
OPTIONAL = {"board": list, "box_shape": list, "black": str, "file": str}  # optional ones
USER_PUZZLES: dict[str, type[Declared]] = {}  # classes of imported puzzle files, by name
Fill = Callable[..., np.ndarray]
Typed = tuple[np.ndarray, np.ndarray | None]  # tokens (S,) and relations (M, 1 + C + P)


class Declared(Puzzle):
    """A puzzle declared by CPMpy constraints over a grid of integer variables.

    Tokens: 0 a cell that the puzzle does not have, 1 an open cell, 2 and more the values.
    """

    name = "declared"
    grid: tuple[int, int] = (1, 1)
    values: str = ""  # one character for each value, from the lowest
    lowest: int = 1  # the value of the first character
    shown_only: str = ""  # values that occur only as clues, such as walls
    black: str = ""  # one more character for each of `values`, drawn in black cells
    board: tuple[int, int] | None = None  # (rows, columns) of the grid that drawings show; None: all
    box_shape: tuple[int, int] | None = None  # (rows, columns) of the boxes in drawings
    interchangeable: bool | None = None  # whether any two values may be exchanged; None: derived from the rules
    file: str = ""  # the user's file, if it has `draw`, `typed` or `moves`, which dataset.json cannot store
    form: ClassVar[str] = ""  # the text form, a key of FORMS in text.py
    reserved: ClassVar[str] = ":"  # characters that the text form uses for other purposes
    unique: bool = True  # whether every puzzle has one solution; if not, only the rules judge answers
    fewest: int = 0  # minimum number of clues
    moves: GridSymmetry | None = None  # moves of cells that preserve the rules of every puzzle
    rating_name = "branches"

    def always(self, x: Any) -> list[Any]:
        """Return the constraints of every puzzle over the variables `x`, in the grid's shape."""
        return []

    def puzzle(self, x: Any, rng: np.random.Generator, fill: Fill) -> Drawn:
        """Return a random puzzle; fill(constraints) returns a random grid that satisfies them and `always`."""
        answer = fill()
        return Drawn(answer, optional=[x.flat[cell] == answer.flat[cell] for cell in self.shown_cells])

    def __init_subclass__(cls) -> None:
        if "name" in vars(cls) and not cls.__module__.startswith("datasets_gen."):
            cls.file = "" if vars(cls).keys().isdisjoint(("draw", "typed", "moves")) else Path(file_of(cls)).name
            USER_PUZZLES[cls.name] = cls

    def __init__(self, structure: Structure | None = None, **facts: Any) -> None:
        self._structure = structure
        vars(self).update({name: tuple(v) if type(v) is list else v for name, v in facts.items()})

    @classmethod
    def of_task(cls, task: Mapping[str, Any], structure: Structure | None) -> Self:
        """Return the puzzle of a set. Values in dataset.json take precedence over those of the puzzle's file."""
        kinds = FACTS | {name: kind for name, kind in OPTIONAL.items() if name in task}
        facts = {name: task[name] for name in ("name", *kinds)}
        wrong = next((name for name, kind in kinds.items() if type(facts[name]) is not kind), None)
        puzzle = cls(structure, **facts)
        if wrong := wrong or puzzle.wrong:
            stated = getattr(puzzle, wrong)
            raise DatasetError(f"task {facts} is not a puzzle: {wrong} is {stated!r}; regenerate the set")
        for relation in () if structure is None else structure.relations:
            check(relation.rule, relation.name, relation.places)
        if puzzle.file and puzzle.name not in USER_PUZZLES:
            note(f"{puzzle.file} has another text form of this puzzle: add --import {puzzle.file}")
        return puzzle

    @property
    def wrong(self) -> str | None:
        """Return the name of the first attribute that is not valid; None: all are."""
        for name in ("grid", "board", "box_shape"):
            shape = getattr(self, name) or self.grid
            two = isinstance(shape, tuple) and [type(n) for n in shape] == [int, int] and shape != (1, 1)
            if not two or not all(0 < n <= most for n, most in zip(shape, self.grid, strict=True)):
                return name
        for name, kind in KINDS.items():
            if type(getattr(self, name)) is not kind:
                return name
        count = len(self.values + self.black)
        distinct = {*self.values, *self.black} - {*"._", *self.ignored_characters, *self.reserved}
        if not self.values or not len(distinct) == count <= MOST_VALUES:
            return "values"
        if not {*self.shown_only} < {*self.values}:
            return "shown_only"
        return "black" if len(self.black) not in (0, len(self.values)) else None

    def of(self, structure: Structure) -> Self:
        """Return the same puzzle with the structure of a set."""
        return self.of_task(self.task, structure)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Declared) and (self.task, self._structure) == (other.task, other._structure)

    def __hash__(self) -> int:
        return hash((self.name, self.grid, self.values))

    @property
    def task(self) -> dict[str, Any]:
        """Return the `task` of dataset.json, which suffices to check and draw puzzles without the page."""
        facts = {name: getattr(self, name) for name in FACTS} | {"interchangeable": bool(self.interchangeable)}
        more = {name: getattr(self, name) for name in OPTIONAL if self.name in USER_PUZZLES or name in vars(self)}
        facts |= {name: value for name, value in (more | {"form": self.form}).items() if value}
        return {"name": self.name} | {name: [*v] if isinstance(v, tuple) else v for name, v in facts.items()}

    @property
    def structure(self) -> Structure:
        """Return the structure of the set with its relations; without a set, the grid and the exchangeable values."""
        if self._structure is not None:
            return self._structure
        tokens = tuple(value - self.lowest + FIRST for value in self.open_values)
        lowest = {} if self.interchangeable else {"lowest": self.open_values[0]}
        kind = {"symbols" if self.interchangeable else "values": tokens, **lowest} if len(tokens) > 1 else {}
        return Structure(grid=self.grid if min(self.grid) > 1 else None, **kind)

    @property
    def grid_shape(self) -> tuple[int, int]:
        """Return (rows, columns)."""
        return self.grid

    def on_board(self, cells: np.ndarray) -> np.ndarray:
        """Map cells (..., S) to the part that drawings show (..., rows, columns)."""
        rows, columns = self.board or self.grid
        return super().on_board(cells)[..., :rows, :columns]

    @property
    def shown_cells(self) -> list[int]:
        """Return the cells that drawings show, row by row."""
        shown: list[int] = self.on_board(np.arange(self.seq_len)).ravel().tolist()
        return shown

    @property
    def characters(self) -> str:
        """Return one character per token: _ (absent cell), a dot (open cell), values, values of black cells."""
        return "_." + self.values + self.black

    @property
    def glyphs(self) -> str:
        """Return the characters of pictures, where a black cell has a colour and the character of its value."""
        return "  " + self.values + self.values[: len(self.black)]

    @property
    def draws_constraints(self) -> bool:  # type: ignore[override]
        """Return whether the puzzle has a drawing other than cells with a list of its constraints."""
        return type(self).draw is not Declared.draw

    def frames(self, question: np.ndarray, answers: np.ndarray) -> np.ndarray:
        """Return the drawn tokens (T + 1, S) of a question (S,) and the answers (T, S); absent cells stay absent."""
        return super().frames(question, np.where(question == ABSENT, ABSENT, answers))

    @property
    def colours(self) -> dict[int, str]:  # type: ignore[override]
        """Return the colours of the tokens of black cells."""
        return {FIRST + len(self.values) + i: BLACK for i in range(len(self.black))}

    @property
    def multiple_solutions(self) -> bool:  # type: ignore[override]
        """Return whether a question may have several solutions."""
        return not self.unique

    @property
    def rules(self) -> str:
        """Return the sentence that `verify` prints."""
        return "every question has one solution, and every label is it" if self.unique else super().rules

    @property
    def symmetry(self) -> GridSymmetry | None:
        """Return the declared moves of cells; without any, the exchange of interchangeable values."""
        tokens, (rows, columns) = self.open_tokens, self.grid
        if self.moves is not None or not self.interchangeable or len(tokens) <= tokens[-1] - tokens[0]:
            return self.moves
        return GridSymmetry(1, rows, 1, columns, False, (tokens[0], tokens[-1]), moves=False)

    # -- cells, variables and constraints

    @cached_property
    def cells(self) -> Any:
        """Return the CPMpy variables in the grid's shape."""
        return cp.intvar(self.lowest, self.lowest + len(self.values) - 1, shape=self.grid, name="x")

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {cell.name: number for number, cell in enumerate(self.cells.flat)}

    @property
    def open_values(self) -> list[int]:
        """Return the values that an open cell may take."""
        return [self.lowest + i for i, value in enumerate(self.values) if value not in self.shown_only]

    @property
    def open_tokens(self) -> tuple[int, ...]:
        """Return the tokens of these values."""
        return tuple(FIRST + i for i, value in enumerate(self.values) if value not in self.shown_only)

    def value(self, shown: Any) -> Any:
        """Return the value of a clue; the numbers of black cells follow those of white ones."""
        return self.lowest + (shown - self.lowest) % len(self.values)

    def read(self, constraints: Any) -> tuple[dict[int, int], list[Instance]]:
        """Split constraints into clues {cell: value} and instances of relations."""
        givens: dict[int, int] = {}
        others = []
        for instance in instances(constraints, self._numbers):
            if instance.rule == ["runs"] and self.open_values != [0, 1]:
                raise DatasetError(f"Runs needs cells with the values 0 and 1; {self.name} has {self.open_values}")
            if instance.clue is None:
                others.append(instance)
                continue
            cell, value = instance.clue
            if not 0 <= value - self.lowest < len(self.values + self.black):
                wrong = f"the clue {value} of cell {cell} is not a value of {self.name}"
                raise DatasetError(f"{wrong}; its values are {self.values}")
            if givens.setdefault(cell, value) != value:
                raise DatasetError(f"cell {cell} has two clues: {givens[cell]} and {value}")
        return givens, others

    @cached_property
    def always_instances(self) -> list[Instance]:
        """Return the instances that `always` declares."""
        with user_code(file_of(type(self))):
            declared = self.always(self.cells)
        givens, constraints = self.read(declared)
        for cell, value in givens.items():
            raise DatasetError(f"{self.name}: `always` has the clue {value} at {self.place(cell)}; move it to `puzzle`")
        if any(each.rule == ["runs"] for each in constraints):
            raise DatasetError(f"{self.name}: `always` has Runs, which are clues; move them to `puzzle`")
        return constraints

    def domains(self, givens: Mapping[int, int], absent: np.ndarray | None = None) -> list[list[int]]:
        """Return the possible values of each cell given these clues; an absent cell has one value."""
        gone = np.zeros(self.seq_len, bool) if absent is None else absent.ravel()
        return [
            [self.value(givens[cell])] if cell in givens else [self.lowest] if gone[cell] else self.open_values
            for cell in range(self.seq_len)
        ]

    def fill(self, rng: np.random.Generator, constraints: Sequence[Any] = (), hidden: Sequence[Any] = ()) -> np.ndarray:
        """Return a random grid that satisfies `always`, `constraints` and `hidden` (unread); NoPuzzle if none does."""
        givens, others = self.read(list(constraints))
        every = [*self.always_instances, *others]
        solver = self.solver_of({}, every, hidden=hidden) if others or hidden else self._free
        solver.restrict(self.domains(givens), [])
        if (answer := solver.random(rng)) is None:
            if self._contradiction:
                raise DatasetError(f"{self.name}: {self._contradiction}")
            kind = "constraints" if others or hidden else "clues"
            raise NoPuzzle(f"gave fill(…) {kind} that contradict `always`")
        return answer.reshape(self.grid)

    @cached_property
    def _contradiction(self) -> str | None:
        """Return which constraint of `always` excludes the last grid, None if a grid satisfies them."""
        every = self.always_instances
        self._free.restrict(self.domains({}), [])
        if self._free.answer() is not None:
            return None
        last = next(each for count, each in enumerate(every, 1) if self.solver_of({}, every[:count]).answer() is None)
        return f"no grid satisfies `always`: {named(last.folded.rule)} of cells {last.cells} excludes the last ones"

    @cached_property
    def _free(self) -> Solver:
        """Return a solver of `always`, translated once."""
        return self.solver_of({}, self.always_instances)

    def solver_of(
        self,
        givens: Mapping[int, int],
        always: Sequence[Instance],
        absent: np.ndarray | None = None,
        optional: Iterable[Instance] = (),
        hidden: Sequence[Any] = (),
    ) -> Solver:
        """Return a solver; `optional` instances can be switched, `hidden` are further CPMpy constraints."""
        cells = self.cells.flat
        whole = [(each.rule, [cells[c] for c in each.cells]) for each in always if each.rule[0] in GRAPHS]
        asked, kept = (
            [constraint(each.rule, [cells[c] for c in each.cells], each.numbers) for each in some]
            for some in (optional, (each for each in always if each.rule[0] not in GRAPHS))
        )
        return Solver(cells, self.domains(givens, absent), [*kept, *hidden], asked, whole)

    # -- judging

    def solver(self, question: np.ndarray, relations: np.ndarray | None = None) -> Solver:
        """Return a solver of one question (S,) with its relations (M, 1 + C + P)."""
        givens = {int(c): int(question[c]) - FIRST + self.lowest for c in np.flatnonzero(question >= FIRST)}
        every = [Instance(r.rule, tuple(cells), numbers) for r, numbers, cells in self.constraints_of(relations)]
        return self.solver_of(givens, every, question == ABSENT)

    def solved(self, questions: np.ndarray, answers: np.ndarray, relations: np.ndarray | None = None) -> np.ndarray:
        """Return (N,) bool: whether answers (N, S) keep every clue and satisfy every relation (N, M, 1 + C + P)."""
        values = self._values(answers, questions)
        return self._kept(questions, answers).all(1) & holds(self.structure, relations, values)

    def _kept(self, questions: np.ndarray, answers: np.ndarray) -> np.ndarray:
        """Return (N, S) bool: the cell is absent, keeps its clue, or is open and has a value that an open cell may."""
        free = np.isin(answers, self.open_tokens)
        return (questions == ABSENT) | ((questions == BLANK) & free) | ((questions == answers) & (answers >= FIRST))

    def _values(self, tokens: np.ndarray, question: np.ndarray) -> np.ndarray:
        return np.where(question == ABSENT, self.lowest, self.value(tokens.astype(np.int64) - FIRST + self.lowest))

    def mistake(self, question: np.ndarray, answer: np.ndarray, relations: np.ndarray | None = None) -> str | None:
        """Describe the first clue or relation that an answer violates; None: there is none."""
        kept = self._kept(question[None], answer[None])[0]
        if not kept.all():
            cell = int(kept.argmin())
            two = answer[cell], question[cell]
            has, had = (repr(self.characters[t]) if t < self.vocab_size else f"token {t}" for t in two)
            return f"the answer has {has} at {self.place(cell)}, where the question has {had}"
        values = self._values(answer, question)
        for relation, numbers, cells in self.constraints_of(relations):
            if not evaluate(relation.rule, values[cells], np.array(numbers, np.int64)):
                held = " ".join(self.characters[answer[cell]] for cell in cells)
                clues = "".join(f" {number}" for number in numbers)
                name, where = relation.name.removesuffix(IN_GROUPS), ", ".join(map(self.place, cells))
                if relation.rule[0] in GRAPHS:
                    return f"{name} is violated"
                return f"{name}{clues} is violated by {held} at {where}"
        return None

    def constraints_of(self, relations: np.ndarray | None) -> list[Any]:
        """Return (relation, clue numbers, cells) of the instances of the set, then of one puzzle (M, 1 + C + P)."""
        always = [(relation, (), list(cells)) for relation in self.structure.relations for cells in relation.instances]
        return [*always, *listed(self.structure, relations)]

    def instances_of(self, relations: np.ndarray | None) -> list[Instance]:
        """Return the instances of one puzzle (M, 1 + C + P); the right constants of comparisons are clue numbers."""
        each = listed(self.structure, relations)
        return [Instance(r.rule, tuple(cells), numbers, r.places, r.seen).unfolded for r, numbers, cells in each]

    def stated(self, relations: np.ndarray | None) -> list[tuple[Relation, tuple[int, ...], tuple[int, ...]]]:
        """Return (relation, clue numbers, cells) of one puzzle's rows; cells ascend if their order does not matter."""
        every = listed(self.structure, relations)
        return [(r, numbers, tuple(cells if r.places else sorted(cells))) for r, numbers, cells in every]

    def fault(self, question: np.ndarray, answer: np.ndarray, relations: np.ndarray | None = None) -> str | None:
        """Describe the first violated rule, or say that the question has another solution; None: neither."""
        broken = self.mistake(question, answer, relations)
        if broken or not self.unique or self._only(question, answer, relations):
            return broken
        return "the question has more than one solution"

    def _only(self, question: np.ndarray, answer: np.ndarray, relations: np.ndarray | None) -> bool:
        solver = self.solver(question, relations)
        solver.exclude(self._values(answer, question), np.flatnonzero(question == BLANK).tolist())
        return solver.answer(max_deterministic_time=1e6) is None

    def exact(self, question: np.ndarray, relations: np.ndarray | None = None) -> tuple[int, np.ndarray]:
        """Return the number of solutions by CP-SAT (0, 1, or 2 for more), and one of them."""
        values = self.solver(question, relations).answer(max_deterministic_time=1e6)
        if values is None:
            return 0, question
        answer = np.where(question == BLANK, values - self.lowest + FIRST, question).astype(np.uint8)
        return 1 if self._only(question, answer, relations) else 2, answer

    def features(self, questions: np.ndarray, answers: np.ndarray) -> dict[str, np.ndarray]:
        """Return statistics (N,) by name."""
        return {"clues in cells": (questions >= FIRST).sum(1)}

    def signatures(self, questions: np.ndarray, answers: np.ndarray, relations: np.ndarray | None = None) -> np.ndarray:
        """Return (N,) uint64, equal for equal clues and relations, up to a renaming of interchangeable values."""
        hashes, renamed = [], self.open_tokens if self.interchangeable else ()
        for n, question in enumerate(questions):
            every = self.stated(None if relations is None else relations[n])
            hashes.append(signature(question, [(r.name, *rest) for r, *rest in every], renamed))
        return np.array(hashes, np.uint64)

    def notes(self, labels: Mapping[str, np.ndarray]) -> list[str]:
        """Return a note for each split with answers that occur in train, up to rotation, reflection and renaming."""
        renamed = self.open_tokens if self.interchangeable else ()
        keys = {n: [answer_signature(self.on_board(each), renamed) for each in some] for n, some in labels.items()}
        turned = (self.board or self.grid)[0] > 1
        moves = [*["rotation", "reflection"] * turned, *["renaming of the values"] * bool(renamed)]
        train, alike = {*keys.pop("train", ())}, f" up to {', '.join(moves)}" if moves else ""
        repeated = {name: sum(key in train for key in hashes) for name, hashes in keys.items()}
        return [
            f"{count:,} of {len(keys[name]):,} answers of {name} are also answers of train, which has {len(train):,} "
            f"different ones{alike}"
            for name, count in repeated.items()
            if count
        ]

    # -- text

    def of_constraints(self, constraints: Any, absent: np.ndarray | None = None) -> Typed:
        """Return the tokens (S,) and relations (M, 1 + C + P) of a question stated as constraints over `cells`."""
        givens, instances = self.read(constraints)
        tokens = np.full(self.seq_len, BLANK, np.uint8)
        if absent is not None:
            tokens[absent.ravel()] = ABSENT
        for cell, value in givens.items():
            tokens[cell] = value - self.lowest + FIRST
        table = rows(self.structure.relations, [instances])
        return tokens, None if table is None else table[0]

    def _tokens(self, board: str) -> np.ndarray:
        """Return the tokens (S,) of a typed board; cells that drawings do not show are open."""
        tokens = np.full(self.seq_len, BLANK, np.uint8)
        shown = self.on_board(tokens)  # a view
        shown[:] = super().parse(board).reshape(shown.shape)
        return tokens

    def of_board(self, board: str, constraints: Sequence[Any]) -> Typed:
        """Return the tokens (S,) and relations (M, 1 + C + P) of a typed board and of constraints over `cells`."""
        return self.of_constraints([*self.clues(board), *constraints], self._tokens(board) == ABSENT)

    def clues(self, board: str) -> list[Any]:
        """Return the clues of a typed board as constraints; spaces and line ends are ignored."""
        tokens = self._tokens(board)
        cells, lowest = self.cells.flat, self.lowest - FIRST
        return [cells[cell] == int(tokens[cell]) + lowest for cell in np.flatnonzero(tokens >= FIRST)]

    def draw(self, tokens: np.ndarray, question: np.ndarray | None = None, relations: np.ndarray | None = None) -> str:
        """Draw the grid, a map of the regions of relations, and a line for every other instance."""
        instances = self.stated(relations)
        mapped, letters = shapes.mapped(instances, self.grid, {*self.shown_cells})
        marked = self.on_board(shapes.lettered(letters, self.seq_len))
        lines = ["", *map("".join, marked), ""] if letters else []
        for name in mapped:
            of_regions = ((letters[cells], *numbers) for r, numbers, cells in instances if r.name == name)
            lines.append(f"{name}: {' '.join('='.join(map(str, each)) for each in of_regions)}")
        lines += [shapes.line_of(r.name, n, cells) for r, n, cells in instances if r.name not in mapped]
        return "\n".join([super().draw(tokens), *lines])

    def typed(self, text: str) -> Typed:
        """Return the tokens (S,) and relations (M, 1 + C + P) of a typed puzzle."""
        lines, rows_shown = text.split("\n"), (self.board or self.grid)[0]
        stated = [line for line in lines if ":" in line]
        board = [line for line in lines if ":" not in line and line.strip()]
        regions = dict[str, list[int]]()
        if re.search(r":[ \t]*[^\W\d]", text):  # a letter in place of a cell's number
            cells = self.on_board(np.arange(self.seq_len))
            read = shapes.read_letters(board[-rows_shown:], cells.shape)
            board, regions = board[:-rows_shown], {name: cells.flat[shown].tolist() for name, shown in read.items()}
        table = rows(self.structure.relations, [[each for line in stated for each in self.instances_in(line, regions)]])
        return self._tokens("\n".join(board)), None if table is None else table[0]

    def instances_in(self, line: str, regions: Mapping[str, list[int]]) -> list[Instance]:
        """Parse the instances of a line: `NAME NUMBER: CELL CELL`, or `NAME: A=NUMBER B` over regions of the map."""
        head, _, tail = line.partition(":")
        name, *numbers = head.split() or [""]
        known = {relation.name: relation for relation in self.structure.relations}
        base, _, last = name.rpartition("_")  # `sum_eq 3` is `sum_eq_3` in a set whose sums are all 3
        spelt = [(name, numbers), ("_".join([name, *numbers]), []), (base, [last, *numbers])]
        name, numbers = next((each for each in spelt if each[0] in known), spelt[0])
        if (relation := known.get(name)) is None:
            raise DatasetError(f"{line!r}: there is no relation {name}; this set has {', '.join(known) or 'none'}")
        words = [word.partition("=") for word in tail.split()]
        parsed = [([n] if n else numbers, regions[letter]) for letter, _, n in words if letter in regions]
        if not parsed or len(parsed) < len(words):
            parsed = [(numbers, [whole(word, "number of a cell") for word in tail.split()])]
        instances = []
        for numbers, cells in parsed:
            clues, fewest = tuple(whole(word, "number") for word in numbers), int(relation.rule[-1] == "n")
            if not (relation.fits(cells, self.seq_len) and fewest <= len(clues) <= relation.clues):
                form = f"{name}{' NUMBER' * relation.clues}: CELL CELL…"
                raise DatasetError(f"{line!r}: type `{form}`, different cells from 0 to {self.seq_len - 1}")
            instances.append(Instance(relation.rule, tuple(cells), clues, relation.places, relation.seen))
        return instances

    def parse(self, text: str) -> np.ndarray:
        """Return the tokens (S,) of a typed puzzle."""
        return self.typed(text)[0]


def whole(word: str, what: str) -> int:
    """Parse a whole number; `what` names it in errors."""
    if not re.fullmatch("[0-9]{1,9}", word):
        raise DatasetError(f"{word!r} is not a {what}; type a whole number")
    return int(word)
