"""`python -m datasets_gen addition`."""

from __future__ import annotations

import argparse

from datasets_gen.addition import Addition
from datasets_gen.addition.generate import addition_splits
from datasets_gen.arguments import add_output, check_counts, save
from datasets_gen.layout import SPLITS, DatasetError

EXAMPLES = """\
examples:
  python -m datasets_gen addition --output-dir data/addition                   as STARS: 1750+4733= 3846
  python -m datasets_gen addition --digits 4 --test-digits 8 --output-dir data/addition-longer
  python -m datasets_gen addition --blank-answer --train 20000 --output-dir data/addition-recursive
  python -m datasets_gen addition --digits 3 --min-digits 1 --mixed-digits --output-dir data/addition-mixed
  python -m datasets_gen addition --digits 3 --noise 0.1 --output-dir data/addition-noisy
"""


def add_parser(commands: argparse._SubParsersAction) -> None:
    """Add the `addition` command."""
    parser = commands.add_parser(
        "addition",
        help="generate sums of whole numbers",
        description="Sums as text with the lowest digit of the answer first. By default for causal models: a "
        "cell's label is the token after it, and only the answer and its end are scored.",
        epilog=EXAMPLES,
    )
    add_output(parser, train=100_000, test=5_000)
    parser.add_argument("--digits", type=int, default=4, help="digits of an operand in training (default 4)")
    parser.add_argument(
        "--min-digits", type=int, metavar="N", help="fewest digits (default: --digits; 1 with --test-digits)"
    )
    parser.add_argument(
        "--test-digits", type=int, metavar="M", help="test on operands of up to M digits (default: --digits)"
    )
    parser.add_argument(
        "--mixed-digits",
        action="store_true",
        help="every operand has a number of digits of its own, from --min-digits up (default: all have as many)",
    )
    parser.add_argument("--operands", type=int, default=2, help="numbers to add (default 2)")
    parser.add_argument("--no-reverse", action="store_true", help="write the sum's highest digit first")
    parser.add_argument("--zero-pad", action="store_true", help="write operands and sums with a fixed width")
    parser.add_argument(
        "--blank-answer",
        action="store_true",
        help="not causal: the answer's cells are blank, for models that fill cells in",
    )
    parser.add_argument(
        "--noise",
        type=float,
        default=0.0,
        metavar="P",
        help="each digit of a sum is another one with probability P, in every split: the loss has a floor (default 0)",
    )
    parser.set_defaults(command=run)


def run(options: argparse.Namespace) -> None:
    """Generate and save."""
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
    splits = addition_splits(puzzle, counts, lengths, seed=options.seed, mixed=options.mixed_digits)
    digits = ("digits", "min_digits", "test_digits", "mixed_digits")
    names = (*digits, "operands", "no_reverse", "zero_pad", "blank_answer", "noise")
    made_by = {name: getattr(options, name) for name in names if getattr(options, name)}
    save(options, puzzle, splits, "addition", made_by, {"rating": puzzle.rating_name})
