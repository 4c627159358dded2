"""reason pack: a run → one file, with which --resume continues on any machine."""

from __future__ import annotations

import argparse
from pathlib import Path

from reason.errors import ConfigError
from reason.runs.archive import LIMIT, SUFFIX, is_archive, pack_run
from reason.training.checkpoint import best_checkpoint, readable
from reason.training.memory import readable_size

DESCRIPTION = f"""Put a run's config, newest checkpoint and metrics into one file.

  reason pack runs/mine                        runs/mine{SUFFIX}
  reason pack runs/mine /backup/mine{SUFFIX}
  python train.py run=mine{SUFFIX} --resume     unpacks to runs/mine, wherever that is, and goes on
  python train.py mine{SUFFIX} run=DIR --resume unpacks to DIR

The resumed run is, to the bit, the one that was packed; the best checkpoint is chosen anew where it is not the
newest. Only where a model of up to a million parameters
would take more than {LIMIT // 10**6} MB is the carry (puzzles and states in flight) left out, and this is said; --exact
keeps it."""


def main(argv: list[str]) -> int:
    """Pack; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="reason pack", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", metavar="RUN")
    parser.add_argument("out", nargs="?", metavar="OUT", help=f"the file to write (default RUN{SUFFIX})")
    parser.add_argument("--exact", action="store_true", help="keep the carry, however large the file")
    arguments = parser.parse_args(argv)
    run = Path(arguments.run.removeprefix("run="))
    out = Path(arguments.out) if arguments.out else run.with_name(run.resolve().name + SUFFIX)
    if not is_archive(out):
        raise ConfigError(f"{out}: an archive ends in {SUFFIX}")
    complete = pack_run(run, out, arguments.exact)
    print(f"{out}: {readable_size(out.stat().st_size)}")
    if not complete:
        print("the carry was left out: each row will start with a new puzzle, not to the bit; --exact keeps it")
    best = best_checkpoint(run)
    if best is not None and best != next(readable(run)):
        print(f"the best checkpoint so far, {best.name}, stays behind: the best is chosen anew from here on")
    print(f"go on anywhere with: python train.py run={out} --resume")
    return 0
