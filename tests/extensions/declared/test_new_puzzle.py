"""The starting file of a puzzle of one's own makes a set as it stands, and no file is written over."""

from pathlib import Path

import pytest

from datasets_gen.layout import read_split
from reason.cli import main


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
