"""verify finds every kind of damage, in one line; published files in and out again unchanged, others refused."""

import codecs
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from survivors import array, content, entry

from datasets_gen import layout
from datasets_gen.__main__ import main
from datasets_gen.importers.tables import read_table
from datasets_gen.layout import ARRAYS, DatasetError, Split, read_identifiers, read_split, write_dataset
from datasets_gen.puzzles import UnknownPuzzle, family_of

FIXTURES = Path(__file__).parent / "fixtures"
SUDOKU, MAZE = FIXTURES / "sudoku.csv", FIXTURES / "maze_train.csv"
HEAD, BOARD, ANSWER = "source,question,answer,rating\n", "." * 16, "1" * 16
ROW = f"a,{BOARD},{ANSWER},1\n"


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    root = tmp_path_factory.mktemp("good")
    for words in ("sudoku --size 6", "maze --size 6 --min-path 8", "addition --digits 2"):
        name = words.split()[0]
        assert main([*words.split(), "--train", "12", "--test", "8", "--output-dir", str(root / name)]) == 0
        assert main(["verify", str(root / name)]) == 0
    return root


@pytest.fixture
def damaged(good, tmp_path, monkeypatch):
    """A copy of a set, which is read in parts of five examples."""
    monkeypatch.setattr(layout, "ROWS", 5)
    return lambda family: Path(shutil.copytree(good / family, tmp_path / "set"))


def field(name, value, splits=("train",)):
    """Damage that changes one field of dataset.json; `...` removes it."""
    return lambda root: [entry(f"{split}/dataset.json", name, value)(root) for split in splits]


def put(row, column, value):
    def change(values):
        values[row, column] = value(values[row, column]) if callable(value) else value

    return change


def torn(root):
    path = root / "test/all__labels.npy"
    path.write_bytes(path.read_bytes()[:-30])


def first_clue(value):
    return array("inputs", lambda inputs: put(3, np.flatnonzero(inputs[3] > 1)[0], value)(inputs))


def leak(turned=None):
    """A training puzzle among the test puzzles, perhaps turned; its rating may differ."""

    def damage(root):
        for key in ("inputs", "labels"):
            train, test = (np.load(root / f"{name}/all__{key}.npy") for name in ("train", "test"))
            test[2] = turned(train[5].reshape(6, 6)).ravel() if turned else train[5]
            np.save(root / f"test/all__{key}.npy", test)
        for path in [] if turned else root.glob("*/all__ratings.npy"):
            path.unlink()

    return damage


def disguised(grid):
    """Digits relabelled, rows of a band swapped."""
    grid = grid[[1, 0, 2, 3, 4, 5]]
    return np.where(grid > 1, 9 - grid, grid)


NAMES = "identifiers.json"
DAMAGE = {
    "sudoku": {
        "a torn array": (torn, "all__labels.npy cannot be read"),
        "no dataset.json": (lambda root: (root / "test/dataset.json").unlink(), "no dataset.json"),
        "a field of another type": (field("vocab_size", "many"), "vocab_size: Input should be a valid integer"),
        "another size": (field("task", {"name": "sudoku", "size": 9}), "task is"),
        "another setting": (field("task", {"name": "sudoku", "rows": 6}, ("train", "test")), "rows is wrong"),
        "a page without rules": (field("task", {"name": "futoshiki"}, ("train", "test")), "describes no futoshiki"),
        "no window": (field("task", {"name": "text"}, ("train", "test")), "describes no text: window is missing"),
        "no indices": (array("puzzle_indices", lambda ends: ends[0]), "puzzle_indices.npy"),
        "wrong groups": (field("total_groups", 5), "says 5 groups"),
        "padding outside": (field("pad_id", 99), "pad_id 99"),
        "a set that is a path": (field("sets", ["../../test/all"]), "is not a name"),
        "two sets": (field("sets", ["one", "two"]), "sets: List should have at most 1 item"),
        "too many names": (content(NAMES, '["a", "b"]'), "must hold a list of 1 different names"),
        "an identifier outside": (array("puzzle_identifiers", lambda ids: ids + 7), "a number is outside 0..0"),
        "indices that stand still": (array("puzzle_indices", lambda ends: np.sort([*ends[2:], 0, 0])), "entry owns no"),
        "indices that end early": (array("group_indices", lambda ends: ends[:-1]), "must run from 0"),
        "fractions": (array("inputs", lambda tokens: tokens.astype(float)), "holds float64; save whole numbers"),
        "objects": (lambda root: np.save(root / "test/all__inputs.npy", [{}], allow_pickle=True), "save whole numbers"),
        "fewer labels": (array("labels", lambda labels: labels[:-1]), "12 inputs but 11 labels"),
        "a token outside": (array("labels", put(6, 2, 77)), "token 77 at example 6, cell 2"),
        "an open cell in an answer": (array("labels", put(1, 2, 1)), "token 1"),
        "a wrong digit": (array("labels", put(7, 9, lambda old: old % 6 + 2)), "example 7: "),
        "a clue changed": (first_clue(lambda old: old % 6 + 2), "where the question has the clue"),
        "a clue taken away": (first_clue(1), "more than one solution"),  # the puzzle was minimal
        "a leak": (leak(), "leak: test example 2 is train example 5"),
        "a leak in disguise": (leak(disguised), "leak: test example 2 is train example 5"),
        "a puzzle twice": (array("inputs labels", lambda all_: all_.__setitem__(2, all_[5])), "ask the same question"),
    },
    "maze": {
        "a path too long": (array("labels", lambda to: put(*np.argwhere(to == 2)[0], 5)(to)), "the shortest has"),
        "two starts": (array("inputs labels", lambda to: put(0, to[0].argmin(), 3)(to)), "one S and one G"),
        "a leak, turned": (leak(lambda grid: grid[::-1]), ""),
        "a negative rating": (array("ratings", np.negative), "rating is negative"),
    },
    "addition": {
        "a wrong digit": (array("labels", put(3, 7, lambda old: old % 10 + 1)), "example 3: the answer holds"),
        "a leak": (leak(), "leak: test example 2 is train example 5"),
    },
}


@pytest.mark.parametrize(("family", "kind"), [(family, kind) for family in DAMAGE for kind in DAMAGE[family]])
def test_damage_is_found(damaged, refused, family, kind):
    damage, message = DAMAGE[family][kind]
    folder = damaged(family)
    damage(folder)
    refused(["verify", folder], message)


@pytest.mark.parametrize("kind", ["a token outside", "a wrong digit", "a leak in disguise", "a puzzle twice"])
def test_damage_of_a_large_set_is_found(monkeypatch, damaged, refused, kind):
    monkeypatch.setattr(layout, "LARGE", 0)
    test_damage_is_found(damaged, refused, "sudoku", kind)


def test_arrays_of_another_byte_order_or_width_are_read_as_the_same(good, damaged):
    folder = damaged("maze")
    (folder / NAMES).unlink()
    for path in folder.glob("*/*.npy"):
        np.save(path, np.asfortranarray(np.load(path).astype(">i8")))
    array("labels", lambda labels: labels.astype(np.uint16))(folder)
    array("ratings", lambda ratings: ratings.astype(">f4"))(folder)
    assert main(["verify", str(folder)]) == 0
    for name in ("train", "test"):
        ours, theirs = (read_split(directory, name)[1] for directory in (good / "maze", folder))
        for key in (*ARRAYS, "ratings"):
            read = getattr(theirs, key)
            assert (read == getattr(ours, key)).all()
            assert read.dtype.isnative
            assert read.flags.c_contiguous
        assert theirs.inputs.dtype == np.int32


def own_set(directory, labels, task=None, **more):
    """A set of 3×4 tokens of nobody's kind."""
    inputs = np.arange(12).reshape(3, 4) % 7
    splits = {name: Split.of_puzzles(inputs.copy(), np.array(labels)) for name in ("train", "test")}
    write_dataset(directory, splits, task=task or {}, vocab_size=7, **more)


@pytest.mark.parametrize("task", [{}, {"name": ["chess"]}, {"causal": True}])
def test_the_layout_of_a_puzzle_of_one_s_own_is_verified(tmp_path, capsys, task):
    own_set(tmp_path / "set", np.ones((3, 4)), task, sources=["\udcff.csv"])  # a file's name need not be UTF-8
    assert read_split(tmp_path / "set", "train")[0].sources == ["?.csv"]
    assert main(["verify", str(tmp_path / "set")]) == 0
    out, error = capsys.readouterr()
    assert "train: layout of 3 examples" in out
    assert error.startswith("warning: only the layout was checked: no puzzle family for task")
    with pytest.raises(UnknownPuzzle):
        family_of(task, 4, 7)
    array("labels", lambda labels: labels + 7, split="test")(tmp_path / "set")
    assert main(["verify", str(tmp_path / "set")]) == 1


@pytest.mark.parametrize("ignore", [0, -100])
def test_examples_without_a_scored_cell(tmp_path, capsys, refused, ignore):
    labels = np.full((3, 4), ignore)
    labels[1, 2] = labels[0, 0] = 1
    own_set(tmp_path / "some", labels, ignore_label_id=ignore)
    assert main(["verify", str(tmp_path / "some")]) == 0
    assert "some/train: 1 of 3 examples have no scored cell" in capsys.readouterr().err
    assert main(["import", "npy", str(tmp_path / "some"), "--output-dir", str(tmp_path / "again")]) == 0
    assert (read_split(tmp_path / "again", "train")[1].labels == labels).all()
    own_set(tmp_path / "none", np.full((3, 4), ignore), ignore_label_id=ignore)
    refused(["verify", tmp_path / "none"], "none/train: no cell of any example is scored")


def test_what_cannot_be_read_shown_imported_or_exported_is_refused(tmp_path, damaged, refused):
    folder, new = damaged("sudoku"), ["--output-dir", tmp_path / "new"]
    for name in ("../set/test", "..", ""):
        refused(["export", folder, "--split", name or ".", "--output", tmp_path / "x.csv"], "is not a name")
        with pytest.raises(DatasetError, match="is not a name"):
            write_dataset(tmp_path / "new", {name: Split.of_puzzles(*np.ones((2, 3, 4)))}, task={}, vocab_size=3)
    refused(["verify", tmp_path / "none"], "no dataset at")
    refused(["verify", folder / "identifiers.json"], "is a file; a set is a folder")
    (tmp_path / "link").symlink_to("nowhere")
    for name in ("set/identifiers.json/new", "link"):
        refused(["sudoku", "--output-dir", tmp_path / name], "cannot be made: ", "; type another --output-dir")
    refused(["maze", "--size", 10**9, *new], "--size 1000000000: at most 256 rows and columns")
    refused(["show", tmp_path], "no split 'train'")
    refused(["show", folder, "--index", 12], "has 12 examples")
    refused(["import", "npy", folder, "--split", "test", *new], "remove --split")
    field("sources", ["somewhere"])(folder)
    refused(["import", "npy", folder, *new], "sources is")
    array("labels", lambda labels: np.where(labels == 2, 0, labels))(folder)
    refused(["export", folder, "--output", tmp_path / "x.csv"], "is not a cell of a sudoku")


def test_csv_files_go_out_byte_for_byte_as_they_came_in(made, tmp_path):
    """Line ends and the character of an empty cell of one file are not those of the other; a mark is skipped."""
    train, test = tmp_path / "train.csv", tmp_path / "test.csv"
    header, *rows = SUDOKU.read_text().splitlines()[:5]
    train.write_text("\n".join([header, *rows[:2], ""]), newline="")
    test.write_text("\r\n".join([header, *(row.replace(".", "0") for row in rows[2:]), ""]), newline="")
    sources = {("sudoku", file.stem): file.read_bytes() for file in (train, test)}
    sources["maze", "train"] = MAZE.read_bytes()
    test.write_bytes(codecs.BOM_UTF8 + sources["sudoku", "test"])
    made("import sudoku-csv", train, test, name="sudoku")
    made("import maze-csv", MAZE, name="maze")
    for (kind, split), bytes_in in sources.items():
        out = tmp_path / f"{kind}-{split}.out"
        assert main(["export", str(tmp_path / kind), "--split", split, "--output", str(out)]) == 0
        assert out.read_bytes() == bytes_in
        metadata, puzzles = read_split(tmp_path / kind, split)
        assert puzzles.ratings.dtype == np.int32
        assert metadata.sources


@pytest.mark.parametrize(("kind", "source"), [("sudoku", SUDOKU), ("maze", MAZE)])
def test_training_puzzles_are_drawn_as_by_the_papers_builders(kind, source, tmp_path, monkeypatch, refused):
    """numpy's `choice` without replacement over the rows of the training file; the recorded command draws the same."""
    monkeypatch.chdir(tmp_path)
    for name in ("train.csv", "test.csv"):
        shutil.copy(source, name)
    drawn = f"import {kind}-csv train.csv test.csv --subsample 4 --seed 3".split()
    assert main([*drawn, "--output-dir", "set"]) == 0
    _, whole = read_split("set", "test")
    metadata, split = read_split("set", "train")
    rows = np.random.RandomState(3).choice(len(whole.inputs), size=4, replace=False)
    for key in ("inputs", "labels", "ratings", "sources"):
        assert (getattr(split, key) == getattr(whole, key)[rows]).all()
    assert metadata.provenance["command"] == f"python -m datasets_gen {' '.join(drawn)}"
    refused([*drawn[:2], "test.csv", "--subsample", "4", "--output-dir", "other"], "add --split train")
    refused([*drawn[:3], "--seed", "7", "--output-dir", "other"], "--seed 7 needs --subsample")
    for words in ("--subsample 0", "--subsample 4 --seed 5000000000"):
        refused([*drawn[:3], *words.split(), "--output-dir", "other"], "draw some, with a seed below 2^32")


def test_every_open_cell_of_a_sudoku_is_one_in_a_csv(tmp_path):
    (tmp_path / "file.csv").write_text(HEAD + "".join(f"s,{BOARD.replace('.', c)},{ANSWER},1\n" for c in ".0_*?-"))
    inputs = read_table(tmp_path / "file.csv", "sudoku").split.inputs
    assert (inputs == inputs[0]).all()


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
    (tmp_path / "bare.csv").write_text("id;puzzle;rating\n1;1234341221434321;3.5\n")
    assert read_table(tmp_path / "bare.csv", "sudoku").split.ratings.tolist() == [3.5]
    assert "not rated" in shown
    assert "from 0.1 to 1.23457e+10" in shown


@pytest.mark.parametrize("counted", [2, 3, None], ids=["TRM: groups", "puzzles", "HRM: nothing"])
def test_a_tree_of_the_authors_builders_round_trips(counted, made, tmp_path):
    """int32 and int64 tokens, several examples a puzzle; TRM's builders of Sudoku and mazes count groups as puzzles."""
    rng = np.random.default_rng(0)
    fields = dict.fromkeys(("pad_id", "ignore_label_id", "blank_identifier_id"), 0)
    fields |= {"vocab_size": 300, "seq_len": 5, "num_puzzle_identifiers": 3, "total_groups": 2}
    fields |= {"mean_puzzle_examples": 4 / 3, "sets": ["all"]}
    fields |= {} if counted is None else {"total_puzzles": counted}
    folder = tmp_path / "tree/train"
    folder.mkdir(parents=True)
    (folder / "dataset.json").write_text(json.dumps(fields))
    (tmp_path / "tree/identifiers.json").write_text(json.dumps(["<blank>", "a", "b"]))
    stored = {key: rng.integers(0, 300, (4, 5), kind) for key, kind in (("inputs", np.int32), ("labels", np.int64))}
    ends = {"puzzle_identifiers": [1, 2, 1], "puzzle_indices": [0, 1, 3, 4], "group_indices": [0, 2, 3]}
    for key, values in (stored | {key: np.array(value, np.int32) for key, value in ends.items()}).items():
        np.save(folder / f"all__{key}.npy", values)
    made("import npy", tmp_path / "tree")
    metadata, split = read_split(tmp_path / "set", "train")
    for key, values in (stored | ends).items():
        assert np.array_equal(getattr(split, key), values)
    assert metadata.total_puzzles == 3
    assert read_identifiers(tmp_path / "set", metadata) == ["<blank>", "a", "b"]


@pytest.mark.parametrize(("file", "split"), [
    ("latest.csv", "test"),  # by default
    ("latest/sudokuTrain1k.csv", "train"),
    ("contest_val.csv", "validation"),
    ("retrain.csv", "test"),
    ("training/test.csv", "test"),
])  # fmt: skip
def test_whole_words_of_a_name_tell_the_split_which_is_printed(made, tmp_path, monkeypatch, capsys, file, split):
    monkeypatch.chdir(tmp_path)
    Path(file).parent.mkdir(exist_ok=True)
    Path(file).write_text("question,answer\n1234341221434321,1234341221434321\n")
    made("import sudoku-csv", file)
    assert f"split {split}: {file}\n" in capsys.readouterr().out
    assert [path.parent.name for path in tmp_path.glob("set/*/dataset.json")] == [split]


@pytest.mark.parametrize(("kind", "content", "messages"), [
    ("sudoku", (HEAD + ROW).encode("utf-16"), ["is not UTF-8"]),
    ("sudoku", HEAD + ROW + f"a,{'.' * 1_000_000},{ANSWER},1\n", ["line 3", "field larger than"]),
    ("sudoku", HEAD + f"a,{BOARD}\n", ["line 2", "4 fields are expected"]),
    ("sudoku", HEAD + f"a,{BOARD},{ANSWER},easy\n", ["line 2", "'easy' is not a number"]),
    ("sudoku", HEAD, ["contains no puzzles"]),
    ("sudoku", HEAD + f"a,{'.' * 25},{'1' * 25},1\n", ["25 cells are not a board of sudoku"]),
    ("sudoku", HEAD + f"a,{BOARD},{'1' * 15},1\n", ["line 2: answer has 15 cells"]),
    ("sudoku", HEAD + f"a,{'.' * 15}５,{ANSWER},1\n", ["puzzle 1 holds '５' in cell 16"]),
    ("sudoku", HEAD + f"a,{BOARD},{'1' * 15}.,1\n", ["answer of puzzle 1 holds '.' in cell 16"]),
    ("maze", "question,answer,rating\nxxxx,####,3\n", ["holds 'x' in cell 1"]),
    ("maze", "question,answer\nSo#G,So#G\n", ["question of puzzle 1 holds 'o' in cell 2"]),
])  # fmt: skip
def test_faulty_csv(tmp_path, refused, kind, content, messages):
    path = tmp_path / "file.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    refused(["import", f"{kind}-csv", path, "--output-dir", tmp_path / "set"], path, *messages)
