"""ARC files as people have them: read right, or refused with file, place and reason."""

import json
import re
from pathlib import Path

import pytest

from datasets_gen.__main__ import main
from datasets_gen.layout import read_split

FIXTURES = Path(__file__).parent / "fixtures"
DEEP = "[" * 100_000
GRID = [[0, 1], [2, 3]]


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ([], "0x0 cells"),
        ([[]], "1x0 cells"),
        ([1, 2], "a list of no rows"),
        (5, "5 of no rows"),
        (None, "None of no rows"),
        ([[0] * 30] * 31, "31x30 cells"),
        ([[0] * 31] * 31, "31x31 cells"),
        ([[0, 1], [2]], "row 2: 1 cells, 2 expected"),
        ([[0, 10], [2, 3]], "row 1, column 2: colour 10"),
        ([[0, 1], [-1, 3]], "row 2, column 1: colour -1"),
        ([[0, 1], [2, 1.7]], "row 2, column 2: colour 1.7"),
        ([[0, True]], "colour True"),
        ([[0, "1"]], "colour '1'"),
        ([[0, [1]]], "colour a list"),
        ([[float("inf")]], "colour inf"),
    ],
)
@pytest.mark.parametrize("place", ["train pair 2, input", "train pair 1, output", "test pair 1, input", "solution 1"])
def test_faulty_grids(tmp_path, refused, grid, message, place):
    pairs = {"train": [{"input": GRID, "output": GRID}, {"input": GRID, "output": GRID}], "test": [{"input": GRID}]}
    solutions = [GRID]
    if place == "solution 1":
        solutions = [grid]
    else:
        part, _, number, key = place.replace(",", "").split()
        pairs[part][int(number) - 1] = {**pairs[part][int(number) - 1], key: grid}
    (tmp_path / "a_challenges.json").write_text(json.dumps({"abc": pairs}))
    (tmp_path / "a_solutions.json").write_text(json.dumps({"abc": solutions}))
    path = tmp_path / f"a_{'solutions' if place == 'solution 1' else 'challenges'}.json"
    words = ["import", "arc", tmp_path / "a_challenges.json", "--output-dir", tmp_path / "set"]
    refused(words, f"{path}: task abc, {place}", message)


@pytest.mark.parametrize(
    ("challenges", "solutions", "message"),
    [
        ({}, None, "holds no ARC tasks"),
        ({"a": []}, None, "task a: no object with the lists train and test"),
        ({"a": {"train": {}, "test": []}}, None, "task a: no object with the lists"),
        ({"a": {"train": [], "test": []}}, None, "task a: not one pair"),
        ({"a": {"train": [{"input": GRID}], "test": []}}, None, "train pair 1: no object with input and output"),
        ({"a|||b": {"train": [], "test": [{"input": GRID}]}}, None, "no |||"),
        ({"\x1b[31m": 1}, None, "task '\\x1b[31m'"),
        ({"a": {"train": [], "test": [{"input": GRID}]}}, None, "one without output"),
        ({"a": {"train": [], "test": [{"input": GRID}]}}, [], "holds no solutions"),
        ({"a": {"train": [], "test": [{"input": GRID}]}}, {"b": [GRID]}, "task 'b' is not among the challenges"),
        ({"a": {"train": [], "test": [{"input": GRID}]}}, {"a": [GRID, GRID]}, "another number of solutions"),
        ('{"a": 1, "a": 2}', None, "'a' stands twice in one object"),
        ("{", None, "line 1, column 2: no JSON"),
        (DEEP, None, "nested too deeply"),
    ],
)
def test_faulty_tasks(tmp_path, refused, challenges, solutions, message):
    path = tmp_path / "a_challenges.json"
    path.write_text(challenges if isinstance(challenges, str) else json.dumps(challenges))
    if solutions is not None:
        (tmp_path / "a_solutions.json").write_text(json.dumps(solutions))
    refused(["import", "arc", path, "--output-dir", tmp_path / "set"], message)


PAIR = {"input": GRID, "output": GRID[::-1]}


def written(folder, **tasks):
    """Tasks as the repositories of ARC-AGI keep them: a file each."""
    folder.mkdir(parents=True)
    for name, test in tasks.items():
        (folder / f"{name}.json").write_text(json.dumps({"train": [PAIR, PAIR], "test": test}))


def test_a_task_without_test_output(tmp_path, refused, capsys):
    """Its demonstrations train; without any, there is no set to write; a test task needs the output."""
    asked = {"input": GRID}
    written(tmp_path / "training", alone=[PAIR, asked])
    written(tmp_path / "evaluation", asking=[asked])
    words = ["import", "arc", str(tmp_path / "training"), "--augmentations", "0", "--output-dir"]
    assert main([*words, str(tmp_path / "set")]) == 0
    assert "1 test pairs of training tasks have no solution" in capsys.readouterr().err
    assert len(read_split(tmp_path / "set", "train")[1].inputs) == 3
    words[2] = tmp_path / "evaluation"
    message = "task asking is for testing and has no test pair, or one without output; write the output into its file"
    refused([*words, tmp_path / "two"], message)
    (tmp_path / "evaluation/asking.json").write_text(json.dumps({"train": [], "test": [asked]}))
    assert main([*map(str, words), str(tmp_path / "two"), "--split", "train"]) == 1
    assert "no task has a pair with an output, so there is nothing to learn or to ask" in capsys.readouterr().err
    assert not (tmp_path / "two").exists()


@pytest.mark.parametrize(
    "given", ["data", "data/training data/evaluation", "data/training/*.json data/evaluation/*.json"]
)
def test_folders_of_tasks_say_the_split(made, tmp_path, monkeypatch, capsys, given):
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "data/training", **{f"a{n}": [PAIR] for n in range(4)})
    asked = [[{"input": [[colour]], "output": [[colour + 1]]}] for colour in (4, 6)]
    written(tmp_path / "data/evaluation", b1=asked[0], b2=asked[1])
    sources = [path for word in given.split() for path in (sorted(tmp_path.glob(word)) if "*" in word else [word])]
    made("import arc --augmentations 0", *sources)
    said = capsys.readouterr().out
    for line in ("split train: .*a0.json to .*a3.json, 4 files\n", "split test: .*b1.json, .*b2.json\n"):
        assert re.search(line, said)
    assert json.loads((tmp_path / "set/test_puzzles.json").read_text()).keys() == {"b1", "b2"}
    assert [len(read_split(tmp_path / "set", split)[1].inputs) for split in ("train", "test")] == [4 * 3 + 2 * 2, 2]


def test_a_task_in_two_folders_and_a_folder_without_tasks(tmp_path, refused):
    for folder in ("training", "evaluation"):
        written(tmp_path / "data" / folder, twice=[PAIR])
    words = ["import", "arc", tmp_path / "data", "--output-dir", tmp_path / "set"]
    one, other = (tmp_path / "data" / folder / "twice.json" for folder in ("evaluation", "training"))
    refused(words, f"task twice is in {one} and in {other}; leave one of them out")
    (tmp_path / "none").mkdir()
    words[2] = tmp_path / "none"
    refused(words, f"{tmp_path / 'none'} is a folder without .json files")


def test_solutions_among_the_sources_are_read_with_their_challenges(made, tmp_path):
    challenges = FIXTURES / "arc_evaluation_challenges.json"
    solutions = FIXTURES / "arc_evaluation_solutions.json"
    made("import arc --augmentations 0", solutions, challenges)
    made("import arc --augmentations 0", challenges, name="alone")
    labels = [read_split(tmp_path / name, "test")[1].labels for name in ("set", "alone")]
    assert (labels[0] == labels[1]).all()


def test_a_task_in_a_file_of_its_own(tmp_path, capsys):
    pair = {"input": GRID, "output": GRID}
    task = {"train": [pair], "test": [{**pair, "input": GRID[::-1]}, {"input": GRID}]}
    (tmp_path / "007bbfb7.json").write_text(json.dumps(task))
    words = ["import", "arc", str(tmp_path / "007bbfb7.json"), "--split", "train", "--output-dir"]
    assert main([*words, str(tmp_path / "set")]) == 0
    assert "1 test pairs of training tasks have no solution" in capsys.readouterr().err
    assert json.loads((tmp_path / "set/identifiers.json").read_text())[1] == "007bbfb7"


def test_names_and_boards_that_are_refused(tmp_path, refused):
    refused(["import", "arc", tmp_path / "none", "--output-dir", tmp_path / "set"], f"no file {tmp_path / 'none'}")
    (tmp_path / "a.json").write_text(json.dumps({"train": [PAIR], "test": [PAIR]}))
    words = ["import", "arc", tmp_path / "a.json", "--size", "31", "--output-dir", tmp_path / "set"]
    refused(words, "ARC boards of 31x31 cells")
