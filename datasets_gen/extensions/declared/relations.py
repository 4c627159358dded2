"""Relations of a set: gathered from the constraints of its puzzles, and checked with numpy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from datasets_gen.extensions.declared.expressions import Instance
from datasets_gen.extensions.declared.rules import evaluate, named
from datasets_gen.layout import DatasetError
from datasets_gen.structure import MOST, Relation, Structure

DIFFERENT = ["alldifferent", "x"]
IN_GROUPS = "_in_groups"  # ends the name of a relation that networks read as groups


def gather(always: Sequence[Instance], drawn: Sequence[Sequence[Instance]]) -> tuple[Relation, ...]:
    """The relations of a set: `always` holds for every puzzle, each list of `drawn` for one.

    A clue number that never varies becomes a part of the rule.
    """
    every = [each for puzzle in drawn for each in puzzle]
    numbers: dict[Any, set[tuple[int, ...]]] = {}
    for each in every:
        numbers.setdefault(each.kind, set()).add(each.numbers)
    varies = [each if each.rule[-1] != "n" or len(numbers[each.kind]) > 1 else each.folded for each in every]
    shared: dict[Any, dict[tuple[int, ...], None]] = {}  # cells of the instances of every puzzle
    for each in always:
        shared.setdefault(each.folded.kind, {})[each.cells] = None
    found: dict[Any, list[Instance]] = {}
    for each in (*(one.folded for one in always), *varies):
        found.setdefault(each.kind, []).append(each)
    relations: dict[str, Relation] = {}
    for kind, some in found.items():
        rule, places, seen = some[0].rule, some[0].places, some[0].seen
        highest = max((number for each in some for number in each.numbers), default=0)
        if highest > MOST:
            raise DatasetError(f"a clue of {named(rule)} is {highest}; {MOST} is the largest kept")
        base = ("" if seen else "unseen_") + named(rule)
        name = next(name for name in (base, *(f"{base}_{n}" for n in range(2, MOST))) if name not in relations)
        clues, instances = max(len(each.numbers) for each in some), tuple(shared.get(kind, ()))
        relations[name] = Relation(
            name=name, rule=rule, places=places, clues=clues, highest=highest, instances=instances, seen=seen
        )
    return tuple(relations.values())


def partitioned(
    relations: Sequence[Relation], drawn: Sequence[Sequence[Instance]], cells: int, units: Mapping[str, tuple[int, ...]]
) -> tuple[dict[str, tuple[int, ...]], tuple[Relation, ...]]:
    """(groups, relations): all-different instances that fill the board, as rows do, become partitions of its cells.

    drawn: the instances of each puzzle, which stay what they are. units: partitions that have a name of their own, such
    as rows, so that the weights of one puzzle serve another. Networks read a partition faster than its instances,
    and tell rows from columns. Rules go on to read the instances, from a relation that networks do not see.
    """
    groups: dict[str, tuple[int, ...]] = {}
    found: list[Relation] = []
    own = any(each.rule == DIFFERENT for puzzle in drawn for each in puzzle)
    for relation in relations:
        if relation.rule != DIFFERENT or not relation.seen:
            found.append(relation)
            continue
        left, filling = list(relation.instances), []
        while part := _filling(left, cells):
            filling += part
            left = [each for each in left if each not in part]
            numbers = {cell: number for number, each in enumerate(part) for cell in each}
            partition = tuple(numbers[cell] for cell in range(cells))
            known = (name for name, unit in units.items() if _same(unit, partition))
            name = next(known, f"{relation.name}_{len(groups) + 1}")
            groups[name] = units.get(name, partition)
        if left or own or not filling:
            found.append(relation.model_copy(update={"instances": tuple(left)}))
        if filling:
            hidden = {"name": f"{relation.name}{IN_GROUPS}", "instances": tuple(filling), "seen": False}
            found.append(relation.model_copy(update={**hidden, "clues": 0, "highest": 0}))
    return groups, tuple(found)


def _same(one: Sequence[int], other: Sequence[int]) -> bool:
    """Do two partitions hold the same groups, however numbered?"""
    return len({*one}) == len({*other}) == len({*zip(one, other, strict=True)})


def _filling(instances: Sequence[tuple[int, ...]], cells: int) -> list[tuple[int, ...]]:
    """The first instances, in order and apart from one another, that hold every cell once; none: they do not."""
    part: list[tuple[int, ...]] = []
    held: set[int] = set()
    for each in instances:
        if held.isdisjoint(each):
            part.append(each)
            held |= set(each)
    return part if len(held) == cells else []


def rows(relations: Sequence[Relation], puzzles: Sequence[Iterable[Instance]]) -> np.ndarray | None:
    """Instances of N puzzles as an array (N, M, 1 + C + P) int16; None where every puzzle has the same."""
    clues = max((relation.clues for relation in relations), default=0)
    found = [[_row(relations, clues, instance) for instance in instances] for instances in puzzles]
    if not any(found) and all(relation.instances for relation in relations):
        return None
    width = max((len(row) for each in found for row in each), default=2 + clues)
    table = np.full((len(found), max(1, *map(len, found)), width), -1, np.int16)
    for number, each in enumerate(found):
        for place, row in enumerate(each):
            table[number, place, : len(row)] = row
    return table


def _row(relations: Sequence[Relation], clues: int, instance: Instance) -> list[int]:
    for number, relation in enumerate(relations):
        if (relation.places, relation.seen) != (instance.places, instance.seen):
            continue
        if relation.rule == instance.rule:
            given = instance.numbers
            if len(given) <= relation.clues and max(given, default=0) <= relation.highest:
                return [number, *given, *[-1] * (clues - len(given)), *instance.cells]
            largest = f"at most {relation.clues} numbers from 0 to {relation.highest}"
            raise DatasetError(f"{relation.name} {' '.join(map(str, given))}: the clues of this set are {largest}")
        if relation.rule == instance.folded.rule:
            return [number, *[-1] * clues, *instance.cells]
    known = ", ".join(relation.name for relation in relations) or "none"
    raise DatasetError(f"no relation of this set holds {named(instance.folded.rule)}; it has {known}")


def listed(structure: Structure, table: np.ndarray | None) -> Iterator[tuple[Relation, tuple[int, ...], list[int]]]:
    """(relation, clue numbers, cells) of every row (M, 1 + C + P) of one puzzle."""
    clues = structure.clues
    for number, *rest in [] if table is None else table[table[:, 0] >= 0].tolist():
        given = tuple(clue for clue in rest[:clues] if clue >= 0)
        yield structure.relations[number], given, [cell for cell in rest[clues:] if cell >= 0]


def holds(structure: Structure, table: np.ndarray | None, values: np.ndarray) -> np.ndarray:
    """Whether the values (N, S) of N answers obey every relation; table: rows (N, M, 1 + C + P)."""
    if table is None and (drawn := [each.name for each in structure.relations if not each.instances]):
        raise ValueError(f"{', '.join(drawn)}: the instances of each puzzle are needed; hand in `relations`")
    right, clues = np.ones(len(values), bool), structure.clues
    for number, relation in enumerate(structure.relations):
        for size in {len(cells) for cells in relation.instances}:
            cells = np.array([each for each in relation.instances if len(each) == size])  # (I, size)
            right &= evaluate(relation.rule, values[:, cells], np.zeros((len(cells), 0), int)).all(1)
        if table is None:
            continue
        puzzle, place = np.nonzero(table[..., 0] == number)
        own = table[puzzle, place]
        sizes = (own[:, 1 + clues :] >= 0).sum(1)
        for size in np.unique(sizes):
            chosen, owner = own[sizes == size], puzzle[sizes == size]
            cells = chosen[:, 1 + clues : 1 + clues + size]
            right[owner[~evaluate(relation.rule, values[owner[:, None], cells], chosen[:, 1 : 1 + clues])]] = False
    return right
