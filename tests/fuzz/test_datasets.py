"""Random damage to puzzle sets and source files: every command works or refuses in one line; never a traceback."""

import json
import os
import random
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from datasets_gen.__main__ import main

pytestmark = pytest.mark.slow

FIXTURES = Path(__file__).parents[1] / "datasets_gen/fixtures"
CASES = 250  # of each kind and seed
GENERATED = {
    "sudoku": "sudoku --size 4 --train 8 --test 5",
    "maze": "maze --size 6 --min-path 8 --train 6 --test 4",
    "addition": "addition --digits 2 --train 6 --test 4",
    "blank": "addition --digits 2 --blank-answer --train 6 --test 4",
    "arc": f"import arc {FIXTURES}/arc_training_challenges.json {FIXTURES}/arc_evaluation_challenges.json "
    "--augmentations 2 --size 12",
    "csv": f"import sudoku-csv {FIXTURES}/sudoku.csv",
}
TASKS = [
    *({"name": "sudoku"}, {"name": "maze", "size": 6}, {"name": "arc", "size": 12}, {"name": "addition", "digits": 2}),
    *(
        {"name": "addition", "digits": 2, "causal": 1},
        {"name": "addition", "operands": 0},
        {"name": "chess"},
        {"name": 5},
    ),
]
VALUES = [
    *(0, 1, -1, -100, 6, 10, 11, 12, 16, 36, 81, 900, 2**31, 2**63, 1e308, float("nan"), float("inf"), True, None),
    *("", "x", "../..", "\ud800", "\x1b[31m", [], [[]], [1], ["all"], ["all", "all"], {}, {"a": 1}, *TASKS),
    *(
        {"styles": 5},
        {"styles": {"train": 5}},
        {"styles": {"train": {"line_end": 5, "blank": [], "encoding": "foo"}}},
        {"command": "\x1b[2J"},
    ),
]
TOKENS = [
    *(b"", b"-1", b"1.7", b"10", b"Infinity", b"NaN", b"null", b"true", b'"x"', b"[]", b"{}", b"[", b"]", b",", b"\n"),
    *(b"\r", b'"', b"\0", b"\xff", b"\xef\xbb\xbf", b"1e999", b"9" * 5000, b"." * 200_000, b"|||", b"\\ud800"),
]
DTYPES = ["i1", "u2", "u4", "u8", ">i4", ">i8", "f4", ">f8", "b1", "O", "U3", "c16", "M8[s]"]


def changed_array(rng, path):
    """Another type, shape, length, order or element."""
    try:
        array = np.load(path)
    except (ValueError, OSError, EOFError):  # damaged before
        return
    if array.dtype.kind not in "iufb" or not array.size:
        return
    element = array.astype(np.int64)
    element.flat[rng.randrange(array.size)] = rng.choice([-100, -1, 0, 1, 2, 5, 12, 13, 255, 2**31, 2**40])
    shapes = [array[None], array.ravel(), array[:0], array[: len(array) // 2], np.concatenate([array, array])]
    others = [np.array("x"), np.zeros_like(array), array[::-1], element, element, array.astype(float) + np.nan]
    np.save(path, rng.choice([*shapes, *others, array.astype(rng.choice(DTYPES))]))


def changed_json(rng, path):
    """A field or the whole of it is another value, or gone."""
    try:
        content = json.loads(path.read_bytes())
    except (ValueError, OSError, RecursionError):
        return
    if isinstance(content, dict) and content and rng.random() < 0.9:
        key = rng.choice(sorted(content))
        content[key] = rng.choice(VALUES)
        if rng.random() < 0.1:
            del content[key]
    else:
        content = rng.choice(VALUES)
    path.write_text(json.dumps(content))


def changed_bytes(rng, path):
    """Flipped, cut off, or something else altogether."""
    content = bytearray(path.read_bytes())
    for _ in range(rng.choice([0, 1, 3])):
        if content:
            content[rng.randrange(min(len(content), rng.choice([20, 128, 10**9])))] = rng.randrange(256)
    content = content[: rng.choice([len(content), len(content) // 2])]
    path.write_bytes(rng.choice([content, content, b"", b"{", b"[" * 100_000, b"\xff\xfe{\0}\0", b"\xe9", b"null"]))


def not_a_file(rng, path):
    """Gone, or a pipe, a folder, a broken link."""
    path.unlink()
    rng.choice([lambda: None, lambda: os.mkfifo(path), path.mkdir, lambda: path.symlink_to("nowhere")])()


def damage(rng, directory):
    """One to three faults."""
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        files = sorted(path for path in directory.rglob("*") if path.is_file())
        arrays, texts = ([path for path in files if path.suffix == suffix] for suffix in (".npy", ".json"))
        kind = rng.choice([changed_array, changed_array, changed_json, changed_json, changed_bytes, not_a_file])
        kind(rng, rng.choice({changed_array: arrays, changed_json: texts}.get(kind) or files))


def outcome(words, capsys):
    """(command, exit code) of a call that works or refuses in one line; anything else fails."""
    capsys.readouterr()
    code = main([str(word) for word in words])
    error = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("warning: ")]
    assert code in (0, 1)
    assert len(error) == code, error
    return words[0], code


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes")
@pytest.mark.parametrize("seed", range(2))
def test_damaged_sets(tmp_path, tmp_path_factory, capsys, seed):
    good = tmp_path_factory.mktemp("good")
    for name, words in GENERATED.items():
        assert main([*words.split(), "--output-dir", str(good / name)]) == 0
    rng, counts = random.Random(seed), Counter()
    for case in range(CASES):
        directory = tmp_path / f"{case}"
        name = rng.choice(sorted(GENERATED))
        shutil.copytree(good / name, directory)
        damage(rng, directory)
        for words in (
            ["verify", directory],
            ["show", directory, "--index", 1],
            ["show", directory, "--against", good / name],
            ["import", "npy", directory, "--output-dir", tmp_path / "set"],
            ["export", directory, "--output", tmp_path / "x.csv"],
        ):
            counts[outcome(words, capsys)] += 1
            shutil.rmtree(tmp_path / "set", ignore_errors=True)
            (tmp_path / "x.csv").unlink(missing_ok=True)
        shutil.rmtree(directory)
        assert sorted(tmp_path.iterdir()) == []
    assert counts["verify", 1] > CASES / 2
    assert counts["verify", 0] > 0


@pytest.mark.parametrize("seed", range(2))
def test_damaged_sources(tmp_path, capsys, seed):
    sources = {
        "sudoku-csv": b"\n".join((FIXTURES / "sudoku.csv").read_bytes().split(b"\n")[:4]),
        "maze-csv": b"\n".join((FIXTURES / "maze_train.csv").read_bytes().split(b"\n")[:3]),
        "addition-jsonl": (FIXTURES / "test_4digit.jsonl").read_bytes(),
        "arc": (FIXTURES / "arc_evaluation_challenges.json").read_bytes(),
    }
    shutil.copy(FIXTURES / "arc_evaluation_solutions.json", tmp_path / "a_solutions.json")
    rng, counts, path = random.Random(seed), Counter(), tmp_path / "a_challenges.json"
    for _ in range(CASES):
        kind = rng.choice(sorted(sources))
        content = bytearray(sources[kind])
        for _ in range(rng.choice([1, 1, 2, 4])):
            at, other = rng.randrange(len(content)), rng.randrange(len(content))
            gone = rng.choice([0, 1, 1, 10, 1000])
            content[at : at + gone] = rng.choice([*TOKENS, bytes([rng.randrange(256)]), content[other : other + 20]])
            content = content or bytearray(b"x")
        path.write_bytes(content)
        words = ["import", kind, path, "--augmentations", 1, "--output-dir", tmp_path / "set"]
        counts[outcome(words, capsys)] += 1
        if (tmp_path / "set").exists():
            outcome(["verify", tmp_path / "set"], capsys)
            shutil.rmtree(tmp_path / "set")
    assert counts["import", 1] > CASES / 2
    assert counts["import", 0] > 0
