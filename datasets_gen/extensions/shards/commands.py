"""`--shard I/N` of every generator, and the command `merge`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial

from datasets_gen.arguments import OUTPUT_OPTIONS
from datasets_gen.commands import COMMANDS
from datasets_gen.extensions.shards import merge
from datasets_gen.extensions.shards.results import Shard, common, folder_of, kept, making
from datasets_gen.typed import quoted, typed


def add_shard(parser: argparse.ArgumentParser) -> None:
    """--shard, which changes what the generator does."""
    parser.add_argument(
        "--shard",
        type=shard_of,
        metavar="I/N",
        help="generate part I of N of the set, in DIR.shards, for example on one of N machines; `merge DIR` then makes "
        "the set, with the same bytes as without --shard",
    )
    parser.set_defaults(command=partial(run, parser.get_default("command")))


def shard_of(text: str) -> tuple[int, int]:
    """The (index, count) that i/n names, index from 0.

    Raises:
        ArgumentTypeError: no two numbers, or not 1 <= i <= n.
    """
    index, _, of = text.partition("/")
    if not (index.isdecimal() and of.isdecimal() and 1 <= int(index) <= int(of)):
        raise argparse.ArgumentTypeError(f"{text} is no shard; type 1/5 to 5/5 for five of them")
    return int(index) - 1, int(of)


def run(generate: Callable[[argparse.Namespace], None], options: argparse.Namespace) -> None:
    """Carry out a generator's command; with --shard, that part of it."""
    if options.shard is None:
        generate(options)
        return
    index, of = options.shard
    shard = Shard(folder_of(options.output_dir), common(options), index, of)
    merge_all = typed(f"python -m datasets_gen merge {quoted(options.output_dir)}")
    options.instead = f"{shard.folder}: shard {index + 1}/{of}; after all {of}: {merge_all}"
    options.interrupted = kept(options.output_dir)
    with making(shard):
        generate(options)


OUTPUT_OPTIONS.append(add_shard)
COMMANDS.append(merge.add_parser)
