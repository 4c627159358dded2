"""Random sums."""

from __future__ import annotations

from math import comb

import numpy as np

from datasets_gen.addition import Addition
from datasets_gen.layout import DatasetError, Split
from datasets_gen.progress import progress
from datasets_gen.streams import STREAMS, stream

BATCH = 1024
NOISE = 1  # names the stream of wrong digits


def addition_splits(
    puzzle: Addition,
    counts: dict[str, int],
    lengths: dict[str, tuple[int, int]],
    *,
    seed: int = 0,
    mixed: bool = False,
) -> dict[str, Split]:
    """Splits of `counts` sums; no two in all of them add the same numbers.

    lengths: by split, the fewest and most digits of an operand; the number of digits is uniform between them and
    shared by the operands of a sum, each operand then uniform among the numbers of so many digits. Ratings are
    the number of digits.
    mixed: every operand has a number of digits of its own; ratings are those of the longest.

    Raises:
        DatasetError: more sums than there are.
    """
    seen: set[tuple[int, ...]] = set()
    splits = {}
    for name in (name for name in STREAMS if counts.get(name)):
        fewest, most = lengths[name]
        taken = sum(all(fewest <= len(str(number)) <= most for number in key) for key in seen)
        _check_enough(puzzle, counts[name] + taken, fewest, most, mixed)
        rng = stream(seed, STREAMS.index(name))
        chosen: list[list[int]] = []
        digits: list[int] = []
        with progress(counts[name], f"{name}: sums of {fewest}-{most} digits", "sum") as bar:
            while len(chosen) < counts[name]:
                before = len(chosen)
                sizes = fewest + (rng.random((BATCH, puzzle.operands if mixed else 1)) * (most - fewest + 1)).astype(
                    int
                )
                draws = rng.random((BATCH, puzzle.operands, most))
                sizes = np.broadcast_to(sizes, (BATCH, puzzle.operands))
                for own, draw in zip(sizes.tolist(), draws, strict=True):
                    operands = [_number(row[:size]) for size, row in zip(own, draw, strict=True)]
                    key = tuple(sorted(operands))
                    if key not in seen and len(chosen) < counts[name]:
                        seen.add(key)
                        chosen.append(operands)
                        digits.append(max(own))
                bar.update(len(chosen) - before)
        examples = zip(*(puzzle.example(operands) for operands in chosen), strict=True)
        inputs, labels = (np.array(rows) for rows in examples)
        if puzzle.noise:
            puzzle.misprinted(inputs, labels, stream(seed, STREAMS.index(name), NOISE).random(labels.shape))
        splits[name] = Split.of_puzzles(inputs, labels, np.array(digits, np.int32))
    return splits


def _number(draws: np.ndarray) -> int:
    """A number of len(draws) digits, the first not 0 unless it is the only one."""
    lowest = 1 if len(draws) > 1 else 0
    first = lowest + int(draws[0] * (10 - lowest))
    return int("".join(map(str, [first, *(draws[1:] * 10).astype(int)])))


def _check_enough(puzzle: Addition, wanted: int, fewest: int, most: int, mixed: bool) -> None:
    """Half of the sums that exist may be asked for: beyond, drawing at random would hardly end."""
    numbers = [10 if size == 1 else 9 * 10 ** (size - 1) for size in range(fewest, most + 1)]
    numbers = [sum(numbers)] if mixed else numbers
    exist = sum(comb(count + puzzle.operands - 1, puzzle.operands) for count in numbers)
    if wanted > exist / 2:
        raise DatasetError(
            f"{wanted:,} sums are wanted of {exist:,} that exist with {fewest}-{most} digits (the order of "
            f"operands aside); ask for at most half of them, or for more digits"
        )
