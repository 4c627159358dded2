"""Gathers the relations of a set from the constraints of its puzzles, and checks them with numpy."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from datasets_gen.extensions.declared.expressions import Instance
from datasets_gen.extensions.declared.rules import DIFFERENT, evaluate, named
from datasets_gen.layout import DatasetError
from datasets_gen.structure import MOST, Relation, Structure

IN_GROUPS = "_in_groups"  # ends the name of a relation that networks read as groups


def gather(always: Sequence[Instance], drawn: Sequence[Sequence[Instance]]) -> tuple[Relation, ...]:
    """Return the relations of a set: `always` holds for every puzzle, each list of `drawn` for one.

    A clue number that is the same in all puzzles becomes a part of the rule.
    """
    every = [each for puzzle in drawn for each in puzzle]
    numbers: dict[Any, set[tuple[int, ...]]] = {}
    for each in every:
        numbers.setdefault(each.kind, set()).add(each.numbers)
    varies = [each if each.rule[-1] != "n" or len(numbers[each.kind]) > 1 else each.folded for each in every]
    shared: dict[Any, dict[tuple[int, ...], None]] = {}  # cells of the instances that all puzzles share
    for each in always:
        shared.setdefault(each.folded.kind, {})[each.cells] = None
    by_kind: dict[Any, list[Instance]] = {}
    for each in (*(one.folded for one in always), *varies):
        by_kind.setdefault(each.kind, []).append(each)
    relations: dict[str, Relation] = {}
    for kind, some in by_kind.items():
        rule, places, seen = some[0].rule, some[0].places, some[0].seen
        highest = max((number for each in some for number in each.numbers), default=0)
        if highest > MOST:
            raise DatasetError(f"a clue of {named(rule)} is {highest}; the maximum is {MOST}")
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
    """Turn all-different instances that cover the board, such as rows, into groups; returns (groups, relations).

    A group is a partition of the cells: networks compute it faster than instances, and have weights for each group.
    drawn: the instances of each puzzle; they are not changed. units: partitions with standard names, such as rows, by
    which puzzles share weights. The instances stay in a relation with `seen=False`, which the check of answers uses.
    """
    groups: dict[str, tuple[int, ...]] = {}
    kept: list[Relation] = []
    varies = any(each.rule == DIFFERENT for puzzle in drawn for each in puzzle)
    for relation in relations:
        if relation.rule != DIFFERENT or not relation.seen:
            kept.append(relation)
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
        if left or varies or not filling:
            kept.append(relation.model_copy(update={"instances": tuple(left)}))
        if filling:
            hidden = {"name": f"{relation.name}{IN_GROUPS}", "instances": tuple(filling), "seen": False}
            kept.append(relation.model_copy(update={**hidden, "clues": 0, "highest": 0}))
    return groups, tuple(kept)


def _same(one: Sequence[int], other: Sequence[int]) -> bool:
    """Return whether two partitions are equal up to the numbers of their groups."""
    return len({*one}) == len({*other}) == len({*zip(one, other, strict=True)})


def _filling(instances: Sequence[tuple[int, ...]], cells: int) -> list[tuple[int, ...]]:
    """Return the first disjoint instances, in order, if they cover all cells, else an empty list."""
    part: list[tuple[int, ...]] = []
    covered: set[int] = set()
    for each in instances:
        if covered.isdisjoint(each):
            part.append(each)
            covered |= set(each)
    return part if len(covered) == cells else []


def rows(relations: Sequence[Relation], puzzles: Sequence[Iterable[Instance]]) -> np.ndarray | None:
    """Return the instances of N puzzles as an array (N, M, 1 + C + P) int16, None if there are only shared ones."""
    clues = max((relation.clues for relation in relations), default=0)
    lines = [[_row(relations, clues, instance) for instance in instances] for instances in puzzles]
    if not any(lines) and all(relation.instances for relation in relations):
        return None
    width = max((len(row) for each in lines for row in each), default=2 + clues)
    table = np.full((len(lines), max(1, *map(len, lines)), width), -1, np.int16)
    for number, each in enumerate(lines):
        for place, row in enumerate(each):
            table[number, place, : len(row)] = row
    return table


def _row(relations: Sequence[Relation], clues: int, instance: Instance) -> list[int]:
    for number, relation in enumerate(relations):
        if (relation.places, relation.seen) != (instance.places, instance.seen):
            continue
        if relation.rule == instance.rule:
            numbers = instance.numbers
            if len(numbers) <= relation.clues and max(numbers, default=0) <= relation.highest:
                return [number, *numbers, *[-1] * (clues - len(numbers)), *instance.cells]
            largest = f"at most {relation.clues} numbers from 0 to {relation.highest}"
            raise DatasetError(f"{relation.name} {' '.join(map(str, numbers))}: the clues of this set are {largest}")
        if relation.rule == instance.folded.rule:
            return [number, *[-1] * clues, *instance.cells]
    known = ", ".join(relation.name for relation in relations) or "none"
    raise DatasetError(f"{named(instance.folded.rule)} is not a relation of this set; it has {known}")


def listed(structure: Structure, table: np.ndarray | None) -> Iterator[tuple[Relation, tuple[int, ...], list[int]]]:
    """Yield (relation, clue numbers, cells) of each row (M, 1 + C + P) of one puzzle."""
    clues = structure.clues
    for number, *rest in [] if table is None else table[table[:, 0] >= 0].tolist():
        numbers = tuple(clue for clue in rest[:clues] if clue >= 0)
        yield structure.relations[number], numbers, [cell for cell in rest[clues:] if cell >= 0]


def holds(structure: Structure, table: np.ndarray | None, values: np.ndarray) -> np.ndarray:
    """Return whether the values (N, S) of N answers satisfy every relation; table: rows (N, M, 1 + C + P)."""
    if table is None and (drawn := [each.name for each in structure.relations if not each.instances]):
        raise ValueError(f"{', '.join(drawn)}: the instances of each puzzle are needed; pass `relations`")
    right, clues = np.ones(len(values), bool), structure.clues
    for number, relation in enumerate(structure.relations):
        for size in {len(cells) for cells in relation.instances}:
            cells = np.array([each for each in relation.instances if len(each) == size])  # (I, size)
            right &= evaluate(relation.rule, values[:, cells], np.zeros((len(cells), 0), int)).all(1)
        if table is None:
            continue
        puzzle, place = np.nonzero(table[..., 0] == number)
        instances = table[puzzle, place]
        sizes = (instances[:, 1 + clues :] >= 0).sum(1)
        for size in np.unique(sizes):
            chosen, owner = instances[sizes == size], puzzle[sizes == size]
            cells = chosen[:, 1 + clues : 1 + clues + size]
            right[owner[~evaluate(relation.rule, values[owner[:, None], cells], chosen[:, 1 : 1 + clues])]] = False
    return right


def signature(question: np.ndarray, instances: Iterable[Any], renamed: Sequence[int]) -> int:
    """Return a hash of the clues in cells (S,) and other instances that does not change if these tokens are renamed."""
    order = dict(zip(dict.fromkeys(t for t in question.tolist() if t in renamed), renamed, strict=False))
    tokens = [order.get(token, token) for token in question.tolist()]
    text = repr((tokens, sorted(instances))).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


def answer_signature(board: np.ndarray, renamed: Sequence[int]) -> int:
    """Return a hash of an answer that does not change if these tokens are renamed or the board is turned.

    Rotations and reflections count for boards of several rows; the order of a single row, such as a graph's, is fixed.
    """
    turns = [np.rot90(side, k) for side in (board, board.T) for k in range(4)] if len(board) > 1 else [board]
    return min(signature(turn.ravel(), (), renamed) for turn in turns if turn.shape == board.shape)
