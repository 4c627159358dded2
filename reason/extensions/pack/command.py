"""reason pack: a run → one file, from which --resume continues it."""

from __future__ import annotations

import shlex
from pathlib import Path

from datasets_gen.typed import Parser, typed
from reason.errors import ConfigError
from reason.extensions.pack.archive import pack_run
from reason.files import readable_size
from reason.runs.directory import PACKED, is_archive, read_record
from reason.training.checkpoint import best_checkpoint, readable

PACK = f"""Put a run's config, newest checkpoint and metrics into one file.

  reason pack runs/mine                        runs/mine{PACKED}
  reason pack runs/mine /backup/mine{PACKED}
  python train.py run=mine{PACKED} --resume     unpacks to runs/mine and resumes
  python train.py mine{PACKED} run=DIR --resume unpacks to DIR

The resumed run equals the packed one bit for bit; the best checkpoint is kept only if it is the newest."""


def main(argv: list[str]) -> int:
    """Pack; returns the exit status."""
    parser = Parser(prog="reason pack", description=PACK)
    parser.add_argument("run", metavar="RUN")
    parser.add_argument("out", nargs="?", metavar="OUT", help=f"the file to write (default RUN{PACKED})")
    arguments = parser.parse_args(argv)
    run = Path(arguments.run.removeprefix("run="))
    read_record(run)
    named = run.resolve() if run.name in ("", "..") else run  # "." from inside a run
    out = Path(arguments.out) if arguments.out else named.with_name(named.resolve().name + PACKED)
    if not is_archive(out):
        raise ConfigError(f"{out}: an archive ends in {PACKED}")
    pack_run(run, out)
    print(f"{out}: {readable_size(out.stat().st_size)}")
    best = best_checkpoint(run)
    if best is not None and best != next(readable(run)):
        print(f"the best checkpoint so far, {best.name}, is not packed; later checkpoints compete for the best")
    print(typed(f"resume with: python train.py {shlex.quote(f'run={out}')} --resume"))
    return 0
