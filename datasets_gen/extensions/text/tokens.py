"""Tokenizers: bytes, words and marks, and byte pairs (BPE). Token 0 pads; each document begins and ends with `end`."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, NamedTuple

from datasets_gen.layout import DatasetError

PAD, END, UNKNOWN = "", "¶", "�"  # characters that show the tokens without text
WORD = re.compile(r"\w+|[^\w\s]")  # the blind-spot paper's "regex tokenizer": words and marks, without white space


class Tokenizer(NamedTuple):
    """A pair of functions between text and tokens."""

    size: int  # V, padding included
    end: int
    encode: Callable[[str], list[int]]  # the tokens of a text, without `end`
    decode: Callable[[Iterable[int]], str]  # their text; padding and `end` give none


def _bytes(lines: str) -> Tokenizer:
    """UTF-8: token t is byte t. Bytes 0 and 255 occur in no text; they pad and end. A character cut short shows �."""
    return Tokenizer(
        256,
        255,
        lambda text: list(text.encode()),
        lambda tokens: bytes(token for token in tokens if 0 < token < 255).decode(errors="replace"),
    )


def _words(lines: str) -> Tokenizer:
    """Words and marks; all that are not in the vocabulary become token 2. White space is not kept."""
    words = [PAD, "", UNKNOWN, *lines.split("\n")]
    numbers = {word: number for number, word in enumerate(words)}
    return Tokenizer(
        len(words),
        1,
        lambda text: [numbers.get(word, 2) for word in WORD.findall(text)],
        lambda tokens: " ".join(words[token] for token in tokens if token > 1),
    )


def _byte_pairs(lines: str) -> Tokenizer:
    """Byte-level BPE by Hugging Face's `tokenizers`: any text can be encoded, and is decoded unchanged."""
    library = _library()
    merges = [tuple(line.split(" ")) for line in lines.split("\n") if line]
    alphabet = sorted(library.pre_tokenizers.ByteLevel.alphabet())
    tokens = dict.fromkeys(["<pad>", "<end>", *alphabet, *("".join(pair) for pair in merges)])
    bpe = _byte_level(library, vocab={token: number for number, token in enumerate(tokens)}, merges=merges)
    return Tokenizer(
        len(tokens),
        1,
        lambda text: list(bpe.encode(text).ids),
        lambda tokens: str(bpe.decode([token for token in tokens if token > 1])),
    )


KINDS = {"bytes": _bytes, "words": _words, "bpe": _byte_pairs}


@lru_cache(maxsize=4)
def tokenizer_of(kind: str, lines: str) -> Tokenizer:
    """Return the tokenizer of a set; `lines` is the fitted vocabulary, one entry a line, as the set stores it."""
    if kind not in KINDS:
        raise DatasetError(f"tokens {kind!r}: choose from {', '.join(KINDS)}")
    return KINDS[kind](lines)


def fitted(kind: str, texts: Iterable[str], size: int) -> str:
    """Return the vocabulary of at most `size` tokens fitted to the texts, one entry a line; "" for bytes.

    words: the most frequent ones that occur twice or more, ties in alphabetical order (the blind-spot paper: 20,000).
    bpe: merges, in order.
    """
    if kind == "bytes":
        return ""
    if size < (least := 4 if kind == "words" else 258):  # the special tokens, and a word or every byte
        raise DatasetError(f"--vocabulary {size}: {kind} need {least} or more")
    if kind == "words":
        counts = Counter(word for text in texts for word in WORD.findall(text))
        entries = [word for word, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])) if count > 1]
        entries = entries[: size - 3]
        has = len(entries) + 3
    else:
        library = _library()
        bpe = _byte_level(library)
        trainer = library.trainers.BpeTrainer(
            vocab_size=size,
            special_tokens=["<pad>", "<end>"],
            initial_alphabet=library.pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        bpe.train_from_iterator(texts, trainer)
        merges = json.loads(bpe.to_str())["model"]["merges"]  # pairs, in order
        entries, has = [" ".join(pair) for pair in merges], bpe.get_vocab_size()
    if has < size:
        fix = f"--vocabulary {has}" if has >= least else "--tokens bytes"
        raise DatasetError(f"--vocabulary {size}: {kind} that occur twice or more make {has} tokens; type {fix}")
    return "\n".join(entries)


def _library() -> Any:
    try:
        import tokenizers
    except ImportError:
        raise DatasetError("BPE needs the package `tokenizers`: pip install 'recursive-reasoners[text]'") from None
    return tokenizers


def _byte_level(library: Any, **fitted: Any) -> Any:
    bpe = library.Tokenizer(library.models.BPE(**fitted))
    bpe.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = library.decoders.ByteLevel()
    return bpe
