"""One file that carries a run elsewhere: its config, its newest checkpoint, its metrics.

A gzipped tar whose first member, manifest.json, gives the size and the SHA-256 of every other one.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import re
import shlex
import shutil
import struct
import tarfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

from safetensors.torch import load_file, save

from reason.errors import ConfigError
from reason.runs.directory import read_record, refuse_existing
from reason.runs.folders import scratch_beside
from reason.training.checkpoint import FILES, MANIFEST, checkpoints, readable, seal, sha256, torn

SUFFIX = ".tar.gz"
LIMIT = 16_000_000  # bytes; a model of a million numbers must fit, whatever its carry
SMALL = 1_000_000
MOST = 100  # times its own size that an archive may unpack to, beyond LIMIT: weights are not as regular as that
INDEX = 1_000_000  # bytes of the manifest, at most
PADDING = 2048  # bytes that tar adds to a member, at most
CHUNK = 1 << 20
MEMBER = re.compile(
    r"config\.json|metrics\.jsonl|wandb-id|checkpoints/step-[0-9]{6,18}/[\w-]+\.(json|safetensors)", re.A
)
_DAMAGED = (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error, struct.error, ValueError, OverflowError)


def unpacked(run: Path) -> Path:
    """The folder of a run as it was named.

    Raises:
        ConfigError: it is an archive.
    """
    if run.is_file() and is_archive(run):
        raise ConfigError(
            f"{run} is an archive: type mkdir DIR && tar xzf {shlex.quote(str(run))} -C DIR, then name DIR"
        )
    return run


def is_archive(name: str | Path) -> bool:
    """Whether a run is named by its archive."""
    return str(name).endswith(SUFFIX)


def pack_run(run: Path, out: Path, exact: bool = False) -> bool:
    """Write the archive in one rename; False where the carry was left out to keep it below LIMIT.

    Only a model of at most SMALL numbers leaves its carry behind, and none does with `exact`: then every row starts
    with a new puzzle when the run resumes, and the run is not to the bit what it would have been.

    Raises:
        ConfigError: there is no checkpoint to pack, or `out` is there already.
    """
    read_record(run)
    folder = next(readable(run), None)
    if folder is None:
        raise ConfigError(f"{run} holds no checkpoint that can be read; there is nothing to go on with")
    if os.path.lexists(out):
        raise ConfigError(f"{out} is there already; name another file, or remove it")
    small = sum(t.numel() for t in load_file(folder / "weights.safetensors").values()) <= SMALL
    with scratch_beside(out) as scratch:
        packed = scratch / "whole"
        _write(packed, run, folder, folder)
        complete = exact or not small or packed.stat().st_size <= LIMIT
        if not complete:
            packed = scratch / "without"
            _write(packed, run, folder, _without_carry(folder, scratch / folder.name))
        packed.rename(out)
    return complete


def _write(file: Path, run: Path, folder: Path, source: Path) -> None:
    """The archive of a run whose checkpoint `folder` is as `source` has it."""
    kept = {
        name: (run / name).read_bytes()
        for name in ("config.json", "metrics.jsonl", "wandb-id")
        if (run / name).is_file()
    }
    names = [name for name in (MANIFEST, *FILES) if (source / name).exists()]
    members: dict[str, bytes | Path] = kept | {f"checkpoints/{folder.name}/{name}": source / name for name in names}
    manifest = {name: _sum(content) for name, content in members.items()}
    with tarfile.open(file, mode="w:gz", compresslevel=9) as archive:
        _add(archive, MANIFEST, json.dumps(manifest, indent=1).encode())
        for name, content in members.items():
            _add(archive, name, content)


def _add(archive: tarfile.TarFile, name: str, content: bytes | Path) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content) if isinstance(content, bytes) else content.stat().st_size
    with io.BytesIO(content) if isinstance(content, bytes) else content.open("rb") as stream:
        archive.addfile(member, stream)


def _sum(content: bytes | Path) -> dict[str, int | str]:
    if isinstance(content, bytes):
        return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    return {"bytes": content.stat().st_size, "sha256": sha256(content)}


def _without_carry(folder: Path, copy: Path) -> Path:
    """A copy of a checkpoint whose rows are forgotten."""
    shutil.copytree(folder, copy)
    skeleton = json.loads((folder / "state.json").read_text(encoding="utf-8"))
    for rows in ("carry", "memory"):
        skeleton.pop(rows, None)
    whole = load_file(folder / "state.safetensors")
    tensors = {name: t for name, t in whole.items() if not name.startswith(("/carry/", "/memory/"))}
    (copy / "state.json").write_text(json.dumps(skeleton), encoding="utf-8")
    (copy / "state.safetensors").write_bytes(save(tensors))
    seal(copy)
    return copy


def unpack_run(archive: Path, run: Path) -> None:
    """Make the folder `run` from an archive, whole or not at all; nothing but a run's own files is taken out.

    Size and SHA-256 of every member are held against the manifest, and the archive is read to its end (its CRC), before
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
            with archive.open("rb") as file:
                _extract(file, archive, scratch)
        except ConfigError:
            raise
        except _DAMAGED as error:
            raise ConfigError(f"{archive} is torn ({error}); copy it again, or pack the run anew") from None
        _refuse_no_run(scratch, archive)
        if run.exists():
            run.rmdir()
        scratch.rename(run)


def _refuse_no_run(scratch: Path, archive: Path) -> None:
    """Raises ConfigError where what was taken out could not be gone on with."""
    try:
        read_record(scratch)
    except ConfigError as error:
        raise ConfigError(str(error).replace(str(scratch), str(archive))) from None
    faults = [torn(folder) for folder in checkpoints(scratch)] or ["none is in it"]
    if None not in faults:
        raise ConfigError(f"{archive} holds no checkpoint to go on with ({faults[-1]}); pack the run anew")


class _Bounded(io.RawIOBase):
    """A stream that may give so many bytes, and no more."""

    def __init__(self, stream: gzip.GzipFile, allowed: int, refusal: ConfigError):
        self.stream, self.allowed, self.refusal = stream, allowed, refusal

    def read(self, size: int = -1) -> bytes:
        data = self.stream.read(min(size, CHUNK) if size >= 0 else CHUNK)
        self.allowed -= len(data)
        if self.allowed < 0:
            raise self.refusal
        return data


def _extract(file: IO[bytes], archive: Path, scratch: Path) -> None:
    """Every member that the manifest lists, in `scratch`; raises where anything is not as it says."""
    refusal = ConfigError(f"{archive} unpacks to more than its manifest says; it was not made by `reason pack`")
    stream = _Bounded(gzip.GzipFile(fileobj=file, mode="rb"), INDEX + PADDING + 2 * tarfile.RECORDSIZE, refusal)
    with tarfile.open(fileobj=stream, mode="r|") as packed:
        manifest = _manifest(packed, archive)
        _refuse_size(sum(entry["bytes"] for entry in manifest.values()), archive, scratch)
        stream.allowed += sum(entry["bytes"] + PADDING for entry in manifest.values())
        missing = set(manifest)
        while (member := packed.next()) is not None:
            if not member.isreg() or member.name not in missing or member.size != manifest[member.name]["bytes"]:
                raise ConfigError(f"{archive} is no run's archive: it holds {member.name}; `reason pack RUN` makes one")
            missing.remove(member.name)
            content = packed.extractfile(member)
            assert content is not None
            if _copied(content, scratch / member.name) != manifest[member.name]["sha256"]:
                raise ConfigError(f"{archive} is torn ({member.name} has changed); copy it again, or pack the run anew")
    if missing:
        raise ConfigError(f"{archive} is torn ({min(missing)} is missing); copy it again, or pack the run anew")
    while stream.read(CHUNK):  # to the end, where gzip keeps the CRC of all of it
        pass


def _copied(content: IO[bytes], path: Path) -> str:
    """Write a file; returns its SHA-256."""
    path.parent.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256()
    with path.open("xb") as out:
        while chunk := content.read(CHUNK):
            digest.update(chunk)
            out.write(chunk)
    return digest.hexdigest()


def _manifest(packed: tarfile.TarFile, archive: Path) -> dict[str, dict[str, Any]]:
    """{member: {"bytes": …, "sha256": …}} of the archive's first member."""
    first = packed.next()
    stream = packed.extractfile(first) if first is not None and first.name == MANIFEST and first.isreg() else None
    if stream is None:
        raise ConfigError(
            f"{archive} is no run's archive: it does not begin with {MANIFEST}; `reason pack RUN` makes one"
        )
    text = stream.read()
    try:
        manifest = json.loads(text)
        entries = {name: {"bytes": int(e["bytes"]), "sha256": str(e["sha256"])} for name, e in manifest.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
        raise ConfigError(
            f"{archive} is torn ({MANIFEST} cannot be read); copy it again, or pack the run anew"
        ) from None
    strange = _strange(entries)
    if strange:
        raise ConfigError(f"{archive} is no run's archive: it holds {strange}; `reason pack RUN` makes one")
    return entries


def _strange(entries: dict[str, dict[str, Any]]) -> str | None:
    """The first name that no run has, or what every run has and this lacks."""
    names: Iterable[str] = entries
    other = next((name for name in names if not MEMBER.fullmatch(name) or entries[name]["bytes"] < 0), None)
    return other or (None if "config.json" in entries else "no config.json")


def _refuse_size(size: int, archive: Path, scratch: Path) -> None:
    """Raises ConfigError where an archive would unpack to more than a run can hold, or the disk has."""
    own = archive.stat().st_size
    if size > LIMIT + MOST * own:
        raise ConfigError(
            f"{archive} is {own:,} bytes large and says it unpacks to {size:,}; no run does: it was not made by "
            "`reason pack`"
        )
    free = shutil.disk_usage(scratch).free
    if size > free:
        raise ConfigError(
            f"{archive} unpacks to {size / 1e6:,.1f} MB, the disk has {free / 1e6:,.1f} MB left; name another run=DIR"
        )
