"""Tokenizers: bytes, words and marks, and byte pairs (BPE). Token 0 pads; each document begins and ends with `end`."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from datasets_gen.layout import DatasetError

PAD, END, UNKNOWN = "", "¶", "�"  # how text shows the tokens that stand for no text
WORD = re.compile(r"\w+|[^\w\s]")  # the blind-spot paper's "regex tokenizer": words and marks, without white space
KINDS = ("bytes", "words", "bpe")


class Tokenizer(ABC):
    """Text ↔ tokens. `lines` is the fitted vocabulary, a line each: what a set keeps of it."""

    size: int  # V, padding included
    end: int

    @abstractmethod
    def encode(self, text: str) -> list[int]:
        """The tokens of a text, without `end`."""

    @abstractmethod
    def decode(self, tokens: Iterable[int]) -> str:
        """The text of tokens; padding and `end` give none."""


class Bytes(Tokenizer):
    """UTF-8: token t is byte t. Bytes 0 and 255 occur in no text; they pad and end."""

    size, end = 256, 255

    def __init__(self, lines: str = ""):
        pass

    def encode(self, text: str) -> list[int]:
        """The bytes."""
        return list(text.encode())

    def decode(self, tokens: Iterable[int]) -> str:
        """The text of the bytes; one that is cut within a character shows �."""
        return bytes(token for token in tokens if 0 < token < self.end).decode(errors="replace")


class Words(Tokenizer):
    """Words and marks; one that is not in the vocabulary is token 2."""

    end = 1

    def __init__(self, lines: str):
        self.words = [PAD, "", UNKNOWN, *lines.split("\n")]
        self.size, self._numbers = len(self.words), {word: number for number, word in enumerate(self.words)}

    def encode(self, text: str) -> list[int]:
        """The numbers of the words."""
        return [self._numbers.get(word, 2) for word in WORD.findall(text)]

    def decode(self, tokens: Iterable[int]) -> str:
        """The words with spaces between; white space as it was is not kept."""
        return " ".join(self.words[token] for token in tokens if token > 1)


class BytePairs(Tokenizer):
    """Byte-level BPE by Hugging Face's `tokenizers`: every text has tokens, and they give it back unchanged."""

    end = 1

    def __init__(self, lines: str):
        library = _library()
        merges = [tuple(line.split(" ")) for line in lines.split("\n") if line]
        alphabet = sorted(library.pre_tokenizers.ByteLevel.alphabet())
        tokens = ["<pad>", "<end>", *alphabet, *("".join(pair) for pair in merges)]
        numbers = {token: number for number, token in enumerate(dict.fromkeys(tokens))}
        self._bpe, self.size = _byte_level(library, vocab=numbers, merges=merges), len(numbers)

    def encode(self, text: str) -> list[int]:
        """The byte pairs."""
        return list(self._bpe.encode(text).ids)

    def decode(self, tokens: Iterable[int]) -> str:
        """The text."""
        return str(self._bpe.decode([token for token in tokens if token > 1]))


@lru_cache(maxsize=4)
def tokenizer_of(kind: str, lines: str) -> Tokenizer:
    """The tokenizer of a set."""
    if kind not in KINDS:
        raise DatasetError(f"tokens {kind!r}: choose from {', '.join(KINDS)}")
    return {"bytes": Bytes, "words": Words, "bpe": BytePairs}[kind](lines)


def fitted(kind: str, texts: Iterable[str], size: int) -> str:
    """The vocabulary of at most `size` tokens that the texts give, a line each; "" of bytes.

    words: the most frequent ones that occur twice or more, equal ones in the order of the alphabet (the blind-spot
    paper: 20,000). bpe: merges, in order.
    """
    if kind == "bytes":
        return ""
    if kind == "words":
        counts = Counter(word for text in texts for word in WORD.findall(text))
        found = [word for word, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])) if count > 1]
        found = found[: size - 3]
        has = len(found) + 3
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
        found, has = _merges(bpe), bpe.get_vocab_size()
    if has < size:
        raise DatasetError(f"--vocabulary {size}: the text has {has} {kind} that occur twice or more; give {has}")
    return "\n".join(found)


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


def _merges(bpe: Any) -> list[str]:
    """'a b' of each pair that is merged, in order."""
    merges = json.loads(bpe.to_str())["model"]["merges"]
    return [pair if isinstance(pair, str) else " ".join(pair) for pair in merges]
