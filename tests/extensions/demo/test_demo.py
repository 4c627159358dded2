"""The demo, with a run that has taken two steps."""

import re
from pathlib import Path

import pytest
from conftest import make_set, output, refusal

from reason.cli import main
from reason.extensions.demo import command as demo

SHORT = ["training.batch_size=2", "training.compile=none", "model.hidden_size=8"]


@pytest.fixture
def sets_there(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small sets where the demo has its own."""
    monkeypatch.setattr(demo, "PUZZLES", 2)
    for folder in demo.preset(demo.PRESET).config().data.directories:
        make_set("maze --size 10 --min-path 4 --train 8 --validation 2 --test 4", Path(folder))


@pytest.mark.usefixtures("sets_there")
def test_the_demo_reads_three_sizes_and_draws_a_maze(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "LARGER", {11: 5})
    monkeypatch.setattr(demo, "DRAWN", 11)
    assert main(["train", demo.PRESET, f"run={demo.RUN}", "training.steps=2", *SHORT]) == 0
    said = output("demo", "demo: 2 mazes of 11x11, exact: ", "% at step 1, ", "% at step 4, ", "% at step 5\n")
    end = "at step 1, report runs/demo/evaluation/maze-10x10-test-T16/report.html"
    assert re.fullmatch(rf"demo: exact .*% at step 8 of 8 trained, .*% {end}", said.strip().splitlines()[-1])
    assert (demo.RUN / "maze.gif").stat().st_size > 1000


@pytest.mark.usefixtures("sets_there")
def test_a_demo_cut_short_reads_what_it_has_trained() -> None:
    words = [demo.PRESET, f"run={demo.RUN}", f"training.steps={demo.STEPS}", *SHORT]
    assert main(["train", *words, "--max-steps", "1"]) == 0
    last = output("demo --minutes 0.001").strip().splitlines()[-1]
    assert re.fullmatch(r"demo: cut short at training step \d+ of 6000, exact .*; `make demo` goes on .*", last)
    refusal("demo --minutes 0", "--max-minutes 0.0: must be above 0")
