"""`python -m datasets_gen NAME`: generates puzzles of a page or a file."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from datasets_gen.arguments import add_command, add_output, check_counts, save, whole_number
from datasets_gen.extensions.declared import shapes
from datasets_gen.extensions.declared.expressions import Instance
from datasets_gen.extensions.declared.linear import hidden_count, linear_form
from datasets_gen.extensions.declared.pages import page_named
from datasets_gen.extensions.declared.puzzle import ABSENT, BLANK, FIRST, Declared, Drawn
from datasets_gen.extensions.declared.relations import gather, partitioned, rows, signature
from datasets_gen.extensions.declared.rules import evaluate, named, renamable
from datasets_gen.extensions.declared.solver import LIGHT, NoPuzzle, Solver, TooHard
from datasets_gen.extensions.declared.user_code import file_of, note, user_code
from datasets_gen.layout import DatasetError, Split
from datasets_gen.parallel import ORDER, Chunk, distinct, seeded, share
from datasets_gen.structure import units

CHUNK = 4  # random puzzles in one task of a process
PATIENCE = 100, 20  # stop after max(100, 20 times the mean draws of a new puzzle) draws without a new one
EARLY = 40  # draws after which a low rate is printed
SAMPLE = 100  # puzzles whose hidden booleans are counted
ANSWERS = 8  # maximum for a training puzzle that may have several; an epoch draws one of them


def add_parser(commands: argparse._SubParsersAction, name: str) -> None:
    """Add the command of one puzzle."""
    page = page_named(name)
    summary = (page.__doc__ or name).split("\n")[0].rstrip(".")
    solutions = "exactly one solution, by CP-SAT" if page.unique else "one or more solutions"
    parser = add_command(
        commands,
        name,
        partial(run, name),
        summary,
        f"Every puzzle has {solutions}. All puzzles of a set, within and across its splits, are different,\n"
        "even up to a renaming of the values if all constraints allow it.\n"
        "The same options, seed and versions of OR-Tools and numpy give the same bytes.",
        f"example:\n  python -m datasets_gen {name} --train 1000 --test 500 --output-dir data/{Path(name).stem}",
    )
    add_output(parser, train=1000, test=1000)
    if page.unique:
        parser.add_argument(
            "--clues",
            type=whole_number,
            metavar="N",
            help=f"keep at least N of the removable clues (default {page.fewest}; 0: no clue is superfluous)",
        )


def run(name: str, options: argparse.Namespace) -> None:
    """Generate a set and save it."""
    counts = check_counts(options)
    clues = getattr(options, "clues", None)
    puzzle, splits = declared_splits(name, counts, clues=clues, seed=options.seed, processes=options.processes)
    rated = {name: split.ratings for name, split in splits.items() if split.ratings is not None}
    facts = {
        "rating": "branches of CP-SAT: one worker, no presolve",
        "mean_rating": {name: round(float(ratings.mean()), 2) for name, ratings in rated.items()},
    }
    save(options, puzzle, splits, {} if clues is None else {"clues": clues}, facts, command=name)
    for line in puzzle.notes({name: split.labels for name, split in splits.items()}):
        print(f"note: {line}", file=sys.stderr)


class Made(NamedTuple):
    """One finished puzzle."""

    question: np.ndarray  # (S,) tokens
    answers: np.ndarray  # (n, S), different
    instances: list[Instance]  # of this puzzle, without those that all puzzles share
    rating: int


def declared_chunk(chunk: Chunk) -> list[tuple[int | None, Any]]:
    """Return (signature, puzzle) of `CHUNK` random puzzles; (None, reason) for a draw without one.

    chunk.kind: name of the page, and number of clues or None.
    """
    (page, clues), rng = chunk.kind, chunk.rng
    puzzle = page_named(page)()
    puzzle.fewest = puzzle.fewest if clues is None else clues
    draws: list[tuple[int | None, Any]] = []
    for _ in range(CHUNK):
        try:
            made = make(puzzle, rng, ANSWERS if ORDER[chunk.split] == "train" else 1)
        except NoPuzzle as reason:
            draws.append((None, str(reason)))
        else:
            clues_of = [(each.kind[0], each.numbers, each.ordered) for each in made.instances]
            renamed = renames(puzzle, (each.rule for each in (*puzzle.always_instances, *made.instances)))
            draws.append((signature(made.question, clues_of, puzzle.open_tokens if renamed else ()), made))
    return draws


def renames(puzzle: Declared, rules: Iterable[Any]) -> bool:
    """Return whether any two values may be exchanged; DatasetError if the file says so and a rule contradicts it."""
    differs = next((named(rule) for rule in rules if not renamable(rule)), "black cells" if puzzle.black else None)
    if differs and puzzle.interchangeable:
        raise DatasetError(f"{puzzle.name}: interchangeable = True, but {differs} distinguishes values; leave it out")
    return differs is None and puzzle.interchangeable is not False and len(puzzle.open_values) > 1


def make(puzzle: Declared, rng: np.random.Generator, answers: int = 1) -> Made:
    """Generate a random puzzle.

    Raises NoPuzzle if CP-SAT finds no solution, or finds several although the puzzle must have one. If it may have
    several, `answers` solutions are drawn and the different ones kept, so that labels follow their distribution.
    """
    with user_code(file_of(type(puzzle))):
        drawn = puzzle.puzzle(puzzle.cells, rng, partial(puzzle.fill, rng))
    if not isinstance(drawn, Drawn):
        raise DatasetError(f"{puzzle.name}: `puzzle` returns {type(drawn).__name__}; return Drawn(answer, …)")
    for part, cells in drawn._asdict().items():
        needed = part == "answer" or (part in ("absent", "black") and cells is not None)
        if needed and np.shape(cells) not in (puzzle.grid, (puzzle.seq_len,)):
            raise DatasetError(
                f"{puzzle.name}: `{part}` of Drawn has shape {np.shape(cells)}; the grid is {puzzle.grid}"
            )
    answer = np.asarray(drawn.answer, np.int64).ravel()
    absent, black = (
        np.zeros(answer.shape, bool) if cells is None else np.asarray(cells, bool).ravel()
        for cells in (drawn.absent, drawn.black)
    )
    answer = np.where(absent, puzzle.lowest, answer)
    givens, instances = puzzle.read(drawn.shown)
    clues = [puzzle.read(clue) for clue in drawn.optional]
    typed_cells = {*(range(puzzle.seq_len) if "typed" in own_text(type(puzzle)) else puzzle.shown_cells)}
    for clue in [({}, puzzle.always_instances), (givens, instances), *clues]:
        if violated := _violated(puzzle, answer, clue):
            lowest = f" (absent cells have the value {puzzle.lowest})" if absent.any() else ""
            raise DatasetError(f"{puzzle.name}: the answer violates {violated}{lowest}")
        if gone := [cell for cell in clue[0] if absent[cell]]:
            raise DatasetError(f"{puzzle.name}: {puzzle.place(gone[0])} is absent and has a clue; leave one out")
        if lost := [cell for cell in clue[0] if cell not in typed_cells]:
            mend = "offer clues in shown cells only, or enlarge `board`"
            raise DatasetError(f"{puzzle.name}: cell {lost[0]} has a clue, and `board` hides the cell; {mend}")
    if black.any() and not (puzzle.black and {*np.flatnonzero(black).tolist()} <= givens.keys()):
        raise DatasetError(f"{puzzle.name}: black cells need clues in `shown`, and the class needs `black`")
    optional = [index for index, (_, others) in enumerate(clues) for _ in others]  # one for each part of a clue
    asked = [each for _, others in clues for each in others]
    solver = puzzle.solver_of(givens, [*puzzle.always_instances, *instances], absent, asked)

    def show(kept: Iterable[int]) -> None:
        shown = givens | {cell: value for index in kept for cell, value in clues[index][0].items()}
        solver.restrict(puzzle.domains(shown, absent), [index in kept for index in optional])

    kept: Iterable[int] = range(len(clues))
    if puzzle.unique:
        solver.exclude(answer, [c for c in range(len(answer)) if not absent[c] and c not in givens])
        kept = _needed(puzzle, clues, show, solver, rng)
        solver.include()
    for index in sorted(kept):
        givens = givens | clues[index][0]
        instances = instances + clues[index][1]
    for cell, values in enumerate(puzzle.domains(givens, absent)):
        if answer[cell] not in values:
            wrong = f"the answer has {answer[cell]} at {puzzle.place(cell)}, where a cell may have {values}"
            raise DatasetError(f"{puzzle.name}: {wrong}; a value of `shown_only` needs a clue in `shown`")
    show(kept)
    solver.answer(**LIGHT)
    branches, solutions = solver.branches, {answer.tobytes(): answer}
    others = rng.spawn(1)[0]  # so that the next puzzle does not depend on the number of answers
    with contextlib.suppress(TooHard):
        for _ in range(0 if puzzle.unique else answers - 1):
            other = solver.random(others)
            assert other is not None, "the first answer is one"
            other = np.where(absent, answer, other)
            solutions[other.tobytes()] = other
    shown = np.stack([*solutions.values()]) + len(puzzle.values) * black
    tokens = np.where(absent, ABSENT, shown - puzzle.lowest + FIRST).astype(np.uint8)
    question = np.where(absent | np.isin(np.arange(len(answer)), list(givens)), tokens[0], BLANK)
    return Made(question.astype(np.uint8), tokens, instances, branches)


Clue = tuple[dict[int, int], list[Instance]]  # values of cells, and other constraints


def _violated(puzzle: Declared, answer: np.ndarray, clue: Clue) -> str | None:
    """Describe what an answer (S,) violates of a clue; None: nothing."""
    for cell, value in clue[0].items():
        if answer[cell] != puzzle.value(value):
            return f"the clue {value} of cell {cell}"
    for each in clue[1]:
        if not evaluate(each.rule, answer[list(each.cells)], np.array(each.numbers, np.int64)):
            return f"{named(each.folded.rule)} of cells {each.cells}"
    return None


def _needed(
    puzzle: Declared, clues: list[Clue], show: Callable[[Iterable[int]], None], solver: Solver, rng: np.random.Generator
) -> set[int]:
    """Return indices of clues that leave one solution; raises NoPuzzle if all clues together leave several.

    Every other solution that CP-SAT finds violates a clue that is not kept yet. One of these is kept, and a quarter as
    many others as are kept already, at random, until there is no other solution. Then superfluous clues are removed in
    random order, down to `puzzle.fewest`.
    """

    def other(kept: set[int]) -> np.ndarray | None:
        show(kept)
        return solver.answer(**LIGHT)

    order = rng.random(len(clues)).argsort().tolist()
    kept = set(order[: puzzle.fewest])
    while True:
        rest = [index for index in order if index not in kept]
        try:
            solution = other(kept)
        except TooHard:
            if not rest:
                raise
            violated = rest
        else:
            if solution is None:
                break
            violated = [index for index in rest if _violated(puzzle, solution, clues[index])]
        if not violated:
            raise NoPuzzle("have several solutions even with every clue: show more, or declare unique = False")
        kept.add(violated[int(rng.random() * len(violated))])
        kept.update(rest[: len(kept) // 4])
    for index in order:
        if index in kept and len(kept) > puzzle.fewest:
            with contextlib.suppress(TooHard):
                if other(kept - {index}) is None:
                    kept.remove(index)
    return kept


def shared_out(puzzles: list[Made], counts: dict[str, int]) -> dict[str, list[Made]]:
    """Divide fewer puzzles than requested among the splits, in proportion; only training keeps several answers."""
    ends = np.cumsum([0, *(counts.get(split, 0) for split in ORDER)])
    ends = -(-ends * len(puzzles) // ends[-1])  # rounded up
    made = {split: puzzles[start:end] for split, start, end in zip(ORDER, ends, ends[1:], strict=False) if start < end}
    return {
        split: some if split == "train" else [each._replace(answers=each.answers[:1]) for each in some]
        for split, some in made.items()
    }


def own_text(page: type[Declared]) -> list[str]:
    """Return which of `draw` and `typed` a user's file defines."""
    return [name for name in ("draw", "typed") if not getattr(page, name).__module__.startswith("datasets_gen.")]


def refuse_lost(puzzle: Declared, made: Made) -> None:
    """Raise DatasetError if the text of a puzzle, as `draw` returns it, states another puzzle for `typed`.

    A user's `draw` may leave out on purpose what the other constraints imply: if the answer is still the only one, a
    note is printed. A user's `draw` without a `typed` is not checked.
    """
    page = type(puzzle)
    own = own_text(page)
    if own == ["draw"]:
        return
    relations = gather(puzzle.always_instances, [made.instances])
    puzzle = puzzle.of(puzzle.structure.model_copy(update={"relations": relations}))
    table = rows(relations, [made.instances])
    asked = None if table is None else table[0]
    try:
        with user_code(file_of(page)):
            tokens, read = puzzle.typed(puzzle.draw(made.question, None, asked))
    except DatasetError as error:
        raise DatasetError(f"{puzzle.name}: `typed` refuses the text that `draw` returns: {error}") from error
    cells = np.flatnonzero(tokens != made.question).tolist()
    one, other = ({shapes.line_of(r.name, *rest) for r, *rest in puzzle.stated(each)} for each in (asked, read))
    clues = [f"{puzzle.characters[made.question[cell]]} at cell {cell}" for cell in cells]
    changed = [*clues, *sorted(one ^ other)]
    if not changed:
        return
    told = f"{puzzle.name}: the text of a puzzle loses or changes `{changed[0]}`"
    if own and puzzle.unique and puzzle.fault(tokens, made.answers[0], read) is None:
        note(f"{told}; the answer stays the only one")
        return
    mend = f"{'derive the class from Declared, or ' * bool(puzzle.form)}define `draw` and `typed`"
    raise DatasetError(f"{told}, so `solve` would read another puzzle; {'correct `typed`' if own else mend}")


def refuse_moves(puzzle: Declared, split: Split) -> None:
    """Raise DatasetError if `moves` does not fit the puzzle, or turns an answer into one that breaks the rules."""
    moves, rng = puzzle.moves, seeded(0)
    assert moves is not None
    first, last = moves.relabel
    square = puzzle.grid[0] == puzzle.grid[1] or not (moves.turns or moves.transpose)
    fits = (moves.bands * moves.rows_per_band, moves.stacks * moves.columns_per_stack) == puzzle.grid and square
    if not fits or (first < last and not {first, last} <= {*puzzle.open_tokens}):
        raise DatasetError(f"{puzzle.name}: {moves} does not fit a grid of {puzzle.grid}; correct `moves`")
    if split.relations is not None:
        raise DatasetError(f"{puzzle.name}: `moves` is for puzzles whose only clues are values; leave it out")
    boards = np.stack([split.inputs[:SAMPLE], split.labels[:SAMPLE]], 1).reshape(-1, 2, *puzzle.grid)
    moved = np.array([moves.moved(board, rng) for board in boards]).reshape(len(boards), 2, -1)
    if not puzzle.solved(moved[:, 0], moved[:, 1]).all():
        raise DatasetError(f"{puzzle.name}: an answer after `moves` breaks the rules; correct `moves` or leave it out")


def _cost(puzzle: Declared, tables: list[np.ndarray | None]) -> str | None:
    """Return a note if networks need more hidden booleans than the cells have values.

    A network reserves memory for the largest number of instances of each relation and for the relation's largest form.
    """
    values, most = tuple(puzzle.open_values), Counter[str]()
    of_cells, hidden, sums, longest = puzzle.seq_len * len(values), dict[str, int](), dict[str, int](), 1
    for table in tables:
        there = Counter[str]()
        for relation, numbers, cells in puzzle.constraints_of(table):
            if relation.seen:
                form, name = linear_form(relation.rule, len(cells), numbers, values), relation.name
                there[name] += 1
                hidden[name] = max(hidden.get(name, 0), hidden_count(form, len(cells)))
                sums[name] = max(sums.get(name, 0), len(form))
                longest = max([longest, *(len(each.places) for each in form)])
        most |= there  # the larger number of each
    room = Counter({name: count * hidden[name] for name, count in most.items()})
    if room.total() <= of_cells:
        return None
    terms = longest * sum(count * sums[name] for name, count in most.items())
    memory = f" and needs at least {24 * terms / 1e9:.1f} GB for each puzzle of a batch" if terms > 1e7 else ""
    count, name = room.total(), room.most_common(1)[0][0]
    return (
        f"networks need {count:,} hidden booleans for the constraints of a puzzle, most of them for {name}. Its cells "
        f"need {of_cells:,}. So training takes about {1 + count / of_cells:.0f} times as long{memory}; "
        "docs/own-puzzle.md names cheaper forms"
    )


def declared_splits(
    name: str,
    counts: dict[str, int],
    *,
    clues: int | None = None,
    seed: int = 0,
    processes: int | None = None,
    tell: bool = True,
) -> tuple[Declared, dict[str, Split]]:
    """Return the puzzle with the relations of its set, and splits of `counts` puzzles each.

    tell: print early how many draws gave a puzzle, if these are few, and whether the rules cost networks much, and
    raise DatasetError if the text of the first puzzle states another one.
    """
    puzzle = page_named(name)()

    failed, draws, checked = Counter[str](), 0, not tell

    def hopeless(made: Any, barren: int, puzzles: int) -> bool:
        nonlocal draws, checked
        if not checked and puzzles:
            refuse_lost(puzzle, next(each for key, each in made if key is not None))
            checked = True
        failed.update(reason for key, reason in made if key is None)
        early, draws = draws < EARLY, draws + len(made)
        causes = [f"{count} {reason}" for reason, count in failed.most_common()]
        if again := draws - puzzles - failed.total():
            causes.append(f"{again} equal earlier puzzles: request fewer")
        rate = f"{name}: {puzzles} of {draws} draws gave a new puzzle; {', '.join(causes)}"
        if tell and early and draws >= EARLY and 2 * puzzles < draws:
            print(f"note: {rate}", file=sys.stderr)
        until = draws - barren * CHUNK  # the last new puzzle
        if draws - until < max(PATIENCE[0], PATIENCE[1] * until / max(puzzles, 1)):
            return False
        if not puzzles:
            raise DatasetError(rate)
        print(f"warning: {rate}; the set contains only these puzzles", file=sys.stderr)
        return True

    made: dict[str, list[Made]] = distinct(declared_chunk, (name, clues), counts, seed, processes, name, hopeless)
    if sum(map(len, made.values())) < sum(map(share, counts.values())):
        made = shared_out([each for some in made.values() for each in some], counts)
    drawn = [each.instances for split in made.values() for each in split]
    of_grid = units(puzzle.grid, puzzle.box_shape)
    groups, relations = partitioned(gather(puzzle.always_instances, drawn), drawn, puzzle.seq_len, of_grid)
    if unread := [named(each.rule) for each in relations if not each.seen and not each.instances]:
        names = dict.fromkeys(name.rstrip("0123456789").rstrip("_") for name in unread)  # without their clue numbers
        print(f"note: networks do not see the clues {', '.join(names)}, because of unseen(…)", file=sys.stderr)
    puzzle.interchangeable = renames(puzzle, (each.rule for each in relations))
    puzzle = puzzle.of(puzzle.structure.model_copy(update={"groups": groups, "relations": relations}))
    table = rows(relations, drawn)
    if tell and (costly := _cost(puzzle, [None] if table is None else list(table[:SAMPLE]))):
        print(f"note: {costly}", file=sys.stderr)
    splits, start = dict[str, Split](), 0
    for split, some in made.items():
        sizes = [len(each.answers) for each in some]
        splits[split] = Split(
            np.array([each.question for each in some]).repeat(sizes, axis=0),
            np.concatenate([each.answers for each in some]),
            puzzle_identifiers=np.zeros(len(some), np.int64),
            puzzle_indices=np.cumsum([0, *sizes]),
            group_indices=np.arange(len(some) + 1),
            ratings=np.array([each.rating for each in some], np.int32),
            relations=None if table is None else table[start : start + len(some)].repeat(sizes, axis=0),
        )
        start += len(some)
    if puzzle.moves is not None:
        refuse_moves(puzzle, next(iter(splits.values())))
    return puzzle, splits
