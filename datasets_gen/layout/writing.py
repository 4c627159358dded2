"""Writing a puzzle set: whole, or not at all."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from datasets_gen.layout.files import check_name
from datasets_gen.layout.schema import ARRAYS, OPTIONAL, DatasetError, Metadata, Split
from datasets_gen.structure import Structure


def check_free(directory: Path) -> None:
    """Whether a set may be written there.

    Raises:
        DatasetError: something is there already.
    """
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise DatasetError(f"{directory} already exists and is not empty; name another --output-dir or remove it")


@contextlib.contextmanager
def atomic_directory(directory: Path) -> Iterator[Path]:
    """A scratch folder that becomes `directory` when the block ends well and vanishes when it does not.

    Raises:
        DatasetError: `directory` exists and is not empty.
    """
    directory = Path(directory)
    check_free(directory)
    directory.parent.mkdir(parents=True, exist_ok=True)
    scratch = directory.parent / f".{directory.name}.partial-{os.getpid()}"
    shutil.rmtree(scratch, ignore_errors=True)
    try:
        scratch.mkdir()
        yield scratch
        if directory.exists():
            directory.rmdir()
        scratch.rename(directory)
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise


def write_dataset(
    directory: Path | str,
    splits: Mapping[str, Split],
    *,
    task: Mapping[str, Any],
    vocab_size: int,
    pad_id: int = 0,
    ignore_label_id: int | None = 0,
    blank_identifier_id: int = 0,
    identifiers: list[str] | None = None,
    sources: list[str] | None = None,
    structure: Structure | None = None,
    provenance: Mapping[str, Any] | None = None,
    files: Mapping[str, Any] | None = None,
) -> None:
    """Write every split, or nothing: the folder appears in one rename.

    Tokens are stored as uint8 where the vocabulary fits, indices as int32. `files` are JSON files at the root.
    """
    identifiers = identifiers or ["<blank>"]
    for name in splits:
        check_name(name, "split")
    with atomic_directory(Path(directory)) as scratch:
        for file, content in {"identifiers.json": identifiers, **(files or {})}.items():
            (scratch / file).write_text(json.dumps(content), encoding="utf-8")
        for name, split in splits.items():
            folder = scratch / name
            folder.mkdir()
            arrays = {key: getattr(split, key).astype(np.int32) for key in ARRAYS[2:]}
            for key in ARRAYS[:2]:
                tokens = getattr(split, key)
                small = vocab_size <= 256 and tokens.min(initial=0) >= 0 and tokens.max(initial=0) <= 255
                arrays[key] = tokens.astype(np.uint8 if small else np.int32)  # some ignore -100
            arrays |= {key: getattr(split, key) for key in OPTIONAL if getattr(split, key) is not None}
            for key, array in arrays.items():
                _save(folder / f"all__{key}.npy", array)
            metadata = Metadata(
                pad_id=pad_id,
                ignore_label_id=ignore_label_id,
                blank_identifier_id=blank_identifier_id,
                vocab_size=vocab_size,
                num_puzzle_identifiers=len(identifiers),
                provenance=dict(provenance or {}),
                sources=sources or [],
                structure=structure,
                **split.metadata(task),
            )
            (folder / "dataset.json").write_text(metadata.model_dump_json(indent=2) + "\n", encoding="utf-8")


def _save(path: Path, array: np.ndarray) -> None:
    try:
        np.save(path, array)
    except OSError as error:
        if error.errno is not None:
            raise
        raise OSError(errno.ENOSPC, "the disk is full", str(path)) from error  # numpy reports a short write so
