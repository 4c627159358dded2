"""`python -m datasets_gen addition`: random sums."""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

import numpy as np

from datasets_gen.arguments import add_command, add_output, check_counts, save
from datasets_gen.commands import COMMANDS
from datasets_gen.extensions.addition.puzzles import Addition
from datasets_gen.layout import SPLITS, DatasetError, Split
from datasets_gen.parallel import ORDER, Chunk, distinct, seeded

BATCH = 1024
PATIENCE = 25  # batches in a row without a new sum
NOISE = 1  # names the generator of wrong digits
PAGE = """Generate sums of whole numbers.

A sum is text that starts with its lowest digit. By default, sets are for causal models: a cell's label is the next
token, and only the answer and its end are scored.

  python -m datasets_gen addition --output-dir data/addition                   as STARS: 1750+4733= 3846
  python -m datasets_gen addition --digits 4 --test-digits 8 --output-dir data/addition-longer
  python -m datasets_gen addition --blank-answer --train 20000 --output-dir data/addition-recursive
  python -m datasets_gen addition --digits 3 --min-digits 1 --mixed-digits --output-dir data/addition-mixed
  python -m datasets_gen addition --digits 3 --noise 0.1 --output-dir data/addition-noisy
"""


def add_parser(commands: argparse._SubParsersAction) -> None:
    """Add the `addition` command."""
    parser = add_command(commands, "addition", run, PAGE)
    add_output(parser, train=100_000, test=5_000)
    add, flag = parser.add_argument, partial(parser.add_argument, action="store_true")
    add("--digits", type=int, default=4, help="digits of an operand in training (default 4)")
    add("--min-digits", type=int, metavar="N", help="fewest digits (default: --digits; 1 with --test-digits)")
    add("--test-digits", type=int, metavar="M", help="test on operands of up to M digits (default: --digits)")
    flag("--mixed-digits", help="draw the number of digits of each operand separately (default: the same for all)")
    add("--operands", type=int, default=2, help="numbers to add (default 2)")
    flag("--no-reverse", help="write the sum's highest digit first")
    flag("--zero-pad", help="write operands and sums with a fixed width")
    flag("--blank-answer", help="not causal: the answer's cells are blank, for models that fill cells in")
    noise = "replace a digit of a sum with probability P, in every split: the loss has a floor (default 0)"
    add("--noise", type=float, default=0.0, metavar="P", help=noise)


def run(options: argparse.Namespace) -> None:
    """Generate the sums that the options ask for, and save them."""
    counts = check_counts(options)
    test_digits = options.digits if options.test_digits is None else options.test_digits
    fewest = options.min_digits
    if fewest is None:
        fewest = options.digits if options.test_digits is None else 1
    puzzle = Addition(
        digits=max(options.digits, test_digits),
        operands=options.operands,
        reverse=not options.no_reverse,
        zero_pad=options.zero_pad,
        causal=not options.blank_answer,
        noise=options.noise,
    )
    if not 1 <= fewest <= min(options.digits, test_digits):
        raise DatasetError(
            f"--min-digits {fewest}: choose from 1 to {min(options.digits, test_digits)}, the digits asked for"
        )
    lengths = {name: (fewest, test_digits if name == "test" else options.digits) for name in SPLITS}
    splits = addition_splits(
        puzzle, counts, lengths, seed=options.seed, mixed=options.mixed_digits, processes=options.processes
    )
    digits = ("digits", "min_digits", "test_digits", "mixed_digits")
    names = (*digits, "operands", "no_reverse", "zero_pad", "blank_answer", "noise")
    made_by = {name: getattr(options, name) for name in names if getattr(options, name)}
    save(options, puzzle, splits, made_by, {"rating": puzzle.rating_name})


def addition_splits(
    puzzle: Addition,
    counts: dict[str, int],
    lengths: dict[str, tuple[int, int]],
    *,
    seed: int = 0,
    mixed: bool = False,
    processes: int | None = None,
) -> dict[str, Split]:
    """Return splits of `counts` sums; no two of them add the same numbers.

    lengths: for each split, the minimum and maximum number of digits of an operand. The number of digits is uniform
    between them and the same for all operands of a sum, which are then uniform among the numbers with so many digits.
    The rating is the number of digits.
    mixed: the number of digits is drawn for each operand; the rating is that of the longest.
    """

    def hopeless(_: Any, barren: int, sums: int) -> bool:
        if barren < PATIENCE:
            return False
        barren_sums = f"{PATIENCE * BATCH:,} random sums in a row equal earlier ones, after {sums:,} different ones"
        raise DatasetError(f"{barren_sums}: request fewer sums or more digits")

    kind = (puzzle.operands, lengths, mixed)
    drawn: dict[str, list[Sum]] = distinct(random_chunk, kind, counts, seed, processes, "sums", hopeless)
    splits = {}
    for name, chosen in drawn.items():
        examples = zip(*(puzzle.example(operands) for operands, _ in chosen), strict=True)
        inputs, labels = (np.array(rows) for rows in examples)
        if puzzle.noise:
            puzzle.misprinted(inputs, labels, seeded(seed, ORDER.index(name), NOISE).random(labels.shape))
        splits[name] = Split.of_puzzles(inputs, labels, np.array([longest for _, longest in chosen], np.int32))
    return splits


Sum = tuple[list[int], int]  # the numbers, and the digits of the longest


def random_chunk(chunk: Chunk) -> list[tuple[tuple[int, ...], Sum]]:
    """Draw `BATCH` random sums, keyed by their numbers in ascending order; all chunks continue one random stream.

    chunk.kind: operands, lengths and mixed of `addition_splits`.
    """
    (operands, digits, mixed), rng = chunk.kind, seeded(chunk.seed, chunk.split)
    (fewest, most), lengths = digits[ORDER[chunk.split]], operands if mixed else 1
    assert isinstance(rng.bit_generator, np.random.PCG64)
    rng.bit_generator.advance(chunk.number * BATCH * (lengths + operands * most))  # past the chunks before
    sizes = fewest + (rng.random((BATCH, lengths)) * (most - fewest + 1)).astype(int)
    draws = rng.random((BATCH, operands, most))
    batch = []
    for lengths, draw in zip(np.broadcast_to(sizes, (BATCH, operands)).tolist(), draws, strict=True):
        numbers = [_number(row[:size]) for size, row in zip(lengths, draw, strict=True)]
        batch.append((tuple(sorted(numbers)), (numbers, max(lengths))))
    return batch


def _number(draws: np.ndarray) -> int:
    """Return a number of len(draws) digits; the first digit is not 0 unless it is the only one."""
    lowest = 1 if len(draws) > 1 else 0
    first = lowest + int(draws[0] * (10 - lowest))
    return int("".join(map(str, [first, *(draws[1:] * 10).astype(int)])))


COMMANDS.append(add_parser)
