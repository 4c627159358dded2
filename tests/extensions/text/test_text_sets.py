"""Sets of text: tokens that give the text back, windows that score each token once, documents in one split."""

import gzip
import itertools
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datasets_gen.__main__ import main
from datasets_gen.extensions.text.commands import windows
from datasets_gen.extensions.text.puzzles import Text
from datasets_gen.extensions.text.tokens import fitted, tokenizer_of
from datasets_gen.layout import DatasetError, read_metadata, read_split
from datasets_gen.puzzles import puzzle_of

TEXTS = ["the cat sat on the mat. ", "the dog sat on the log! ", "Ärger, naïve — 猫 sat.\n\ttwice the cat\n"]


def test_words_are_the_most_frequent_that_occur_twice():
    lines = fitted("words", TEXTS, 8)
    assert lines.split("\n") == ["the", "sat", ".", "cat", "on"]
    words = tokenizer_of("words", lines)
    assert (words.size, words.encode("the cat bit the dog.")) == (8, [3, 6, 2, 3, 2, 5])
    assert words.decode([1, 3, 6, 2, 1, 0]) == "the cat �"
    for kind, few, many in (("words", 3, 100), ("bpe", 257, 2000)):
        with pytest.raises(DatasetError, match=f"--vocabulary {few}: {kind} need {few + 1} or more"):
            fitted(kind, TEXTS, few)
        with pytest.raises(DatasetError, match=rf"--vocabulary {many}: {kind} .* make \d+ tokens; type --vocabulary"):
            fitted(kind, TEXTS, many)


@pytest.mark.parametrize("kind", ["bytes", "bpe"])
@settings(max_examples=40)
@given(text=st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])))
def test_bytes_and_byte_pairs_give_the_text_back(kind, text):
    tokenizer = tokenizer_of(kind, fitted(kind, TEXTS, 270))
    tokens = tokenizer.encode(text)
    assert tokenizer.decode(tokens) == text
    assert not {0, tokenizer.end} & set(tokens)
    assert all(0 <= token < tokenizer.size for token in tokens)


def test_windows_by_hand():
    tokens = np.array([9, 1, 2, 3, 4, 5, 9])
    inputs, labels = windows(tokens, 4, 2, every=False)
    assert inputs.tolist() == [[9, 1, 2, 3], [2, 3, 4, 5]]
    assert labels.tolist() == [[1, 2, 3, 4], [0, 0, 5, 9]]
    assert windows(tokens, 4, 2, every=True)[1].tolist() == [[1, 2, 3, 4], [3, 4, 5, 9]]
    inputs, labels = windows(tokens, 8, 8, every=False)
    assert (inputs.tolist(), labels.tolist()) == ([[9, 1, 2, 3, 4, 5, 0, 0]], [[1, 2, 3, 4, 5, 9, 0, 0]])


@given(length=st.integers(2, 60), window=st.integers(2, 16), stride=st.integers(1, 16))
def test_every_token_is_scored_once(length, window, stride):
    tokens = np.arange(1, length + 1)
    inputs, labels = windows(tokens, window, min(stride, window), every=False)
    assert labels[labels > 0].tolist() == tokens[1:].tolist()
    assert (labels[labels > 0] == inputs[labels > 0] + 1).all()


def files(folder):
    """Thirty documents in a folder, of every kind that is read, with an empty file, a twin and a stranger."""
    (folder / "deep").mkdir(parents=True)
    names = [" ".join(letters) for letters in itertools.product("abcd", repeat=3)][:30]
    texts = [f"Document {name}. The cat sat on {name}.\n" for name in names]
    for number, text in enumerate(texts[:10]):
        (folder / f"{number}.txt").write_text(text)
    (folder / "deep" / "twin.md").write_text(texts[0])
    (folder / "deep" / "empty.py").write_text("")
    (folder / "deep" / "picture.png").write_bytes(b"\x89PNG")
    lines = [json.dumps({"text": text}) + "\n" for text in texts]
    (folder / "lines.jsonl").write_text("".join(lines[10:20]))
    (folder / "packed.jsonl.gz").write_bytes(gzip.compress("".join(lines[20:]).encode()))
    return folder


@pytest.mark.parametrize("kind", ["bytes", "words --vocabulary 13", "bpe --vocabulary 270"])
def test_a_folder_becomes_a_set(tmp_path, made, kind):
    folder = made(f"text {files(tmp_path / 'texts')} --tokens {kind} --window 16 --stride 8 --validation 0.1")
    documents = {}
    for split, count in (("train", 24), ("validation", 3), ("test", 3)):
        metadata, arrays = read_split(folder, split)
        puzzle = puzzle_of(metadata)
        assert isinstance(puzzle, Text)
        documents[split] = {metadata.sources[number] for number in np.unique(arrays.sources)}
        assert len(documents[split]) == count
        if "bytes" in kind and split != "train":
            named = arrays.labels[arrays.sources == arrays.sources[0]]
            assert puzzle.written(named[named > 0]).startswith("Document")
    assert not documents["train"] & (documents["validation"] | documents["test"])
    assert main(["show", str(folder), "--split", "test"]) == 0
    again = made(metadata.provenance["command"].removeprefix("python -m datasets_gen "), name="again")
    assert (again / "train/all__inputs.npy").read_bytes() == (folder / "train/all__inputs.npy").read_bytes()


def test_one_long_file_is_cut_into_documents(tmp_path, made):
    (tmp_path / "book.txt").write_text("".join(f"Line {number} of a book.\n" for number in range(1000)))
    folder = made("text --window 32", tmp_path / "book.txt")
    metadata = read_metadata(folder, "test")
    assert "None" not in metadata.provenance["command"], "an option that was not typed is not in the command"
    assert 90 <= len(metadata.sources) <= 101
    assert metadata.sources[0].endswith("book.txt, part 1")


FAULTS = {  # content, further words, what is said
    "a.txt": (b"\xff\xfe caf\xe9", "", "is not utf-8"),
    "b.txt": ("a", "--encoding utf-16", "is not utf-16"),
    "b.txt.gz": (gzip.compress(b"a" * 99)[:12] + b"\xff" * 12, "", "b.txt.gz is damaged"),
    "c.txt": ("a\0b", "", "contains a zero byte"),
    "d.jsonl": ('{"text": "\\ud800"}\n', "", "half of a surrogate pair"),
    "e.jsonl": ('{"story": "x"}\n', "", "no text in the field 'text' (story); type its --field"),
    "f.jsonl": ("{]\n", "", "f.jsonl:1 is not JSON"),
    "f2.jsonl": ("[" * 100_000, "", "f2.jsonl:1 is not JSON"),
    "f3.txt": ("a", "--test nan", "type shares with a sum below 1"),
    "g.txt": ("one", "", "are too few for 2 splits"),
    "h.txt": ("one\ntwo\nsix\nten\n" * 9, "--tokens words --vocabulary 50", "make 3 tokens; type --tokens bytes"),
    "j.txt": ("one\n" * 99, "--window 1", "--window 1 --stride 1: windows need 2 tokens or more"),
    "nothing/x.bin": (b"1", "", "has no file that ends in .txt"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_file_that_cannot_be_read_gets_one_line(name, tmp_path, refused):
    content, words, said = FAULTS[name]
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    named = file.parent if name.startswith("nothing") else file
    refused(["text", named, *words.split(), "--output-dir", tmp_path / "set"], said)
    refused(["text", tmp_path / "absent.txt", "--output-dir", tmp_path / "set"], "no file")
