"""The on-disk layout of a puzzle set, that of HRM and TRM; a set is written completely or not at all.

    DIR/identifiers.json                       names of the puzzle identifiers (optional when loaded)
    DIR/SPLIT/dataset.json                     `Metadata`
    DIR/SPLIT/all__inputs.npy, all__labels.npy (N, S) tokens
    DIR/SPLIT/all__puzzle_identifiers.npy      (P,)   which embedding a puzzle uses
    DIR/SPLIT/all__puzzle_indices.npy          (P+1,) puzzle p owns examples [indices[p], indices[p+1])
    DIR/SPLIT/all__group_indices.npy           (G+1,) group g owns puzzles [indices[g], indices[g+1])
    DIR/SPLIT/all__ratings.npy                 (P,)   difficulty, ours, optional
    DIR/SPLIT/all__sources.npy                 (P,)   index into dataset.json's "sources", ours, optional
    DIR/SPLIT/all__relations.npy               (N, M, 1+C+n_cells) instances of each example, ours, optional

A row of relations is one instance: the index of its kind in dataset.json's "structure", C numbers, then the cells. -1
marks an absent number or cell; a row of -1 fills up an example with fewer than M instances.

N examples, P puzzles, G groups, S cells. A group holds the variants of one base puzzle. "all" is the one name in
dataset.json's "sets": HRM's layout allows several subsets, and no builder of HRM or TRM writes more.
"""

from __future__ import annotations

import codecs
import contextlib
import json
import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from datasets_gen.scratch import published
from datasets_gen.structure import MOST, Structure

SPLITS = ("train", "validation", "test")
ARRAYS = ("inputs", "labels", "puzzle_identifiers", "puzzle_indices", "group_indices")
OPTIONAL = ("ratings", "sources", "relations")
SHARED = (  # fields that are equal in all splits of a set
    *("vocab_size", "seq_len", "pad_id", "ignore_label_id", "blank_identifier_id", "num_puzzle_identifiers"),
    *("task", "structure"),
)
INT32_MOST = 2**31 - 1  # tokens, cells and identifiers are counted in int32
UNSCORED = -100  # a label that is not scored, as in torch; the set may name another
LARGE = 2**30  # bytes of a split's files, above which its arrays stay on disk
ROWS = 2**13  # examples that are checked together
NAME = re.compile(r"\w[\w.+ -]*")


class DatasetError(ValueError):
    """A puzzle set, or a request for one, is not valid; the text states the place, the reason and the fix."""


# Text and JSON


def check_name(name: str, what: str) -> None:
    """Raise DatasetError if a name cannot be part of a file's name: a path, empty, or of other characters."""
    if not NAME.fullmatch(name):
        raise DatasetError(f"{what} {name!r} is not a name; type letters, digits and . _ + - (no path)")


@contextlib.contextmanager
def text_file(path: Path) -> Iterator[IO[str]]:
    """Open a UTF-8 file to read; line ends stay, a byte order mark is skipped. Raises DatasetError for another file."""
    if not path.is_file():
        raise DatasetError(f"there is no file {path}; type the path of a local file")
    with path.open(encoding="utf-8-sig", newline="") as file:
        try:
            yield file
        except UnicodeDecodeError as error:
            raise DatasetError(f"{path} is not UTF-8 ({error.reason}); save the file as UTF-8") from None


def read_json(path: Path) -> Any:
    """Return the content of a JSON file. Raises DatasetError if it is not JSON."""
    with text_file(path) as file:
        try:
            return json.load(file)
        except (ValueError, RecursionError) as error:
            raise DatasetError(f"{path}: not JSON ({error})") from None


def read_objects(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield ("FILE, line N", JSON value) of each line; empty lines are skipped."""
    with text_file(path) as file:
        for number, line in enumerate(file, 1):
            try:
                value = json.loads(line) if line.strip() else None
            except (ValueError, RecursionError) as error:
                raise DatasetError(f"{path}, line {number}: not JSON ({error})") from None
            if value is not None:
                yield f"{path}, line {number}", value


# The parts of a set


class Metadata(BaseModel):
    """dataset.json: HRM's and TRM's fields, then ours (which their readers ignore)."""

    model_config = ConfigDict(extra="allow")

    pad_id: int
    ignore_label_id: int | None
    blank_identifier_id: int
    vocab_size: int = Field(gt=0, le=INT32_MOST)
    seq_len: int = Field(gt=0, le=INT32_MOST)
    num_puzzle_identifiers: int = Field(gt=0, le=INT32_MOST)
    total_groups: int = Field(ge=0)
    mean_puzzle_examples: float
    sets: list[str] = Field(min_length=1, max_length=1)
    total_puzzles: int | None = None  # not used: TRM's builders of Sudoku and mazes count groups here
    task: dict[str, Any] = Field(default_factory=dict, description='the puzzle: {"name": "sudoku", "size": 6}')
    provenance: dict[str, Any] = Field(default_factory=dict, description="command, seed and version that made it")
    sources: list[str] = Field(default_factory=list, description="where imported puzzles come from")
    structure: Structure | None = Field(None, description="grid, groups, relations and symbols; null: of the family")

    @model_validator(mode="after")
    def _fits(self) -> Metadata:
        if fault := self.structure and self.structure.fault(self.seq_len, self.vocab_size):
            raise ValueError(f"structure: {fault}")
        check_name(self.sets[0], "sets:")
        return self


def parts(count: int) -> Iterator[slice]:
    """Yield slices of `ROWS` rows each that cover `count` rows."""
    for first in range(0, count, ROWS):
        yield slice(first, min(first + ROWS, count))


@dataclass(frozen=True)
class Split:
    """The arrays of one split. Tokens are uint8 or int32, indices int64; a missing rating is NaN.

    Arrays of large splits are mapped, and their indices may be int32.
    """

    inputs: np.ndarray  # (N, S)
    labels: np.ndarray  # (N, S)
    puzzle_identifiers: np.ndarray  # (P,)
    puzzle_indices: np.ndarray  # (P+1,)
    group_indices: np.ndarray  # (G+1,)
    ratings: np.ndarray | None = None  # (P,)
    sources: np.ndarray | None = None  # (P,)
    relations: np.ndarray | None = None  # (N, M, 1 + C + n_cells)

    def relations_of(self, example: int) -> np.ndarray | None:
        """Return the instances (M, 1 + C + n_cells) of one example."""
        return None if self.relations is None else self.relations[example]

    def parts(self) -> Iterator[tuple[int, Split]]:
        """Yield the number of the first example and a split, for each part of the examples.

        Each example of a part is a separate puzzle, without identifiers, ratings and sources.
        """
        for rows in parts(len(self.inputs)):
            relations = None if self.relations is None else self.relations[rows]
            yield rows.start, Split.of_puzzles(self.inputs[rows], self.labels[rows], relations=relations)

    @classmethod
    def of_puzzles(
        cls,
        inputs: np.ndarray,
        labels: np.ndarray,
        ratings: np.ndarray | None = None,
        sources: np.ndarray | None = None,
        relations: np.ndarray | None = None,
    ) -> Split:
        """Return a split with one example for each puzzle and group, and identifier 0 (Sudoku, mazes, addition)."""
        indices = np.arange(len(inputs) + 1)
        return cls(inputs, labels, np.zeros(len(inputs), np.int64), indices, indices, ratings, sources, relations)


def unscored_as_pad(split: Split) -> Split:
    """Replace labels of -100 by token 0, which every family can draw and check."""
    if split.labels.dtype == np.uint8:
        return split
    return replace(split, labels=np.where(split.labels == UNSCORED, 0, split.labels))


def unscored_examples(metadata: Metadata, split: Split) -> int:
    """Return the number of examples without a scored cell, which no accuracy can count."""
    return sum(int(_unscored(split.labels[rows], metadata).all(1).sum()) for rows in parts(len(split.labels)))


def _unscored(labels: np.ndarray, metadata: Metadata) -> np.ndarray:
    return (labels == UNSCORED) | (labels == metadata.ignore_label_id)


# Writing


def check_free(directory: Path) -> None:
    """Raise DatasetError if a folder is in use or cannot be made."""
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise DatasetError(f"{directory} already exists and is not empty; type another --output-dir or remove it")
    above = next(path for path in Path(os.path.abspath(directory)).parents if path.exists())
    if directory.is_symlink() and not directory.exists():
        above = directory  # a link to nothing
    if not above.is_dir() or not os.access(above, os.W_OK):
        raise DatasetError(f"{directory} cannot be made: {above} is no folder to write to; type another --output-dir")


@contextlib.contextmanager
def atomic_directory(directory: Path) -> Iterator[Path]:
    """Yield a scratch folder that becomes `directory`, which must be free, if the block succeeds; else remove it."""
    check_free(directory)
    with published(directory) as scratch:
        scratch.mkdir()
        yield scratch


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

    Tokens are stored as uint8 if the vocabulary fits, indices as int32. `files` are JSON files at the root.
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
                arrays[key] = tokens.astype(np.uint8 if small else np.int32, copy=False)  # some sets ignore -100
            arrays |= {key: getattr(split, key) for key in OPTIONAL if getattr(split, key) is not None}
            for key, array in arrays.items():
                np.save(folder / f"all__{key}.npy", array)
            puzzles, groups = len(split.puzzle_indices) - 1, len(split.group_indices) - 1
            metadata = Metadata(
                seq_len=split.inputs.shape[1],
                total_groups=groups,
                total_puzzles=puzzles,
                mean_puzzle_examples=len(split.inputs) / max(puzzles, 1),
                sets=["all"],
                task=dict(task),
                pad_id=pad_id,
                ignore_label_id=ignore_label_id,
                blank_identifier_id=blank_identifier_id,
                vocab_size=vocab_size,
                num_puzzle_identifiers=len(identifiers),
                provenance=_utf8(dict(provenance or {})),
                sources=_utf8(sources or []),
                structure=structure,
            )
            (folder / "dataset.json").write_text(metadata.model_dump_json(indent=2) + "\n", encoding="utf-8")


def _utf8(content: Any) -> Any:
    """Return JSON content with ? for what UTF-8 lacks, such as single bytes in a file's name."""
    return json.loads(json.dumps(content, ensure_ascii=False).encode(errors="replace"))


# Loading, with every check of the layout


def splits_of(directory: Path | str) -> list[str]:
    """Return the splits that a dataset folder holds, in the order train, validation, test, others."""
    names = [path.parent.name for path in Path(directory).glob("*/dataset.json") if NAME.fullmatch(path.parent.name)]
    return sorted(names, key=lambda name: (SPLITS.index(name) if name in SPLITS else len(SPLITS), name))


def read_metadata(directory: Path | str, split: str) -> Metadata:
    """Read and check SPLIT/dataset.json."""
    directory = Path(directory)
    check_name(split, "split")
    path = directory / split / "dataset.json"
    if directory.is_file():
        raise DatasetError(f"{directory} is a file; a set is a folder")
    if not directory.is_dir():
        make = f"python -m datasets_gen PUZZLE --output-dir {shlex.quote(str(directory))}"
        raise DatasetError(f"no dataset at {directory}; make one with `{make}` (see python -m datasets_gen --help)")
    if not path.is_file():
        splits = ", ".join(splits_of(directory)) or "none"
        raise DatasetError(f"{directory} has no split '{split}'; splits with a dataset.json: {splits}")
    try:
        return Metadata.model_validate_json(path.read_bytes().removeprefix(codecs.BOM_UTF8))
    except ValidationError as error:
        first = error.errors()[0]
        where = "".join(f"{key}: " for key in first["loc"])
        what = first["msg"].removeprefix("Value error, ")
        raise DatasetError(f"{path}: {where}{what}; regenerate or re-import the set") from None


def check_alike(directory: Path | str, splits: Mapping[str, Metadata], fields: Sequence[str] = SHARED) -> None:
    """Raise DatasetError if splits differ in one of `fields`."""
    first = next(iter(splits), "")
    for name, metadata in splits.items():
        for field in fields:
            ours, theirs = getattr(metadata, field), getattr(splits[first], field)
            if ours != theirs:
                raise DatasetError(f"{Path(directory) / name}: {field} is {ours}, but {theirs} in {first}")


def check_splits(directory: Path | str) -> None:
    """Raise DatasetError if a split of a set lacks a file or has other sizes; the arrays are not loaded."""
    splits = {name: read_metadata(directory, name) for name in splits_of(directory)}
    check_alike(directory, splits, ("seq_len", "vocab_size", "num_puzzle_identifiers"))
    for split, metadata in splits.items():
        read_identifiers(directory, metadata)
        files = [Path(directory) / split / f"{metadata.sets[0]}__{key}.npy" for key in ARRAYS]
        if missing := [file for file in files if not file.is_file()]:
            raise DatasetError(f"{missing[0]} is missing; regenerate or re-import the set")


def read_identifiers(directory: Path | str, metadata: Metadata) -> list[str]:
    """Return the names of the puzzle identifiers in identifiers.json; without the file, numbered names."""
    path, count = Path(directory) / "identifiers.json", metadata.num_puzzle_identifiers
    if not path.exists():
        return ["<blank>" if i == metadata.blank_identifier_id else f"puzzle-{i}" for i in range(count)]
    names = read_json(path)
    strings = [name for name in names if isinstance(name, str)] if isinstance(names, list) else []
    if names != strings or not len(strings) == len(set(strings)) == count:
        raise DatasetError(f"{path} must hold a list of {count} different names, as dataset.json says")
    return names


def read_split(directory: Path | str, split: str) -> tuple[Metadata, Split]:
    """Load one split. Raises DatasetError if it breaks a rule of the layout; rules of the puzzle are not checked.

    The arrays of a split whose files hold more than `LARGE` bytes are mapped: they stay on disk, and the system keeps
    in memory what fits. A mapped file must not shrink: reading beyond its end would kill the process.
    """
    metadata = read_metadata(directory, split)
    folder = Path(directory) / split
    arrays = _read_arrays(folder, metadata.sets[0], metadata)
    stated, groups = metadata.total_groups, len(arrays.group_indices) - 1
    if stated != groups:
        raise DatasetError(f"{folder}: dataset.json says {stated} groups, the arrays hold {groups}")
    return metadata, arrays


def _load(path: Path, on_disk: bool) -> np.ndarray:
    """Load an array of whole numbers (ratings may be fractions) in this machine's byte order, row by row.

    on_disk: map the file if it is stored in that form. The mapping is private: nothing is written to the file.
    """
    if not path.is_file():
        raise DatasetError(f"{path} is missing; regenerate or re-import the set")
    try:
        mapped = np.load(path, mmap_mode="c", allow_pickle=False)
        kind = mapped.dtype.kind
    except Exception as error:  # a torn file makes numpy raise almost anything
        why = " ".join(str(error).split())
        fix = "save whole numbers" if "bject" in why else "the file is torn: regenerate or copy it again"
        raise DatasetError(f"{path} cannot be read ({why}); {fix}") from None
    if kind not in "iu" and not (kind == "f" and path.name.endswith("__ratings.npy")):
        raise DatasetError(f"{path} holds {mapped.dtype}; save whole numbers: array.astype(numpy.int32)")
    wanted = np.dtype(np.float64) if kind == "f" else mapped.dtype.newbyteorder("=")
    return np.asanyarray(mapped, wanted, order="C") if on_disk else np.array(mapped, wanted, order="C")


def _read_arrays(folder: Path, name: str, metadata: Metadata) -> Split:
    on_disk = sum(path.stat().st_size for path in folder.glob(f"{name}__*.npy")) > LARGE
    paths = {key: folder / f"{name}__{key}.npy" for key in (*ARRAYS, *OPTIONAL)}
    arrays = {key: _load(path, on_disk) for key, path in paths.items() if key in ARRAYS or path.exists()}
    for key in ("inputs", "labels"):
        _check_tokens(paths[key], arrays[key], metadata, unscored=key == "labels")
        if arrays[key].dtype not in (np.uint8, np.int32):
            arrays[key] = np.asarray(arrays[key], np.int32)
    examples = len(arrays["inputs"])
    if examples != len(arrays["labels"]):
        raise DatasetError(f"{folder}: {examples} inputs but {len(arrays['labels'])} labels in set '{name}'")
    puzzles = arrays["puzzle_indices"].size - 1
    _check_indices(paths["puzzle_indices"], arrays["puzzle_indices"], examples, "examples")
    _check_indices(paths["group_indices"], arrays["group_indices"], puzzles, "puzzles")
    for key in ("puzzle_identifiers", "ratings", "sources"):
        if key in arrays and arrays[key].shape != (puzzles,):
            raise DatasetError(f"{paths[key]} has shape {arrays[key].shape}, {puzzles} puzzles expected")
    for key, count in (("puzzle_identifiers", metadata.num_puzzle_identifiers), ("sources", len(metadata.sources))):
        numbers = arrays.get(key, np.zeros(0, np.int32))
        if len(numbers) and not 0 <= numbers.min() <= numbers.max() < count:
            raise DatasetError(f"{paths[key]}: a number is outside 0..{count - 1}")
    if "relations" in arrays:
        _check_relations(paths["relations"], arrays["relations"], examples, metadata)
    arrays["puzzle_identifiers"] = arrays["puzzle_identifiers"].astype(np.int32, copy=False)
    if not on_disk:
        arrays |= {key: arrays[key].astype(np.int64) for key in ("puzzle_indices", "group_indices")}
    return Split(**arrays)


def _check_tokens(path: Path, tokens: np.ndarray, metadata: Metadata, unscored: bool) -> None:
    """Refuse tokens (N, S) outside the vocabulary; unscored: labels without a score are allowed."""
    if tokens.ndim != 2 or tokens.shape[1] != metadata.seq_len:
        raise DatasetError(f"{path} has shape {tokens.shape}, dataset.json says seq_len {metadata.seq_len}")
    for rows in parts(len(tokens)):
        some = tokens[rows]
        outside = (some < 0) | (some >= metadata.vocab_size)
        if unscored:
            outside &= ~_unscored(some, metadata)
        if outside.any():
            row, column = np.argwhere(outside)[0]
            raise DatasetError(
                f"{path}: token {some[row, column]} at example {rows.start + row}, cell {column} is outside "
                f"the vocabulary 0..{metadata.vocab_size - 1}"
            )


def _check_indices(path: Path, indices: np.ndarray, total: int, what: str) -> None:
    ends = indices.ravel()[[0, -1]].tolist() if indices.size else []
    if indices.ndim != 1 or ends != [0, total]:
        raise DatasetError(f"{path} must run from 0 to the {total} {what}, got {ends}")
    if (indices[1:] <= indices[:-1]).any():
        raise DatasetError(f"{path} must increase: an entry owns no {what}")


def _check_relations(path: Path, rows: np.ndarray, examples: int, metadata: Metadata) -> None:
    """Refuse instances (N, M, 1 + C + n_cells) that name no relation, no cell or no number of the set's structure."""
    relations = () if metadata.structure is None else metadata.structure.relations
    if not relations:
        raise DatasetError(f"{path} holds relations, and dataset.json declares none in its structure")
    clues = max(relation.clues for relation in relations)
    if rows.ndim != 3 or len(rows) != examples or rows.shape[2] < 2 + clues:
        raise DatasetError(f"{path} has shape {rows.shape}, ({examples}, M, 1 + {clues} + cells) expected")
    last = min(metadata.seq_len - 1, MOST)
    facts = np.array([(relation.places, relation.clues, relation.highest) for relation in relations])
    for part in parts(examples):
        some = rows[part]
        kinds, numbers, cells = some[..., 0], some[..., 1 : 1 + clues], some[..., 1 + clues :]
        places, most, highest = np.moveaxis(facts[np.clip(kinds, 0, len(relations) - 1)], -1, 0)
        ordered, count = np.sort(cells, -1), (cells >= 0).sum(-1)
        wrong = (kinds < -1) | (kinds >= len(relations)) | ((kinds < 0) & (some[..., 1:] >= 0).any(-1))
        wrong |= ((numbers < -1) | (numbers > highest[..., None])).any(-1) | ((numbers >= 0).sum(-1) > most)
        wrong |= ((cells < -1) | (cells > last)).any(-1)
        wrong |= ((ordered[..., 1:] == ordered[..., :-1]) & (ordered[..., 1:] >= 0)).any(-1)
        wrong |= ((cells[..., :-1] < 0) & (cells[..., 1:] >= 0)).any(-1)
        wrong |= (kinds >= 0) & ((count == 0) | ((places > 0) & (count != places)))
        if wrong.any():
            example, instance = np.argwhere(wrong)[0]
            raise DatasetError(
                f"{path}: instance {instance} of example {part.start + example} does not fit the structure's "
                f"relations: a relation, its numbers, and as many different cells 0..{last} as it has"
            )
