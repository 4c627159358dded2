"""`reason new-puzzle`, and docs/own-puzzle.md, block by block: the page's file, set, training, evaluation, answer."""

import json
import re
import shlex
from pathlib import Path

import pytest

from datasets_gen.layout import read_split
from reason.cli import main

PAGE = (Path(__file__).parents[3] / "docs/own-puzzle.md").read_text()
FEW = {"1500": "8", "100": "2", "500": "2"}  # puzzles of each split in the fast test


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def follow(directory: Path, monkeypatch: pytest.MonkeyPatch, brief: bool) -> int:
    """Do what the page says; returns the exit status of its last command, which solves the typed puzzle."""
    monkeypatch.chdir(directory)
    assert main(["new-puzzle", "sums"]) == 0
    (python,) = blocks("python")
    Path("sums.py").write_text(python)
    (puzzle,) = blocks("text")
    Path("puzzle.txt").write_text(puzzle)
    lines = [line for block in blocks("bash") for line in block.splitlines()]
    assert len(lines) == 6
    status = 0
    for line in lines:
        assert status == 0, line
        line = re.sub(r"^python (train|evaluate)\.py", r"reason \1", line)
        words = shlex.split(line)[1:]
        if brief:
            words = [FEW.get(word, word).replace("steps=3000", "steps=2") for word in words]
            words += {"train": ["model.hidden_size=8"], "solve": ["--restarts", "2"]}.get(words[0], [])
        status = main(words)
    return status


def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert follow(tmp_path, monkeypatch, brief=True) in (0, 1)  # two steps of training solve nothing
    assert "sum_eq 5: 5 6" in capsys.readouterr().out.rpartition("question\n")[2]  # as solve draws it


@pytest.mark.slow
def test_the_page_trains_a_network_that_solves_its_puzzle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert follow(tmp_path, monkeypatch, brief=False) == 0
    (results,) = Path("runs/sums/evaluation").glob("*/results.json")
    assert json.loads(results.read_text())["exact_by_step"][7] > 0.9


def test_the_starting_file_makes_a_set_that_is_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["new-puzzle", "my-hills"]) == 0
    made = ["my_hills.py", "--train", "2", "--test", "1", "--processes", "1", "--output-dir", "set"]
    assert main(["generate", *made]) == 0
    assert main(["generate", "verify", "set"]) == 0
    metadata, _ = read_split("set", "train")
    assert metadata.task["name"] == "my-hills"
    assert metadata.structure is not None
    assert list(metadata.structure.groups) == ["row", "column"]
    assert any(relation.places == 2 for relation in metadata.structure.relations)


def test_names_and_files_that_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("../up", "2hills", "Hills", "a b"):
        assert main(["new-puzzle", name]) == 1
        assert "is no name of a puzzle" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
    Path("hills.py").write_text("mine")
    assert main(["new-puzzle", "hills"]) == 1
    assert "is there already" in capsys.readouterr().err
    assert Path("hills.py").read_text() == "mine"
