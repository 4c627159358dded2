"""reason pack: a run → one file, with which --resume continues on any machine."""

from __future__ import annotations

import shlex
from pathlib import Path

from datasets_gen.typed import Parser, typed
from reason.errors import ConfigError
from reason.machine.memory import readable_size
from reason.runs.archive import LIMIT, SUFFIX, is_archive, pack_run
from reason.runs.directory import read_record
from reason.training.checkpoint import best_checkpoint, readable

DESCRIPTION = f"""Put a run's config, newest checkpoint and metrics into one file.

  reason pack runs/mine                        runs/mine{SUFFIX}
  reason pack runs/mine /backup/mine{SUFFIX}
  python train.py run=mine{SUFFIX} --resume     unpacks to runs/mine and resumes
  python train.py mine{SUFFIX} run=DIR --resume unpacks to DIR

The resumed run equals the packed one bit for bit; the best checkpoint is kept only if it is the newest. If a model of
up to a million parameters would take more than {LIMIT // 10**6} MB, the carry (puzzles and states of the rows) is
dropped with a message; --exact keeps it."""


def main(argv: list[str]) -> int:
    """Pack; returns the exit status."""
    parser = Parser(prog="reason pack", description=DESCRIPTION)
    parser.add_argument("run", metavar="RUN")
    parser.add_argument("out", nargs="?", metavar="OUT", help=f"the file to write (default RUN{SUFFIX})")
    parser.add_argument("--exact", action="store_true", help="keep the carry, however large the file")
    arguments = parser.parse_args(argv)
    run = Path(arguments.run.removeprefix("run="))
    read_record(run)
    named = run.resolve() if run.name in ("", "..") else run  # "." from inside a run
    out = Path(arguments.out) if arguments.out else named.with_name(named.resolve().name + SUFFIX)
    if not is_archive(out):
        raise ConfigError(f"{out}: an archive ends in {SUFFIX}")
    complete = pack_run(run, out, arguments.exact)
    print(f"{out}: {readable_size(out.stat().st_size)}")
    if not complete:
        print("the carry was left out: each row will start with a new puzzle, not to the bit; --exact keeps it")
    best = best_checkpoint(run)
    if best is not None and best != next(readable(run)):
        print(f"the best checkpoint so far, {best.name}, is not packed; later checkpoints compete for the best")
    print(typed(f"resume with: python train.py {shlex.quote(f'run={out}')} --resume"))
    return 0
