"""Reading a puzzle set, and every check that needs no puzzle."""

from __future__ import annotations

import codecs
import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.lib import format
from pydantic import ValidationError

from datasets_gen.layout import mapped
from datasets_gen.layout.files import NAME, DatasetError, check_name, read_json
from datasets_gen.layout.mapped import parts, release
from datasets_gen.layout.schema import ARRAYS, OPTIONAL, SHARED, SPLITS, Metadata, Split
from datasets_gen.structure import Structure

MOST_NUMBERED = 10**7  # identifiers that may get a number for a name


def read_metadata(directory: Path | str, split: str) -> Metadata:
    """Read and check SPLIT/dataset.json.

    Raises:
        DatasetError: the folder, the file or a field is missing or wrong.
    """
    directory = Path(directory)
    check_name(split, "split")
    path = directory / split / "dataset.json"
    if not path.is_file():
        raise DatasetError(_missing(directory, split))
    try:
        metadata = Metadata.model_validate_json(path.read_bytes().removeprefix(codecs.BOM_UTF8))
    except ValidationError as error:
        first = error.errors()[0]
        where = "".join(f"{key}: " for key in first["loc"])
        what = first["msg"].removeprefix("Value error, ")
        raise DatasetError(f"{path}: {where}{what}; regenerate or re-import the set") from None
    for name in metadata.sets:
        check_name(name, f"{path}: sets:")
    return metadata


def _missing(directory: Path, split: str) -> str:
    if not directory.is_dir():
        return (
            f"no dataset at {directory}; make one with "
            f"`python -m datasets_gen PUZZLE --output-dir {shlex.quote(str(directory))}` "
            "(see python -m datasets_gen --help)"
        )
    found = splits_of(directory)
    if found:
        return f"{directory} has no split '{split}'; it has {', '.join(found)}"
    return f"{directory} holds no dataset: no {'/'.join(SPLITS)} folder with a dataset.json in it"


def splits_of(directory: Path | str) -> list[str]:
    """The splits that a dataset folder holds, in the order train, validation, test, others."""
    found = [path.parent.name for path in Path(directory).glob("*/dataset.json") if path.is_file()]
    found = [name for name in found if NAME.fullmatch(name)]
    return sorted(found, key=lambda name: (SPLITS.index(name) if name in SPLITS else len(SPLITS), name))


def check_alike(directory: Path | str, splits: Mapping[str, Metadata], fields: Sequence[str] = SHARED) -> None:
    """Refuse splits that differ in one of `fields`.

    Raises:
        DatasetError: the first field that differs.
    """
    first, *_ = splits
    for name, metadata in splits.items():
        for field in fields:
            ours, theirs = getattr(metadata, field), getattr(splits[first], field)
            if ours != theirs:
                raise DatasetError(f"{Path(directory) / name}: {field} is {ours}, but {theirs} in {first}")


def read_identifiers(directory: Path | str, metadata: Metadata) -> list[str]:
    """The names of the puzzle identifiers, from identifiers.json at the root; without the file, numbers.

    Raises:
        DatasetError: the file is no list of as many different names as `metadata` has identifiers.
    """
    path, count = Path(directory) / "identifiers.json", metadata.num_puzzle_identifiers
    if not path.exists():
        if count > MOST_NUMBERED:
            raise DatasetError(f"{path} is missing, and dataset.json says {count} identifiers; give it the file")
        return ["<blank>" if i == metadata.blank_identifier_id else f"puzzle-{i}" for i in range(count)]
    names = read_json(path)
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise DatasetError(f"{path} must hold a list of names; regenerate or re-import the set, or remove the file")
    if len(names) != count or len(set(names)) != count:
        raise DatasetError(f"{path} names {len(set(names))} different identifiers, dataset.json says {count}")
    return names


def read_split(directory: Path | str, split: str) -> tuple[Metadata, Split]:
    """Read one split, its sets joined, and check everything that can be checked without the puzzle's rules.

    The arrays of a split whose files hold more than `mapped.LARGE` bytes stay on disk, unless it has several sets. A
    mapped file must not shrink: reading beyond its end would kill the process.

    Raises:
        DatasetError: a file is missing, torn or inconsistent; the text names it.
    """
    metadata = read_metadata(directory, split)
    folder = Path(directory) / split
    sets = [_read_set(folder, name, metadata) for name in metadata.sets]
    joined = sets[0] if len(sets) == 1 else _join(sets)
    groups = len(joined.group_indices) - 1
    if groups != metadata.total_groups:
        raise DatasetError(f"{folder}: dataset.json says {metadata.total_groups} groups, the arrays hold {groups}")
    puzzles = len(joined.puzzle_indices) - 1
    if metadata.total_puzzles is not None and puzzles != metadata.total_puzzles:
        raise DatasetError(f"{folder}: dataset.json says {metadata.total_puzzles} puzzles, the arrays hold {puzzles}")
    return metadata, joined


def _load(path: Path, on_disk: bool = False) -> np.ndarray:
    """An array of whole numbers (ratings may be fractions), in this machine's byte order and row by row.

    on_disk: map it where it is stored so. The mapping is private, so that nothing can be written to the file.
    """
    if not path.is_file():
        raise DatasetError(f"{path} is missing; regenerate or re-import the set")
    try:
        with path.open("rb") as file:
            header = {(1, 0): format.read_array_header_1_0, (2, 0): format.read_array_header_2_0}
            shape, by_columns, dtype = header[format.read_magic(file)](file)
            size, stated = path.stat().st_size - file.tell(), math.prod(shape) * dtype.itemsize
            if not dtype.hasobject and size != stated:  # before memory is asked for
                raise ValueError(f"{size} bytes where {dtype} of shape {shape} take {stated}")
        kinds = "iuf" if path.name.endswith("__ratings.npy") else "iu"
        if dtype.kind not in kinds:
            raise DatasetError(f"{path} holds {dtype}, {'numbers' if 'f' in kinds else 'whole numbers'} expected")
        as_read = np.dtype(np.float64) if dtype.kind == "f" else dtype.newbyteorder("=")
        if on_disk and stated and dtype == as_read and not by_columns:
            return np.load(path, mmap_mode="c", allow_pickle=False)
        array = np.load(path, allow_pickle=False)
    except DatasetError:
        raise
    except Exception as error:  # a torn file makes numpy raise almost anything
        why = " ".join(str(error).split())
        raise DatasetError(f"{path} cannot be read ({why}); the file is torn: regenerate or copy it again") from None
    return np.ascontiguousarray(array, as_read)


def ignored(labels: np.ndarray, metadata: Metadata) -> np.ndarray:
    """Which labels are not scored: `ignore_label_id`, and -100 as in torch."""
    return (labels == -100) | (labels == metadata.ignore_label_id)


def unscored_as_pad(split: Split) -> Split:
    """Replace labels of -100 by token 0, which every family can draw and check."""
    signed = split.labels.dtype != np.uint8
    return replace(split, labels=np.where(split.labels == -100, 0, split.labels)) if signed else split


def unscored_examples(directory: Path | str, name: str, metadata: Metadata, split: Split) -> int:
    """How many examples of the split have no scored cell: no accuracy can count them.

    Raises:
        DatasetError: not one example has any.
    """
    labels = split.labels
    unscored = sum(int(ignored(labels[rows], metadata).all(1).sum()) for rows in parts(len(labels), labels))
    if unscored and unscored == len(split.labels):
        raise DatasetError(
            f"{Path(directory) / name}: no cell of any example is scored (every label is -100 or ignore_label_id "
            f"{metadata.ignore_label_id}); there is nothing to learn or to count"
        )
    return unscored


def _read_set(folder: Path, name: str, metadata: Metadata) -> Split:
    size = sum(path.stat().st_size for path in folder.glob(f"{name}__*.npy"))
    on_disk = size > mapped.LARGE and len(metadata.sets) == 1
    arrays: dict[str, np.ndarray] = {key: _load(folder / f"{name}__{key}.npy", on_disk) for key in ARRAYS}
    for key in ("inputs", "labels"):
        path, array = folder / f"{name}__{key}.npy", arrays[key]
        if array.ndim != 2 or array.shape[1] != metadata.seq_len:
            raise DatasetError(f"{path} has shape {array.shape}, dataset.json says seq_len {metadata.seq_len}")
        for rows in parts(len(array), array):
            some = array[rows]
            outside = (some < 0) | (some >= metadata.vocab_size)
            if key == "labels":
                outside &= ~ignored(some, metadata)
            if outside.any():
                row, column = (int(i) for i in np.argwhere(outside)[0])
                raise DatasetError(
                    f"{path}: token {some[row, column]} at example {rows.start + row}, cell {column} is outside "
                    f"the vocabulary 0..{metadata.vocab_size - 1}"
                )
        arrays[key] = array if array.dtype in (np.uint8, np.int32) else np.asarray(array, np.int32)
    inputs, labels = arrays["inputs"], arrays["labels"]
    if len(inputs) != len(labels):
        raise DatasetError(f"{folder}: {len(inputs)} inputs but {len(labels)} labels in set '{name}'")
    puzzles, groups = arrays["puzzle_indices"], arrays["group_indices"]
    identifiers = arrays["puzzle_identifiers"]
    _check_indices(folder / f"{name}__puzzle_indices.npy", puzzles, len(inputs), "examples")
    _check_indices(folder / f"{name}__group_indices.npy", groups, len(puzzles) - 1, "puzzles")
    path = folder / f"{name}__puzzle_identifiers.npy"
    if identifiers.shape != (len(puzzles) - 1,):
        raise DatasetError(f"{path} has shape {identifiers.shape}, {len(puzzles) - 1} puzzles expected")
    if len(identifiers) and not (identifiers.min() >= 0 and identifiers.max() < metadata.num_puzzle_identifiers):
        raise DatasetError(f"{path}: an identifier is outside 0..{metadata.num_puzzle_identifiers - 1}")
    optional = {}
    for key in OPTIONAL:
        path = folder / f"{name}__{key}.npy"
        if not path.exists():
            continue
        optional[key] = array = _load(path, on_disk)
        if key == "relations":
            _check_relations(path, array, len(inputs), metadata)
        elif array.shape != identifiers.shape:
            raise DatasetError(f"{path} has shape {array.shape}, {len(identifiers)} puzzles expected")
    sources = optional.get("sources", np.zeros(0, int))
    if ((sources < 0) | (sources >= len(metadata.sources))).any():
        raise DatasetError(f"{folder}: {name}__sources.npy names a source that dataset.json does not list")
    if not on_disk:
        puzzles, groups = puzzles.astype(np.int64), groups.astype(np.int64)
    release(identifiers, sources)
    identifiers = identifiers if identifiers.dtype == np.int32 else np.asarray(identifiers, np.int32)
    return Split(inputs, labels, identifiers, puzzles, groups, **optional)


def _check_relations(path: Path, rows: np.ndarray, examples: int, metadata: Metadata) -> None:
    """Refuse instances (N, M, 1 + C + P') that name no relation, no cell or no number of the set's structure."""
    structure = metadata.structure
    if structure is None or not structure.relations:
        raise DatasetError(f"{path} holds relations, and dataset.json declares none in its structure")
    clues = structure.clues
    if rows.ndim != 3 or len(rows) != examples or rows.shape[2] < 2 + clues:
        raise DatasetError(f"{path} has shape {rows.shape}, ({examples}, M, 1 + {clues} + cells) expected")
    for some in parts(examples, rows):
        _check_instances(path, rows[some], some.start, structure, metadata.seq_len)


def _check_instances(path: Path, rows: np.ndarray, start: int, structure: Structure, seq_len: int) -> None:
    """Refuse instances (n, M, 1 + C + P') of the examples from `start` on."""
    clues = structure.clues
    kinds, numbers, cells = rows[..., 0], rows[..., 1 : 1 + clues], rows[..., 1 + clues :]
    used, known = kinds >= 0, np.maximum(kinds, 0)
    count = (cells >= 0).sum(-1)
    places, most, highest = (
        np.array([getattr(relation, key) for relation in structure.relations])[
            np.minimum(known, len(structure.relations) - 1)
        ]
        for key in ("places", "clues", "highest")
    )
    ordered = np.sort(cells, -1)
    faults = {
        f"names relation {{}}; the set has {len(structure.relations)}": (kinds < -1)
        | (kinds >= len(structure.relations)),
        "is padding (-1) with cells or numbers": ~used & ((cells >= 0).any(-1) | (numbers >= 0).any(-1)),
        f"names a cell outside 0..{seq_len - 1}": (cells < -1).any(-1) | (cells >= seq_len).any(-1),
        "has no cell, or another number of cells than its places": used
        & ((count == 0) | ((places > 0) & (count != places))),
        "leaves a gap between its cells": ((cells[..., :-1] < 0) & (cells[..., 1:] >= 0)).any(-1),
        "names a cell twice": ((ordered[..., 1:] == ordered[..., :-1]) & (ordered[..., 1:] >= 0)).any(-1),
        "carries a number outside its range": ((numbers < -1) | (numbers > highest[..., None])).any(-1)
        | ((numbers >= 0).sum(-1) > most),
    }
    for fault, found in faults.items():
        if found.any():
            example, instance = (int(i) for i in np.argwhere(found)[0])
            kind = int(kinds[example, instance])
            raise DatasetError(f"{path}: instance {instance} of example {start + example} {fault.format(kind)}")


def _check_indices(path: Path, indices: np.ndarray, total: int, what: str) -> None:
    ends = indices.ravel()[[0, -1]].tolist() if indices.size else []
    if indices.ndim != 1 or ends != [0, total]:
        raise DatasetError(f"{path} must run from 0 to the {total} {what}, got {ends}")
    for rows in parts(len(indices) - 1, indices):
        if (np.diff(indices[rows.start : rows.stop + 1].astype(np.int64)) <= 0).any():
            raise DatasetError(f"{path} must increase: an entry owns no {what}")


def _join(parts: list[Split]) -> Split:
    def chain(key: str) -> np.ndarray:
        ends = [getattr(part, key) for part in parts]
        offsets = np.cumsum([0] + [end[-1] for end in ends])
        return np.concatenate([[0]] + [end[1:] + offset for end, offset in zip(ends, offsets, strict=False)])

    rated = any(part.ratings is not None for part in parts)
    ratings = [np.full(len(p.puzzle_identifiers), np.nan) if p.ratings is None else p.ratings for p in parts]
    sources = [part.sources for part in parts if part.sources is not None]
    relations = [part.relations for part in parts if part.relations is not None]
    return Split(
        np.concatenate([part.inputs for part in parts]),
        np.concatenate([part.labels for part in parts]),
        np.concatenate([part.puzzle_identifiers for part in parts]),
        chain("puzzle_indices"),
        chain("group_indices"),
        np.concatenate(ratings) if rated else None,
        np.concatenate(sources) if len(sources) == len(parts) else None,
        stacked(relations) if len(relations) == len(parts) else None,
    )


def stacked(parts: list[np.ndarray]) -> np.ndarray:
    """Instances of several sets, padded to the same M and P'."""
    most = np.max([part.shape for part in parts], axis=0)
    return np.concatenate(
        [
            np.pad(
                part, [(0, 0), *((0, n - m) for n, m in zip(most[1:], part.shape[1:], strict=True))], constant_values=-1
            )
            for part in parts
        ]
    )
