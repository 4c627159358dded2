"""Published files in, and out again unchanged; others read right, or refused with file, row and reason."""

import codecs
import json
from pathlib import Path

import numpy as np
import pytest

from datasets_gen.__main__ import main
from datasets_gen.layout import read_identifiers, read_split

FIXTURES = Path(__file__).parent / "fixtures"
SUDOKU, MAZE = FIXTURES / "sudoku.csv", FIXTURES / "maze_train.csv"
HEAD, BOARD, ANSWER = "source,question,answer,rating\n", "." * 16, "1" * 16
ROW = f"a,{BOARD},{ANSWER},1\n"


@pytest.mark.parametrize(("kind", "source", "split"), [("sudoku", SUDOKU, "test"), ("maze", MAZE, "train")])
def test_csv_files_round_trip_byte_for_byte(made, tmp_path, kind, source, split):
    made(f"import {kind}-csv", source)
    assert main(["show", str(tmp_path / "set"), "--png", str(tmp_path / "picture.png")]) == 0
    assert (tmp_path / "picture.png").stat().st_size > 10_000
    assert main(["show", str(tmp_path / "set"), "--png", str(tmp_path / "picture.foo")]) == 1
    out = tmp_path / "out.csv"
    assert main(["export", str(tmp_path / "set"), "--split", split, "--output", str(out)]) == 0
    assert out.read_bytes() == source.read_bytes()
    metadata, puzzles = read_split(tmp_path / "set", split)
    assert puzzles.ratings.dtype == np.int32
    assert metadata.sources


def test_each_split_goes_out_as_it_came_in(tmp_path):
    """Line ends and the character of an empty cell of one file are not those of the other; a mark is skipped."""
    train, test = tmp_path / "train.csv", tmp_path / "test.csv"
    header, *rows = SUDOKU.read_text().splitlines()[:5]
    train.write_text("\n".join([header, *rows[:2], ""]), newline="")
    test.write_text("\r\n".join([header, *(row.replace(".", "0") for row in rows[2:]), ""]), newline="")
    written = {source.stem: source.read_bytes() for source in (train, test)}
    test.write_bytes(codecs.BOM_UTF8 + written["test"])
    assert main(["import", "sudoku-csv", str(train), str(test), "--output-dir", str(tmp_path / "set")]) == 0
    for name, content in written.items():
        out = tmp_path / f"{name}.out"
        assert main(["export", str(tmp_path / "set"), "--split", name, "--output", str(out)]) == 0
        assert out.read_bytes() == content


def test_an_import_says_which_questions_are_in_two_splits(tmp_path, capsys):
    rows = "".join(f"a,{board},1234341221434321,0\n" for board in ("1" + "." * 15, ".2" + "." * 14, "..3" + "." * 13))
    (tmp_path / "train.csv").write_text(HEAD + rows)
    for question, said in (
        ("..3.............", "warning: 1 of 1 questions of test are in train, too"),
        ("1..4............", ""),
    ):
        (tmp_path / "test.csv").write_text(f"{HEAD}a,{question},1234341221434321,0\n")
        files, out = [str(tmp_path / f"{name}.csv") for name in ("train", "test")], str(tmp_path / f"set{question[0]}")
        assert main(["import", "sudoku-csv", *files, "--output-dir", out]) == 0
        error = capsys.readouterr().err
        assert said in error
        assert bool(said) == bool(error)


def test_ratings_keep_their_digits_and_one_another(tmp_path, capsys):
    rows = ["3.25", "", "0.1", "12345678901.5", "0.30000000000000004", "7"]
    (tmp_path / "file.csv").write_text(HEAD + "".join(f"s,{BOARD},{ANSWER},{rating}\n" for rating in rows))
    assert main(["import", "sudoku-csv", str(tmp_path / "file.csv"), "--output-dir", str(tmp_path / "set")]) == 0
    _, split = read_split(tmp_path / "set", "test")
    assert split.ratings.tolist() == pytest.approx([float(r or "nan") for r in rows], rel=0, nan_ok=True)
    assert main(["export", str(tmp_path / "set"), "--output", str(tmp_path / "out.csv")]) == 0
    assert (tmp_path / "out.csv").read_text() == (tmp_path / "file.csv").read_text()
    assert main(["show", str(tmp_path / "set"), "--index", "1"]) == 0
    shown = capsys.readouterr().out
    assert "not rated" in shown
    assert "from 0.1 to 1.23457e+10" in shown


@pytest.mark.parametrize("family", ["sudoku --size 4 --train 4 --test 0", "addition --digits 2 --train 4 --test 0"])
def test_labels_of_minus_100_are_drawn_and_checked_as_unscored(family, tmp_path, capsys):
    assert main([*family.split(), "--output-dir", str(tmp_path / "set")]) == 0
    split = read_split(tmp_path / "set", "train")[1]
    question_alone = split.labels == 0 if "addition" in family else np.arange(16) == 3
    labels = np.where(question_alone, -100, split.labels.astype(np.int32))
    np.save(tmp_path / "set/train/all__labels.npy", labels)
    assert main(["show", str(tmp_path / "set")]) == 0
    assert main(["verify", str(tmp_path / "set")]) == (0 if "addition" in family else 1)
    if "sudoku" in family:
        assert "example 0" in capsys.readouterr().err


def test_a_tree_of_hrm_s_builders_round_trips(made, tmp_path):
    """Two sets, int32 tokens, no total_puzzles: as their builders write them."""
    rng = np.random.Generator(np.random.PCG64(0))
    fields = dict.fromkeys(("pad_id", "ignore_label_id", "blank_identifier_id"), 0)
    fields |= {"vocab_size": 300, "seq_len": 5, "num_puzzle_identifiers": 3, "total_groups": 3}
    fields |= {"mean_puzzle_examples": 1.75, "sets": ["one", "two"]}
    folder = tmp_path / "tree/train"
    folder.mkdir(parents=True)
    (folder / "dataset.json").write_text(json.dumps(fields))
    (tmp_path / "tree/identifiers.json").write_text(json.dumps(["<blank>", "a", "b"]))
    stored = {}
    for name, puzzles, groups in (("one", [0, 2, 3], [0, 2]), ("two", [0, 1, 4], [0, 1, 2])):
        tokens = {"inputs": np.int32, "labels": np.int64}
        stored[name] = {key: rng.integers(0, 300, (puzzles[-1], 5), dtype) for key, dtype in tokens.items()}
        ends = {"puzzle_identifiers": [1, 2], "puzzle_indices": puzzles, "group_indices": groups}
        for key, array in (stored[name] | {key: np.array(value, np.int32) for key, value in ends.items()}).items():
            np.save(folder / f"{name}__{key}.npy", array)
    made("import npy", tmp_path / "tree")
    metadata, split = read_split(tmp_path / "set", "train")
    for key in ("inputs", "labels"):
        assert (getattr(split, key) == np.concatenate([stored["one"][key], stored["two"][key]])).all()
    assert split.puzzle_indices.tolist() == [0, 2, 3, 4, 7]
    assert split.group_indices.tolist() == [0, 2, 3, 4]
    assert split.puzzle_identifiers.tolist() == [1, 2, 1, 2]
    assert metadata.total_puzzles == 4
    assert read_identifiers(tmp_path / "set", metadata) == ["<blank>", "a", "b"]


@pytest.mark.parametrize(("file", "split"), [
    ("latest.csv", "test"),  # by default
    ("latest/sudokuTrain1k.csv", "train"),
    ("contest_val.csv", "validation"),
    ("retrain.csv", "test"),
    ("TRAIN.csv", "train"),
    ("training/latest.csv", "train"),
    ("training/test.csv", "test"),
])  # fmt: skip
def test_whole_words_of_a_name_tell_the_split_which_is_printed(made, tmp_path, monkeypatch, capsys, file, split):
    monkeypatch.chdir(tmp_path)
    Path(file).parent.mkdir(exist_ok=True)
    Path(file).write_text("question,answer\n1234341221434321,1234341221434321\n")
    made("import sudoku-csv", file)
    assert f"split {split}: {file}\n" in capsys.readouterr().out
    assert [path.parent.name for path in tmp_path.glob("set/*/dataset.json")] == [split]


LATIN = (HEAD + ROW + f"Möller,{BOARD},{ANSWER},1\n").encode("latin-1")


@pytest.mark.parametrize(("kind", "content", "messages"), [
    ("sudoku", (HEAD + ROW).encode("utf-16"), ["is not UTF-8"]),
    ("sudoku", LATIN, ["is not UTF-8"]),
    ("sudoku", HEAD + ROW + f"a,{'.' * 1_000_000},{ANSWER},1\n", ["line 3", "field larger than"]),
    ("sudoku", HEAD + ROW + f"a,b,{BOARD},{ANSWER},1\n", ["line 3", "it has not 4 fields"]),
    ("sudoku", HEAD + f"a,{BOARD}\n", ["line 2", "it has not 4 fields"]),
    ("sudoku", HEAD + f"a,{BOARD},{ANSWER},easy\n", ["line 2", "'easy' is no number"]),
    ("sudoku", HEAD + f"a,{BOARD},{ANSWER},-1\n", ["line 2", "'-1' is negative"]),
    ("sudoku", HEAD, ["holds no puzzle"]),
    ("sudoku", HEAD + f"a,{'.' * 25},{'1' * 25},1\n", ["25 cells are no board of sudoku"]),
    ("sudoku", HEAD + f"a,{BOARD},{'1' * 15},1\n", ["line 2: answer has 15 cells"]),
    ("sudoku", HEAD + f"a,{'.' * 15}５,{ANSWER},1\n", ["puzzle 1 holds '５' in cell 16"]),
    ("sudoku", HEAD + f"a,7{'.' * 15},{ANSWER},1\n", ["question of puzzle 1 holds '7'"]),
    ("sudoku", HEAD + f"a,{BOARD},{'1' * 15}.,1\n", ["answer of puzzle 1 holds '.' in cell 16"]),
    ("sudoku", "source,question\n,12\n", ["line 1: no column answer"]),
    ("maze", "question,answer,rating\nxxxx,####,3\n", ["holds 'x' in cell 1"]),
    ("maze", "question,answer,rating\n###,###,3\n", ["3 cells are no board of maze"]),
    ("maze", "question,answer\nSo#G,So#G\n", ["question of puzzle 1 holds 'o' in cell 2"]),
])  # fmt: skip
def test_faulty_csv(tmp_path, refused, kind, content, messages):
    path = tmp_path / "file.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    refused(["import", f"{kind}-csv", path, "--output-dir", tmp_path / "set"], path, *messages)


@pytest.mark.parametrize("kind", ["sudoku-csv", "npy"])
def test_missing_files_are_named(tmp_path, refused, kind):
    refused(["import", kind, tmp_path / "none", "--output-dir", tmp_path / "set"], tmp_path / "none")
