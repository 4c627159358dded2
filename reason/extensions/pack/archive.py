"""reason pack: packs a run's config, newest checkpoint and metrics into one file.

The file is a gzipped tar. gzip's CRC covers all files, and the checkpoint's manifest those of the checkpoint.
"""

from __future__ import annotations

import gzip
import os
import re
import shlex
import shutil
import tarfile
import zlib
from pathlib import Path

from datasets_gen.typed import Parser, typed
from reason.errors import ConfigError
from reason.files import readable_size
from reason.runs.directory import PACKED, ROOT, is_archive, read_record
from reason.runs.folders import new_path
from reason.training.checkpoint import (
    FILES,
    MANIFEST,
    NEEDED,
    best_checkpoint,
    checkpoints,
    readable,
    saved_state,
    torn,
)

PACK = f"""Put a run's config, newest checkpoint and metrics into one file.

  reason pack runs/mine                        runs/mine{PACKED}
  reason pack runs/mine /backup/mine{PACKED}
  python train.py run=mine{PACKED} --resume     unpacks to runs/mine and resumes
  python train.py mine{PACKED} run=DIR --resume unpacks to DIR

The resumed run equals the packed one bit for bit; the best checkpoint is kept only if it is the newest."""
BESIDE = ("config.json", "metrics.jsonl", "wandb-id")  # the checkpoint
MEMBER = re.compile(
    rf"{'|'.join(map(re.escape, BESIDE))}|checkpoints/step-[0-9]{{6,18}}/[\w-]+\.(json|safetensors)", re.A
)


def main(argv: list[str]) -> int:
    """Pack the named run; return the exit status."""
    parser = Parser(prog="reason pack", description=PACK)
    parser.add_argument("run", metavar="RUN")
    parser.add_argument("out", nargs="?", metavar="OUT", help=f"the file to write (default RUN{PACKED})")
    arguments = parser.parse_args(argv)
    run = Path(arguments.run.removeprefix("run="))
    read_record(run)
    named = run.resolve() if run.name in ("", "..") else run  # "." from inside a run
    out = Path(arguments.out) if arguments.out else named.with_name(named.name + PACKED)
    if not is_archive(out):
        raise ConfigError(f"{out}: an archive ends in {PACKED}")
    if (newest := next(readable(run), None)) is None:
        raise ConfigError(f"{run} has no checkpoint that can be read, so it cannot be resumed")
    if "optimizer" not in saved_state(newest):
        raise ConfigError(f"{run} holds weights but no training state to resume; copy its folder instead")
    with new_path(out, "type another file, or remove it") as packed:
        _pack(run, packed, newest)
    print(f"{out}: {readable_size(out.stat().st_size)}")
    best = best_checkpoint(run)
    if best is not None and best != newest:
        print(f"the best checkpoint so far, {best.name}, is not packed; later checkpoints compete for the best")
    print(typed(f"resume with: python train.py {shlex.quote(f'run={out}')} --resume"))
    return 0


def _pack(run: Path, out: Path, checkpoint: Path) -> None:
    members = {name: run / name for name in BESIDE if (run / name).is_file()}
    # Listed before any is packed: if a trainer removes the checkpoint meanwhile, reading fails.
    files = [name for name in FILES if name in NEEDED or (checkpoint / name).is_file()]
    members |= {f"checkpoints/{checkpoint.name}/{name}": checkpoint / name for name in (MANIFEST, *files)}

    def plain(member: tarfile.TarInfo) -> tarfile.TarInfo:  # without owner, mode and time
        bare = tarfile.TarInfo(member.name)
        bare.size = member.size
        return bare

    with tarfile.open(out, mode="w:gz", compresslevel=9, dereference=True) as archive:
        for name, path in members.items():
            archive.add(path, name, filter=plain)


def unpacked(archive: Path, run: Path | None) -> Path:
    """Unpack an archive atomically, only the files of a run; returns the folder, `run` or one of its name in runs/.

    Raises:
        ConfigError: the archive is missing, incomplete, modified or not of a run; the folder exists already; or
            torchrun has started this process.
    """
    run = run or ROOT / archive.name.removesuffix(PACKED)
    if int(os.environ.get("RANK", "0")):
        raise ConfigError(f"unpack {archive} before torchrun: tar xzf {archive} in an empty folder")
    if not archive.is_file():
        raise ConfigError(f"no archive at {archive}; `reason pack RUN` makes one")
    with new_path(run, f"continue with run={run}, or type run=DIR") as scratch:
        try:
            with tarfile.open(archive, mode="r:gz") as packed:
                for member in packed:
                    if not MEMBER.fullmatch(member.name) or not member.isreg() or member.issparse():
                        raise ConfigError(f"{archive} is not from `reason pack`: it has {member.name}")
                    source, target = packed.extractfile(member), scratch / member.name
                    assert source is not None, "a regular file"
                    target.parent.mkdir(parents=True, exist_ok=True)
                    with target.open("wb") as file:  # not `extract`, whose filters came with Python 3.11.4
                        shutil.copyfileobj(source, file)
                assert packed.fileobj is not None
                while packed.fileobj.read(1 << 20):  # to the end, for gzip's CRC
                    pass
        except (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise ConfigError(f"{archive} is incomplete ({error}); copy it again, or pack the run again") from None
        try:
            read_record(scratch)
        except ConfigError as error:
            raise ConfigError(str(error).replace(str(scratch), str(archive))) from None
        faults = [torn(saved) for saved in checkpoints(scratch)] or ["there is none"]
        if None not in faults:
            raise ConfigError(f"{archive} has no checkpoint to resume from ({faults[-1]}); pack the run again")
    return run
