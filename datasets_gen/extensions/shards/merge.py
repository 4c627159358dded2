"""`python -m datasets_gen merge`: the set of shards."""

from __future__ import annotations

import argparse
from pathlib import Path

from datasets_gen.arguments import add_command, add_processes
from datasets_gen.commands import build_parser
from datasets_gen.extensions.shards.results import Shard, common, folder_of, kept, making
from datasets_gen.layout import DatasetError, read_json
from datasets_gen.typed import quoted

EXAMPLE = """\
example, the first three on a machine each:
  python -m datasets_gen sudoku --mix extreme --output-dir data/extreme --shard 1/3
  python -m datasets_gen sudoku --mix extreme --output-dir data/extreme --shard 2/3
  python -m datasets_gen sudoku --mix extreme --output-dir data/extreme --shard 3/3
  python -m datasets_gen merge data/extreme
"""


def add_parser(commands: argparse._SubParsersAction) -> None:
    """Add the `merge` command."""
    parser = add_command(
        commands,
        "merge",
        run,
        "merge the parts that --shard made into a set",
        "Makes the set DIR from its shards in DIR.shards. The set has the same bytes as a set that one machine makes "
        "without --shard. The command computes the results that are missing, for example those of a lost shard, and "
        "stores them in DIR.shards. If you run the command of a shard again, it continues from its last result. The "
        "shards are pickles: merge only shards that you made.",
        EXAMPLE,
    )
    parser.add_argument("directory", type=Path, metavar="DIR", help="the --output-dir of the shards")
    add_processes(parser)


def run(options: argparse.Namespace) -> None:
    """Make the set as the command of its shards says.

    Raises:
        DatasetError: there are no shards, or those of another version, or the set cannot be made.
    """
    folder = folder_of(options.directory)
    options.interrupted = kept(options.directory)
    if not (folder / "options.json").is_file():
        made = f"--output-dir {quoted(options.directory)} --shard 1/2"
        raise DatasetError(f"no shards at {folder}; make them with {made}")
    stated = read_json(folder / "options.json")
    if not isinstance(stated, dict) or not isinstance(name := stated.get("generator"), str):
        raise DatasetError(f"{folder / 'options.json'} names no generator; remove {folder}, and make the shards again")
    words = [name, "--output-dir", str(options.directory)]
    again = build_parser(words).parse_args(words)
    vars(again).update({key: value for key, value in stated.items() if key in vars(again)}, processes=options.processes)
    with making(Shard(folder, common(again))):
        again.command(again)
    print(f"{folder} can be removed")
