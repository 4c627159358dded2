"""ARC files as people have them: read right, or refused with file, place and reason."""

import json
import re
from pathlib import Path

import pytest

from datasets_gen.__main__ import main
from datasets_gen.layout import read_split

FIXTURES = Path(__file__).parent / "fixtures"
GRID = [[0, 1], [2, 3]]
PAIR = {"input": GRID, "output": GRID[::-1]}
ASKED = {"a": {"train": [], "test": [{"input": GRID}]}}


@pytest.mark.parametrize(
    "grid",
    [[], [[]], [1, 2], None, [[0] * 30] * 31, [[0] * 31], [[0, 1], [2]], [[10]], [[-1]], [[1.7]], [[True]], [["1"]]],
)
@pytest.mark.parametrize("place", ["challenges", "solutions"])
def test_faulty_grids(tmp_path, refused, grid, place):
    pairs = {"train": [PAIR, {"input": GRID, "output": grid if place == "challenges" else GRID}], "test": [PAIR]}
    solutions = [grid if place == "solutions" else GRID]
    (tmp_path / "a_challenges.json").write_text(json.dumps({"abc": pairs}))
    (tmp_path / "a_solutions.json").write_text(json.dumps({"abc": solutions}))
    where = "abc, train, 1, output" if place == "challenges" else "abc, 0"
    words = ["import", "arc", tmp_path / "a_challenges.json", "--output-dir", tmp_path / "set"]
    refused(words, f"{tmp_path / f'a_{place}.json'}, {where}")


@pytest.mark.parametrize(
    ("challenges", "solutions", "message"),
    [
        ({"a": []}, None, "a_challenges.json, a (counted from 0)"),
        ({"a": {"train": [{"input": GRID}], "test": []}}, None, "a, train, 0, output (counted from 0): Field required"),
        (
            ASKED,
            None,
            "task a is for testing and has no test pair, or one without output; write the output into its file",
        ),
        (ASKED, [], "a_solutions.json (counted from 0): Input should be a valid dictionary"),
        (ASKED, {"b": [GRID]}, "task b: 1 solutions of 0 test pairs"),
        (ASKED, {"a": [GRID, GRID]}, "task a: 2 solutions of 1 test pairs"),
        ("[" * 100_000, None, "no JSON"),
        ({}, None, "no task has a pair with an output, so there is nothing to learn or to ask"),
    ],
)
def test_faulty_tasks(tmp_path, refused, challenges, solutions, message):
    path = tmp_path / "a_challenges.json"
    path.write_text(challenges if isinstance(challenges, str) else json.dumps(challenges))
    if solutions is not None:
        (tmp_path / "a_solutions.json").write_text(json.dumps(solutions))
    refused(["import", "arc", path, "--split", "test", "--output-dir", tmp_path / "set"], message)


def written(folder, **tasks):
    """Tasks as the repositories of ARC-AGI keep them: a file each."""
    folder.mkdir(parents=True)
    for name, test in tasks.items():
        (folder / f"{name}.json").write_text(json.dumps({"train": [PAIR, PAIR], "test": test}))


def test_a_training_task_without_test_output_trains(tmp_path, capsys):
    written(tmp_path / "training", alone=[PAIR, {"input": GRID}])
    words = ["import", "arc", str(tmp_path / "training"), "--augmentations", "0", "--output-dir"]
    assert main([*words, str(tmp_path / "set")]) == 0
    assert "1 test pairs of training tasks have no solution" in capsys.readouterr().err
    assert len(read_split(tmp_path / "set", "train")[1].inputs) == 3
    assert json.loads((tmp_path / "set/identifiers.json").read_text())[1] == "alone"


@pytest.mark.parametrize("given", ["data", "data/training/*.json data/evaluation/*.json"])
def test_folders_of_tasks_say_the_split(made, tmp_path, monkeypatch, capsys, refused, given):
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
    (tmp_path / "data/evaluation/a1.json").write_text((tmp_path / "data/training/a1.json").read_text())
    refused(["import", "arc", "data", "--output-dir", "other"], "task a1 of", "is in another source, too; leave one")


def test_solutions_among_the_sources_are_read_with_their_challenges(made, tmp_path):
    challenges, solutions = (FIXTURES / f"arc_evaluation_{kind}.json" for kind in ("challenges", "solutions"))
    made("import arc --augmentations 0", solutions, challenges)
    made("import arc --augmentations 0", challenges, name="alone")
    labels = [read_split(tmp_path / name, "test")[1].labels for name in ("set", "alone")]
    assert (labels[0] == labels[1]).all()
