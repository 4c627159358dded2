"""One file that carries a run elsewhere: its config, its newest checkpoint, its metrics."""

from __future__ import annotations

import io
import json
import re
import shutil
import tarfile
import zlib
from pathlib import Path

from safetensors.torch import load_file, save

from reason.errors import ConfigError
from reason.runs.directory import read_record, refuse_existing
from reason.training.checkpoint import best_checkpoint, readable

SUFFIX = ".tar.gz"
LIMIT = 16_000_000  # bytes; a model of a million numbers must fit, whatever its carry
SMALL = 1_000_000
_MEMBER = re.compile(
    r"config\.json|metrics\.jsonl|wandb-id|checkpoints/(best\.json|step-\d{6,}/[\w-]+\.(json|safetensors))"
)


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
    if out.exists():
        raise ConfigError(f"{out} is there already; name another file, or remove it")
    whole = _archive(run, folder, carry=True)
    small = sum(t.numel() for t in load_file(folder / "weights.safetensors").values()) <= SMALL
    complete = exact or not small or len(whole) <= LIMIT
    out.parent.mkdir(parents=True, exist_ok=True)
    scratch = out.with_name(f".{out.name}.partial")
    try:
        scratch.write_bytes(whole if complete else _archive(run, folder, carry=False))
        scratch.rename(out)
    except OSError:
        scratch.unlink(missing_ok=True)
        raise
    return complete


def _archive(run: Path, folder: Path, carry: bool) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=9) as archive:
        files = [run / "config.json", run / "metrics.jsonl", run / "wandb-id"]
        if best_checkpoint(run) == folder:
            files.append(run / "checkpoints" / "best.json")
        for file in [*files, *sorted(folder.iterdir())]:
            if file.exists() and (carry or file.name not in ("state.json", "state.safetensors")):
                archive.add(file, str(file.relative_to(run)))
        if not carry:
            for name, content in _without_carry(folder).items():
                member = tarfile.TarInfo(f"checkpoints/{folder.name}/{name}")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def _without_carry(folder: Path) -> dict[str, bytes]:
    """state.json and state.safetensors of a checkpoint whose rows are forgotten."""
    skeleton = json.loads((folder / "state.json").read_text())
    for rows in ("carry", "memory"):
        skeleton.pop(rows, None)
    whole = load_file(folder / "state.safetensors")
    tensors = {name: t for name, t in whole.items() if not name.startswith(("/carry/", "/memory/"))}
    return {"state.json": json.dumps(skeleton).encode(), "state.safetensors": save(tensors)}


def unpack_run(archive: Path, run: Path) -> None:
    """Make the folder `run` from an archive, whole or not at all; nothing but a run's own files is taken out.

    Raises:
        ConfigError: the archive is missing, torn or no run's, or `run` already holds one.
    """
    if not archive.is_file():
        raise ConfigError(f"no archive at {archive}; `reason pack RUN` makes one")
    if run.exists():
        refuse_existing(run)
    scratch = run.with_name(f".{run.name}.partial")
    shutil.rmtree(scratch, ignore_errors=True)
    try:
        with tarfile.open(archive, "r:gz") as packed:
            members = packed.getmembers()
            strange = [m.name for m in members if not (m.isfile() and _MEMBER.fullmatch(m.name))]
            if strange or "config.json" not in [m.name for m in members]:
                what = f"it holds {strange[0]}" if strange else "it holds no config.json"
                raise ConfigError(f"{archive} is no run's archive: {what}; `reason pack RUN` makes one")
            scratch.mkdir(parents=True)
            packed.extractall(scratch, members, filter="data")
        if run.exists():
            run.rmdir()
        scratch.rename(run)
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise ConfigError(f"{archive} is torn ({error}); copy it again, or pack the run anew") from None
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
