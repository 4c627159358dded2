"""One file that carries a run elsewhere: its config, its newest checkpoint, its metrics.

A gzipped tar of a run's own files. gzip's CRC covers all of them, and the checkpoint's manifest its own.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import shutil
import struct
import tarfile
import zlib
from pathlib import Path

from safetensors.torch import load_file, save_file

from reason.errors import ConfigError
from reason.runs.directory import ROOT, read_record, refuse_existing
from reason.runs.folders import new_path, scratch_beside
from reason.training.checkpoint import FILES, MANIFEST, checkpoints, readable, seal, torn

SUFFIX = ".tar.gz"
LIMIT = 16_000_000  # bytes; a model of a million parameters must fit, whatever its carry
SMALL = 1_000_000  # parameters of a model that may leave its carry behind
MOST = 100  # times its own size that an archive may unpack to, beyond LIMIT: weights are not as regular as that
CHUNK = 1 << 20
BESIDE = ("config.json", "metrics.jsonl", "wandb-id")  # the checkpoint
MEMBER = re.compile(
    rf"{'|'.join(map(re.escape, BESIDE))}|checkpoints/step-[0-9]{{6,18}}/[\w-]+\.(json|safetensors)", re.A
)
_DAMAGED = (
    tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error, struct.error, ValueError, OverflowError, RecursionError,
)  # fmt: skip


def is_archive(name: str | Path) -> bool:
    """Whether a run is named by its archive."""
    return str(name).endswith(SUFFIX)


def folder_of(archive: Path) -> Path:
    """The folder under runs/ that an archive unpacks to unless another is named."""
    return ROOT / archive.name.removesuffix(SUFFIX)


def pack_run(run: Path, out: Path, exact: bool = False) -> bool:
    """Write the archive in one rename; False where the carry was left out to keep it below LIMIT.

    Only a model of at most SMALL parameters leaves its carry behind, and only without `exact`: every row then starts
    with a new puzzle when the run resumes, and the run is not to the bit what it would have been.

    Raises:
        ConfigError: there is no checkpoint to pack, or `out` is there already.
    """
    read_record(run)
    checkpoint = next(readable(run), None)
    if checkpoint is None:
        raise ConfigError(f"{run} holds no checkpoint that can be read; there is nothing to go on with")
    with new_path(out, "name another file, or remove it") as packed:
        _write(packed, run, checkpoint)
        small = sum(t.numel() for t in load_file(checkpoint / "weights.safetensors").values()) <= SMALL
        complete = exact or not small or packed.stat().st_size <= LIMIT
        if not complete:
            _write(packed, run, _without_carry(checkpoint, packed.parent / checkpoint.name))
    return complete


def _write(file: Path, run: Path, checkpoint: Path) -> None:
    def plain(member: tarfile.TarInfo) -> tarfile.TarInfo:  # without owner, mode and time
        bare = tarfile.TarInfo(member.name)
        bare.size = member.size
        return bare

    members = {name: run / name for name in BESIDE}
    members |= {f"checkpoints/{checkpoint.name}/{name}": checkpoint / name for name in (MANIFEST, *FILES)}
    with tarfile.open(file, mode="w:gz", compresslevel=9, dereference=True) as archive:
        for name, path in members.items():
            if path.is_file():
                archive.add(path, name, filter=plain)


def _without_carry(checkpoint: Path, copy: Path) -> Path:
    """A copy of a checkpoint whose rows are forgotten."""
    shutil.copytree(checkpoint, copy)
    skeleton = json.loads((checkpoint / "state.json").read_text(encoding="utf-8"))
    for rows in ("carry", "memory"):
        skeleton.pop(rows, None)
    (copy / "state.json").write_text(json.dumps(skeleton), encoding="utf-8")
    whole = load_file(checkpoint / "state.safetensors")
    kept = {name: t for name, t in whole.items() if not name.startswith(("/carry/", "/memory/"))}
    save_file(kept, copy / "state.safetensors")
    seal(copy)
    return copy


def unpack_run(archive: Path, run: Path) -> None:
    """Make the folder `run` from an archive, whole or not at all; nothing but a run's own files is taken out.

    The archive is read to its end, where gzip keeps its CRC, and its checkpoint is held against its manifest before
    anything is put in place.

    Raises:
        ConfigError: the archive is missing, torn, changed, too large or no run's, or `run` already holds one.
    """
    if not archive.is_file():
        raise ConfigError(f"no archive at {archive}; `reason pack RUN` makes one")
    refuse_existing(run)
    if run.exists() and any(run.iterdir()):
        raise ConfigError(f"{run} is not empty; name another folder with run=DIR")
    with scratch_beside(run) as scratch:
        try:
            _extract(archive, scratch)
        except ConfigError:
            raise
        except _DAMAGED as error:
            raise ConfigError(f"{archive} is torn ({error}); copy it again, or pack the run anew") from None
        if not (scratch / "config.json").exists():
            raise ConfigError(f"{archive} is no run's archive: it holds no config.json; `reason pack RUN` makes one")
        refuse_no_run(scratch, str(archive), "pack the run anew")
        if run.exists():
            run.rmdir()
        scratch.rename(run)


def refuse_no_run(folder: Path, source: str, mend: str) -> None:
    """Raises ConfigError where what came from `source` is no run, or holds no checkpoint that is whole."""
    try:
        read_record(folder)
    except ConfigError as error:
        raise ConfigError(str(error).replace(str(folder), source)) from None
    faults = [torn(saved) for saved in checkpoints(folder)] or ["none is in it"]
    if None not in faults:
        raise ConfigError(f"{source} holds no checkpoint to go on with ({faults[-1]}); {mend}")


class _Bounded(io.RawIOBase):
    """What gzip unpacks, up to a number of bytes."""

    def __init__(self, stream: gzip.GzipFile, left: int, refusal: ConfigError):
        self.stream, self.left, self.refusal = stream, left, refusal

    def read(self, size: int = -1) -> bytes:
        data = self.stream.read(min(size, CHUNK) if size >= 0 else CHUNK)
        self.left -= len(data)
        if self.left < 0:
            raise self.refusal
        return data


def _extract(archive: Path, scratch: Path) -> None:
    """Every file of an archive, in `scratch`; raises for a file that no run has."""
    most, free = LIMIT + MOST * archive.stat().st_size, shutil.disk_usage(scratch).free
    refusal = ConfigError(
        f"{archive} unpacks to more than {most / 1e6:,.0f} MB, which no run does: it was not made by `reason pack`"
        if most <= free
        else f"{archive} unpacks to more than the {free / 1e6:,.1f} MB that the disk has left; name another run=DIR"
    )
    with gzip.open(archive, "rb") as whole:
        stream = _Bounded(whole, min(most, free), refusal)
        with tarfile.open(fileobj=stream, mode="r|") as packed:
            while (member := packed.next()) is not None:
                path = scratch / member.name
                if member.name == MANIFEST:  # of an earlier version
                    continue
                if not MEMBER.fullmatch(member.name) or not member.isreg() or member.issparse() or path.exists():
                    raise ConfigError(
                        f"{archive} is no run's archive: it holds {member.name}; `reason pack RUN` makes one"
                    )
                content = packed.extractfile(member)
                assert content is not None
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("xb") as out:
                    shutil.copyfileobj(content, out, CHUNK)
        while stream.read(CHUNK):  # to the end, where gzip keeps the CRC of all of it
            pass
