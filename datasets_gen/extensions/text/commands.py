"""`python -m datasets_gen text`: windows of text files, split by document."""

from __future__ import annotations

import argparse
import gzip
import json
import re
import shlex
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from datasets_gen.arguments import add_command, described, whole_number
from datasets_gen.commands import COMMANDS
from datasets_gen.extensions.text.puzzles import Text
from datasets_gen.extensions.text.tokens import KINDS, fitted
from datasets_gen.family import row_keys
from datasets_gen.layout import SPLITS, DatasetError, Split, check_free, write_dataset
from datasets_gen.progress import Progress
from datasets_gen.scratch import scratch_beside
from datasets_gen.version import __version__

FEW, PARTS = 10, 100  # fewer than FEW documents are cut into about PARTS parts
VOCABULARY = 4096  # tokens
MADE_BY = ("tokens", "vocabulary", "window", "stride", "validation", "test", "field", "encoding", "seed")
SUFFIXES = (".txt", ".md", ".rst", ".py", ".jsonl")  # of files that are read in a folder, also if followed by .gz
PAGE = f"""Make a set of windows of text, for causal models.

Cuts text files into windows of tokens; a cell's label is the next token. A document is a file, or a line of a .jsonl
file; each document is in one split. In a folder, files ending in {", ".join(SUFFIXES)} are read, also if compressed
(.gz). Equal documents and windows are kept once.

  python -m datasets_gen text books/ --output-dir data/books                    bytes, windows of 128
  python -m datasets_gen text *.md --tokens bpe --vocabulary 2000 --output-dir data/notes
  python -m datasets_gen text stories.jsonl.gz --field story --tokens words --window 256 --output-dir data/stories
"""


def add_parser(commands: argparse._SubParsersAction) -> None:
    """Add the `text` command."""
    add = add_command(commands, "text", run, PAGE).add_argument
    add("files", type=Path, nargs="+", metavar="FILE", help="files and folders")
    help = "bytes: UTF-8; words: words and marks; bpe: byte pairs, fitted here (default bytes)"
    add("--tokens", choices=KINDS, default="bytes", help=help)
    help = "tokens of words and bpe, fitted to the train split (default 4096)"
    add("--vocabulary", type=whole_number, metavar="V", help=help)
    add("--window", type=whole_number, default=128, metavar="S", help="tokens of an example (default 128)")
    help = "distance between the beginnings of windows; outside the train split, a token is scored once (default: S)"
    add("--stride", type=whole_number, metavar="N", help=help)
    add("--validation", type=float, default=0.0, metavar="P", help="share of the documents (default 0)")
    add("--test", type=float, default=0.1, metavar="P", help="share of the documents (default 0.1)")
    add("--field", default="text", help="field of a .jsonl line that contains the text (default text)")
    add("--encoding", default="utf-8", help="encoding of the files (default utf-8)")
    add("--seed", type=whole_number, default=0, help="random seed of the split by documents (default 0)")
    add("--output-dir", type=Path, required=True, metavar="DIR", help="a folder that does not exist yet")


def run(options: argparse.Namespace) -> None:
    """Read the documents, tokenize them, and save their windows."""
    check_free(options.output_dir)
    stride = options.window if options.stride is None else options.stride
    if not 2 <= options.window <= 2**20 or not 1 <= stride <= options.window:
        raise DatasetError(
            f"--window {options.window} --stride {stride}: windows need 2 tokens or more, and strides at most as many"
        )
    if not (min(options.test, options.validation) >= 0 and options.test + options.validation < 1):  # or NaN
        raise DatasetError(f"--test {options.test} --validation {options.validation}: type shares with a sum below 1")
    if options.tokens == "bytes" and options.vocabulary is not None:
        raise DatasetError(f"--vocabulary {options.vocabulary}: bytes are not fitted; leave it out")
    read = (document for path in options.files for document in documents(path, options.field, options.encoding))
    texts = _once(Progress(read, desc="reading", unit="document"))
    if len(texts) < FEW:
        size = -(-sum(map(len, texts.values())) // PARTS)
        texts = _once(part for name, text in texts.items() for part in _cut(name, text, size))
    split_of = _splits(list(texts), options)
    trained = (text for name, text in texts.items() if split_of[name] == "train")
    size = VOCABULARY if options.vocabulary is None else options.vocabulary
    puzzle = Text(options.window, options.tokens, fitted(options.tokens, trained, size))
    with scratch_beside(options.output_dir) as scratch:
        splits = _tokenized(texts, split_of, puzzle, stride, scratch)
        made_by = {key: getattr(options, key) for key in MADE_BY if getattr(options, key) is not None}
        words = [word for key, value in made_by.items() for word in (f"--{key}", str(value))]
        write_dataset(
            options.output_dir,
            splits,
            **described(puzzle),
            sources=list(split_of),
            provenance={
                "command": f"python -m datasets_gen {shlex.join(['text', *map(str, options.files), *words])}",
                "generator": "text",
                "version": __version__,
            },
        )
    tokens = ", ".join(f"{(split.labels != 0).sum():,} {name}" for name, split in splits.items())
    print(f"{options.output_dir}: {tokens} tokens of {len(split_of):,} documents, vocabulary {puzzle.vocab_size:,}")


def documents(path: Path, field: str, encoding: str) -> Iterator[tuple[str, str]]:
    """Yield name and text of each document of a file, or of all files of a folder in sorted order."""
    files = sorted(file for file in path.rglob("*") if _readable(file)) if path.is_dir() else [path]
    if not files:
        raise DatasetError(f"{path} has no file that ends in {', '.join(SUFFIXES)}, or one of these and .gz")
    for file in files:
        if not file.is_file():
            raise DatasetError(f"no file {file}; give the path of a local file or folder")
        opened = gzip.open if file.suffix == ".gz" else Path.open
        read_as = "utf-8-sig" if encoding == "utf-8" else encoding  # without a byte order mark
        try:
            with opened(file, "rt", encoding=read_as) as stream:
                if not file.name.removesuffix(".gz").endswith(".jsonl"):
                    yield str(file), stream.read()
                    continue
                for number, line in enumerate(stream, 1):
                    if line.strip():
                        yield f"{file}:{number}", _line_text(line, field, f"{file}:{number}")
        except (UnicodeError, LookupError) as error:
            why = f"{file} is not {encoding} ({error})"
            raise DatasetError(f"{why}; type its --encoding, or save it as UTF-8") from None
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise DatasetError(f"{file} is damaged ({error})") from None


def _readable(file: Path) -> bool:
    return file.name.removesuffix(".gz").endswith(SUFFIXES) and file.is_file()


def _line_text(line: str, field: str, where: str) -> str:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DatasetError(f"{where} is not JSON ({error})") from None
    if not isinstance(value, dict) or not isinstance(value.get(field), str):
        has = ", ".join(value) if isinstance(value, dict) else "no object"
        raise DatasetError(f"{where} has no text in the field {field!r} ({has}); type its --field")
    return str(value[field])


def _once(documents: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Collect the texts by name; keeps the first of equal texts and skips empty ones."""
    names: dict[str, str] = {}
    for name, text in documents:
        if "\0" in text:
            raise DatasetError(f"{name} contains a zero byte, so it is not a text")
        if re.search("[\ud800-\udfff]", text):
            raise DatasetError(f"{name} contains half of a surrogate pair, so it is not Unicode; remove it")
        if text.strip():
            names.setdefault(text, name)
    return {name: text for text, name in names.items()}


def _cut(name: str, text: str, size: int) -> Iterator[tuple[str, str]]:
    """Cut a text at line ends into parts; a part ends when it has `size` characters or more."""
    part, number = "", 1
    for line in text.splitlines(keepends=True):
        part += line
        if len(part) >= size:
            yield f"{name}, part {number}", part
            part, number = "", number + 1
    yield f"{name}, part {number}", part


def _splits(names: list[str], options: argparse.Namespace) -> dict[str, str]:
    """Return the split of each document by its name."""
    sizes = {name: max(1, round(getattr(options, name) * len(names))) for name in SPLITS[1:] if getattr(options, name)}
    if sum(sizes.values()) >= len(names):
        raise DatasetError(f"{len(names)} documents are too few for {len(sizes) + 1} splits; add some, or --test 0")
    order = [names[number] for number in np.random.default_rng(options.seed).permutation(len(names))]
    split_of, first = dict.fromkeys(names, "train"), 0
    for split, size in sizes.items():
        split_of |= dict.fromkeys(order[first : first + size], split)
        first += size
    return split_of


def _tokenized(
    texts: dict[str, str], split_of: dict[str, str], puzzle: Text, stride: int, scratch: Path
) -> dict[str, Split]:
    """Make the windows of every split, and write them to disk at once.

    Test and validation come first, because their windows are excluded from training.
    """
    kind, window = np.uint8 if puzzle.vocab_size <= 256 else np.int32, puzzle.window
    seen: set[int] = set()
    numbers = {name: number for number, name in enumerate(split_of)}
    splits = {}
    with Progress(total=len(split_of), desc="tokenizing", unit="document") as bar:
        for split in reversed(SPLITS):
            names, sources = [name for name, its_split in split_of.items() if its_split == split], []
            if not names:
                continue
            paths = [scratch / f"{split}.{part}" for part in ("inputs", "labels")]
            with paths[0].open("wb") as inputs, paths[1].open("wb") as labels:
                for name in names:
                    tokens = [puzzle.end, *puzzle.tokenizer.encode(texts[name]), puzzle.end]
                    rows = windows(np.array(tokens, kind), window, stride, every=split == "train")
                    new = []
                    for row, key in enumerate(row_keys(rows[0]).tolist()):
                        if key not in seen:
                            seen.add(key)
                            new.append(row)
                    rows[0][new].tofile(inputs)
                    rows[1][new].tofile(labels)
                    sources += [numbers[name]] * len(new)
                    bar.update()
            if not sources:
                raise DatasetError(f"every window of the {split} split is also in another split; add files")
            inputs_there, labels_there = (np.memmap(path, kind, "r", shape=(len(sources), window)) for path in paths)
            splits[split] = Split.of_puzzles(inputs_there, labels_there, sources=np.array(sources, np.int32))
    return {name: splits[name] for name in SPLITS if name in splits}


def windows(tokens: np.ndarray, window: int, stride: int, every: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs and labels (N, window) of a document's tokens (n,), padded with 0; a label is the next token.

    every: all labels are scored. Otherwise labels that the previous window scored are not, so that each token counts
    once and has at least window − stride tokens before it.
    """
    starts = range(0, max(1, len(tokens) - 1 - (window - stride)), stride)  # the last one ends with the document
    inputs, labels = np.zeros((2, len(starts), window), tokens.dtype)
    for row, start in enumerate(starts):
        some, after = tokens[start:-1][:window], tokens[start + 1 :][:window]
        inputs[row, : len(some)], labels[row, : len(after)] = some, after
        if row and not every:
            labels[row, : window - stride] = 0
    return inputs, labels


COMMANDS.append(add_parser)
