"""The demo, with a run that has taken two steps."""

from __future__ import annotations

from pathlib import Path

import pytest

from datasets_gen.__main__ import main as generate
from reason.cli import demo, main


def test_the_demo_reads_three_sizes_and_draws_a_maze(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo, "LARGER", {11: 5})
    monkeypatch.setattr(demo, "DRAWN", 11)
    monkeypatch.setattr(demo, "PUZZLES", 2)
    sets = demo.preset(demo.PRESET).config().data.directories
    for folder in sets:
        words = f"maze --size 10 --min-path 4 --train 8 --validation 2 --test 4 --output-dir {folder}"
        assert generate(words.split()) == 0
    short = ["training.steps=2", "training.batch_size=2", "training.compile=none", "model.hidden_size=8"]
    assert main(["train", demo.PRESET, f"run={demo.RUN}", *short]) == 0
    capsys.readouterr()
    assert main(["demo"]) == 0
    said = capsys.readouterr().out
    assert "demo: 2 mazes of 11x11, exact: " in said
    assert "% at step 1, " in said
    assert "% at step 4, " in said
    assert "% at step 5\n" in said
    last = said.strip().splitlines()[-1]
    assert last.startswith("demo: exact ")
    assert "% at step 8 of 8 trained, " in last
    assert last.endswith("report runs/demo/evaluation/maze-10x10-test-T16/report.html")
    assert (demo.RUN / "maze.gif").stat().st_size > 1000
