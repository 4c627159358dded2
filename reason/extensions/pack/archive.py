"""One file that carries a run elsewhere: its config, its newest checkpoint, its metrics.

A gzipped tar of a run's own files. gzip's CRC covers all of them, and the checkpoint's manifest its own.
"""

from __future__ import annotations

import gzip
import os
import re
import shutil
import tarfile
import zlib
from pathlib import Path

from datasets_gen.scratch import scratch_beside
from reason.errors import ConfigError
from reason.files import naming
from reason.runs.directory import PACKED, ROOT, read_record, refuse_existing, refuse_no_run
from reason.runs.folders import new_path
from reason.training.checkpoint import FILES, MANIFEST, NEEDED, readable

BESIDE = ("config.json", "metrics.jsonl", "wandb-id")  # the checkpoint
MEMBER = re.compile(
    rf"{'|'.join(map(re.escape, BESIDE))}|checkpoints/step-[0-9]{{6,18}}/[\w-]+\.(json|safetensors)", re.A
)


def folder_of(archive: Path) -> Path:
    """The folder under runs/ that an archive unpacks to unless another is named."""
    return ROOT / archive.name.removesuffix(PACKED)


def unpacked(archive: Path, run: Path | None) -> Path:
    """The folder that an archive is unpacked to: `run`, or `folder_of`.

    Raises:
        ConfigError: the folder is there already, or torchrun has started this process.
    """
    run = run or folder_of(archive)
    if int(os.environ.get("RANK", "0")):
        raise ConfigError(f"unpack {archive} before torchrun: tar xzf {archive} in a folder of its own")
    if (run / "config.json").exists():
        raise ConfigError(
            f"{run} is there already, from this archive or another: go on with run={run}, or name run=DIR"
        )
    unpack_run(archive, run)
    return run


def pack_run(run: Path, out: Path) -> None:
    """Write the archive in one rename.

    Raises:
        ConfigError: there is no checkpoint to pack, or `out` is there already.
    """
    read_record(run)
    if (newest := next(readable(run), None)) is None:
        raise ConfigError(f"{run} holds no checkpoint that can be read; there is nothing to go on with")
    with new_path(out, "name another file, or remove it") as packed:
        _pack(run, packed, newest)


def _pack(run: Path, out: Path, checkpoint: Path) -> None:
    members = {name: run / name for name in BESIDE if (run / name).is_file()}
    # Listed before any is read: if a trainer removes the checkpoint meanwhile, reading fails.
    files = [name for name in FILES if name in NEEDED or (checkpoint / name).is_file()]
    members |= {f"checkpoints/{checkpoint.name}/{name}": checkpoint / name for name in (MANIFEST, *files)}

    def plain(member: tarfile.TarInfo) -> tarfile.TarInfo:  # without owner, mode and time
        bare = tarfile.TarInfo(member.name)
        bare.size = member.size
        return bare

    with tarfile.open(out, mode="w:gz", compresslevel=9, dereference=True) as archive:
        for name, path in members.items():
            archive.add(path, name, filter=plain)


def unpack_run(archive: Path, run: Path) -> None:
    """Make the folder `run` from an archive, whole or not at all; nothing but a run's own files is taken out.

    Raises:
        ConfigError: the archive is missing, torn, changed or no run's, or `run` already holds one.
    """
    if not archive.is_file():
        raise ConfigError(f"no archive at {archive}; `reason pack RUN` makes one")
    refuse_existing(run)
    if run.exists() and any(run.iterdir()):
        raise ConfigError(f"{run} is not empty; name another folder with run=DIR")
    with scratch_beside(run) as scratch, naming(run):
        try:
            with tarfile.open(archive, mode="r:gz") as packed:
                for member in packed:
                    if not MEMBER.fullmatch(member.name) or not member.isreg() or member.issparse():
                        raise ConfigError(
                            f"{archive} is no run's archive: it holds {member.name}; `reason pack RUN` makes one"
                        )
                    source, target = packed.extractfile(member), scratch / member.name
                    assert source is not None, "a regular file"
                    target.parent.mkdir(parents=True, exist_ok=True)
                    with target.open("wb") as file:  # not `extract`, whose filters came with Python 3.11.4
                        shutil.copyfileobj(source, file)
                assert packed.fileobj is not None
                while packed.fileobj.read(1 << 20):  # to the end, where gzip keeps its CRC
                    pass
        except (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise ConfigError(f"{archive} is torn ({error}); copy it again, or pack the run anew") from None
        if not (scratch / "config.json").exists():
            raise ConfigError(f"{archive} is no run's archive: it holds no config.json; `reason pack RUN` makes one")
        refuse_no_run(scratch, str(archive), "pack the run anew")
        if run.exists():
            run.rmdir()
        scratch.rename(run)
