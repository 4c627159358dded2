"""benchmarks/average.py, maze_failures.py and families.py: what they write, and what they refuse."""

import json
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from conftest import make_set, output, trainer_of

from benchmarks import average, families, maze_failures
from datasets_gen.layout import read_split
from datasets_gen.maze.paths import FREE, GOAL, PATH, START, WALL
from datasets_gen.puzzles import puzzle_of
from reason.config.overrides import override
from reason.config.schema import Config
from reason.errors import ConfigError


@pytest.fixture
def two(tiny: Config, tmp_path: Path) -> list[Path]:
    """A run of two steps, and one of three."""
    runs = [tmp_path / "first", tmp_path / "second"]
    for steps, run in zip(("2", "3"), runs, strict=True):
        trainer_of(override(tiny, {"training.steps": steps}), run).train()
    return runs


def test_an_average_lies_between_two_runs(two: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert average.main([*map(str, two), str(out), "--share", "0.25"]) == 0
    (_, one), (step, other), (same, mean) = map(average.read, (*two, out))
    assert step == same == 3
    assert one.keys() == mean.keys()
    for name in mean:
        torch.testing.assert_close(mean[name].float(), torch.lerp(one[name].float(), other[name].float(), 0.25))
    assert any((one[name] != other[name]).any() for name in one)
    with pytest.raises(ConfigError, match="is there already"):
        average.main([*map(str, two), str(out)])


def test_an_average_of_other_networks_or_beyond_them_is_refused(two: list[Path], tiny: Config, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--share 1.5: a number from 0 to 1"):
        average.main([*map(str, two), str(tmp_path / "out"), "--share", "1.5"])
    wide = tmp_path / "wide"
    trainer_of(override(tiny, {"training.steps": "2", "model.hidden_size": "32"}), wide).train()
    with pytest.raises(ConfigError, match=r"differ in .*; name two runs of one network"):
        average.main([str(two[0]), str(wide), str(tmp_path / "out")])
    assert not (tmp_path / "out").exists()


def test_a_picture_shows_what_an_answer_has_and_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S . # / . . # / # . G: the answer leaves the path at its second cell."""
    question = np.array([[START, FREE, WALL], [FREE, FREE, WALL], [WALL, FREE, GOAL]])
    label, wrong = question.copy(), question.copy()
    label[[0, 1, 2], [1, 1, 1]] = PATH
    wrong[[0, 2], [1, 1]] = PATH
    boards = tmp_path / "boards.json"
    board = {"question": question.ravel().tolist(), "label": label.ravel().tolist(), "solved": False}
    boards.write_text(json.dumps({"puzzles": [board | {"answers": [wrong.ravel().tolist()] * 2}]}))

    def draw(*words: str) -> None:
        monkeypatch.setattr("sys.argv", ["maze_failures", str(boards), str(tmp_path / "out.svg"), *words])
        maze_failures.main()

    draw("--steps", "1", "2")
    svg = ElementTree.parse(tmp_path / "out.svg")
    drawn = [path.attrib for path in svg.iter("{http://www.w3.org/2000/svg}path")]
    counts = {kind: sum(path["d"].count("M") for path in drawn if path["class"] == kind) for kind in ("good", "ring")}
    assert counts == {"good": 2 * 2, "ring": 2 * 1}
    with pytest.raises(SystemExit):
        draw("--steps", "3")
    boards.write_text(json.dumps({"puzzles": [board | {"answers": [[]], "solved": True}]}))
    with pytest.raises(SystemExit):
        draw("--steps", "1")


def test_one_set_of_two_families_keeps_the_constraints_of_each(tmp_path: Path) -> None:
    plain = make_set("sudoku --size 9 --train 3 --test 2", tmp_path / "plain")
    jigsaw = make_set("sudoku-jigsaw --clues 60 --train 2 --test 1 --processes 1", tmp_path / "jigsaw")
    both = tmp_path / "both"
    families.main([str(plain), str(jigsaw), "--output-dir", str(both)])
    metadata, train = read_split(both, "train")
    assert metadata.structure is not None
    assert list(metadata.structure.groups) == ["row", "column"]
    assert [(r.name, r.seen) for r in metadata.structure.relations] == [
        ("alldifferent", True), ("alldifferent_in_groups", False)
    ]  # fmt: skip
    puzzle = puzzle_of(metadata)
    assert puzzle.solved(train.inputs, train.labels, train.relations).all()
    swapped = np.roll(train.labels, 1, axis=0)  # 0 and 3 have the answer of a puzzle of the other family
    assert not puzzle.solved(np.ones_like(train.inputs), swapped, train.relations)[[0, 3]].any()
    boxes = [sorted(each.cells) for each in puzzle.own(train.relations[0])]
    assert boxes[0] == [0, 1, 2, 9, 10, 11, 18, 19, 20]
    assert len(boxes) == 9
    for name, source in (("plain", plain), ("jigsaw", jigsaw)):
        assert np.array_equal(read_split(both, name)[1].inputs, read_split(source, "test")[1].inputs)
    output(f"generate verify {both}")
    with pytest.raises(SystemExit):
        families.main([str(plain), str(make_set("sudoku --size 4 --train 2 --test 1", tmp_path / "small")),
                       "--output-dir", str(tmp_path / "none")])  # fmt: skip
