"""`--shard I/N` of every generator, and the command `merge`."""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from datasets_gen.arguments import OUTPUT_OPTIONS, add_command, add_processes
from datasets_gen.commands import COMMANDS, build_parser
from datasets_gen.extensions.shards.results import Shard, making
from datasets_gen.layout import DatasetError, read_json
from datasets_gen.typed import quoted, typed
from datasets_gen.version import __version__

MAY_DIFFER = {"command", "directory", "instead", "output_dir", "processes", "shard"}
PAGE = """Merge the parts that --shard made into a set.

Makes the set DIR from its shards in DIR.shards. The set has the same bytes as a set that one machine makes without
--shard. The command computes the results that are missing, for example those of a lost shard, and stores them in
DIR.shards. If you run the command of a shard again, it continues from its last result. The shards are pickles: merge
only shards that you made. Run the first two lines of this example on different machines:

  python -m datasets_gen sudoku --mix extreme --output-dir data/extreme --shard 1/2
  python -m datasets_gen sudoku --mix extreme --output-dir data/extreme --shard 2/2
  python -m datasets_gen merge data/extreme
"""


def add_shard(parser: argparse.ArgumentParser) -> None:
    """Add the option --shard, by which a generator makes only a part of the set."""
    parser.add_argument(
        "--shard",
        type=shard_of,
        metavar="I/N",
        help="generate part I of N of the set in DIR.shards, for example on one of N machines; `merge DIR` then makes "
        "the set, with the same bytes as without --shard",
    )
    parser.set_defaults(command=partial(run, parser.get_default("command")))


def shard_of(text: str) -> tuple[int, int]:
    """Return the (index, count) that i/n names, index from 0."""
    index, _, of = text.partition("/")
    if not (index.isdecimal() and of.isdecimal() and 1 <= int(index) <= int(of)):
        raise argparse.ArgumentTypeError(f"{text} is not a shard; type 1/5 to 5/5 for five of them")
    return int(index) - 1, int(of)


def run(generate: Callable[[argparse.Namespace], None], options: argparse.Namespace) -> None:
    """Run a generator's command; with --shard, only the part that it names."""
    if options.shard is None:
        generate(options)
        return
    index, of = options.shard
    shard = Shard(folder_of(options.output_dir), common(options), index, of)
    merge_all = typed(f"python -m datasets_gen merge {quoted(options.output_dir)}")
    options.instead = f"{shard.folder}: shard {index + 1}/{of}; after all {of}: {merge_all}"
    with making(shard):
        generate(options)


def add_merge(commands: argparse._SubParsersAction) -> None:
    """Add the `merge` command."""
    parser = add_command(commands, "merge", merge, PAGE)
    parser.add_argument("directory", type=Path, metavar="DIR", help="the --output-dir of the shards")
    add_processes(parser)


def merge(options: argparse.Namespace) -> None:
    """Make the set that the command of its shards describes."""
    folder = folder_of(options.directory)
    if not (folder / "options.json").is_file():
        made = f"--output-dir {quoted(options.directory)} --shard 1/2"
        raise DatasetError(f"no shards at {folder}; make them with {made}")
    stated = read_json(folder / "options.json")
    if not isinstance(stated, dict) or not isinstance(stated.get("generator"), str):
        raise DatasetError(f"{folder / 'options.json'} is damaged; make the shards again")
    words = [stated["generator"], "--output-dir", str(options.directory)]
    again = build_parser(words).parse_args(words)
    vars(again).update({key: value for key, value in stated.items() if key in vars(again)}, processes=options.processes)
    with making(Shard(folder, common(again))):
        again.command(again)
    print(f"{folder} can be removed")


def folder_of(directory: Path) -> Path:
    """Return the folder with the shards of a set."""
    named = directory.resolve() if directory.name in ("", "..") else directory
    return named.with_name(f"{named.name}.shards")


def common(options: argparse.Namespace) -> dict[str, Any]:
    """Return the options that determine the set, as parsed from JSON, and a hash of the user's page."""
    kept = {name: value for name, value in vars(options).items() if name not in MAY_DIFFER} | {"version": __version__}
    page = Path(options.generator)
    if page.suffix == ".py":
        kept["sha256 of the page"] = hashlib.sha256(page.read_bytes()).hexdigest()
    return dict(json.loads(json.dumps(kept)))


OUTPUT_OPTIONS.append(add_shard)
COMMANDS.append(add_merge)
