"""The demo, with a run that has taken two steps."""

import re
from pathlib import Path

import pytest
from conftest import make_set, output, refusal

from reason.cli import main
from reason.extensions.demo import command as demo

SHORT = ["training.batch_size=2", "training.compile=none", "model.hidden_size=8"]


@pytest.fixture(autouse=True)
def _sets_there(here, monkeypatch):
    """Small sets where the demo has its own."""
    monkeypatch.setattr(demo, "PUZZLES", 2)
    for folder in demo.preset(demo.PRESET).config().data.directories:
        make_set("maze --size 10 --min-path 4 --train 8 --validation 2 --test 4", Path(folder))


def test_the_demo_reads_two_sizes_and_draws_a_maze(monkeypatch):
    monkeypatch.setattr(demo, "LARGER", {11: 5})
    assert main(["train", demo.PRESET, f"run={demo.RUN}", "training.steps=2", *SHORT]) == 0
    said = output("demo", "demo: python evaluate.py runs/demo\n", "runs/demo data=data/maze-11x11 steps=5\n")
    read = re.findall(r"^exact .*? at step (\d+), .*; (\d) puzzles", said, re.MULTILINE)
    assert read == [("8", "4"), ("5", "2")]
    assert (demo.RUN / "maze.gif").stat().st_size > 1000


def test_a_demo_cut_short_reads_what_it_has_trained():
    words = [demo.PRESET, f"run={demo.RUN}", f"training.steps={demo.STEPS}", *SHORT]
    assert main(["train", *words, "--max-steps", "1"]) == 0
    said = output("demo --minutes 0.001", "demo: cut short before training step 6000; `make demo` continues it\n")
    assert re.search(r"^exact .*? at step 8, .*; 2 puzzles", said, re.MULTILINE)
    refusal("demo --minutes 0", "--max-minutes 0.0: must be above 0")
