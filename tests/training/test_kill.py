"""kill -9 at any moment: what was saved goes on to the bit, and little is lost."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from conftest import TINY
from test_loop import VARIANTS, everything, untimed

from reason.cli import main
from reason.training.checkpoint import checkpoints, step_of
from reason.training.log import read_metrics

HERE = Path(__file__).parent
FAMILIES = {**VARIANTS, "fp16": {"training.precision": "fp16"}}


def run_plans(plans: list[dict[str, object]], folder: Path) -> list[int]:
    """The wait statuses of `killed.py`'s children."""
    file = folder / "plan.json"
    file.write_text(json.dumps(plans))
    command = [sys.executable, str(HERE / "killed.py"), str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, env=os.environ)
    assert done.returncode == 0, done.stderr
    return [int(line) for line in done.stdout.splitlines() if line.isdigit()]


def words(data: Path, run: Path, changes: dict[str, str], **settings: int) -> list[str]:
    pairs = TINY | {f"training.{key}": str(value) for key, value in settings.items()} | changes
    return ["sudoku-4x4", f"data={data}", f"run={run}", *(f"{key}={value}" for key, value in pairs.items())]


@pytest.mark.parametrize(
    "families",
    [["trm-mlp", "hrm"], pytest.param([n for n in FAMILIES if n not in ("trm-mlp", "hrm")], marks=pytest.mark.slow)],
    ids=["two", "the others"],
)
def test_forty_steps_are_twenty_and_a_kill_and_the_rest(
    families: list[str], monitored_4x4: Path, tmp_path: Path
) -> None:
    """Killed within step 28: the checkpoint of step 20 goes on; weights, EMA, carry and metrics equal."""
    settings = {"steps": 40, "checkpoint_every": 20, "log_every": 3}
    plans = []
    for name in families:
        changes = FAMILIES[name]
        line = words(monitored_4x4, tmp_path / name / "parts", changes, **settings)
        plans.append({"words": line, "step": 27, "seconds": None})
    assert run_plans(plans, tmp_path) == [signal.SIGKILL] * len(plans)
    for name in families:
        changes = FAMILIES[name]
        parts, whole = tmp_path / name / "parts", tmp_path / name / "whole"
        assert [path.name for path in checkpoints(parts)] == ["step-000020"], name
        assert read_metrics(parts)[-1]["step"] == 27, name
        assert main(["train", f"run={parts}", "--resume"]) == 0, name
        assert main(["train", *words(monitored_4x4, whole, changes, **settings)]) == 0, name
        one, other = everything(whole), everything(parts)
        assert one.keys() == other.keys()
        assert [tensor for tensor in one if not torch.equal(one[tensor], other[tensor])] == [], name
        assert untimed(parts) == untimed(whole), name


@pytest.mark.slow
def test_twenty_kills_lose_no_more_than_an_interval_each(monitored_4x4: Path, tmp_path: Path) -> None:
    """At random moments, also while files are written: a checkpoint every 5 steps, metrics at each."""
    moments, every = random.Random(0), 5
    settings = {"steps": 4000, "checkpoint_every": every, "log_every": 1}
    run = tmp_path / "parts"
    start = words(monitored_4x4, run, {}, **settings)
    reached = 0
    for kill in range(20):
        line = start if not checkpoints(run) and not run.exists() else [f"run={run}", "--resume"]
        plan = {"words": line, "step": None, "seconds": moments.uniform(2.0, 6.0)}
        assert run_plans([plan], tmp_path) == [signal.SIGKILL], kill
        lines = read_metrics(run)
        seen = lines[-1]["step"] if lines else 0
        saved = max((step_of(path) for path in checkpoints(run)), default=0)
        assert seen - saved <= every, (kill, seen, saved)
        assert saved >= reached - every, kill
        reached = max(reached, seen)
    assert reached > 2 * every
    goal = reached + 2 * every
    assert main(["train", f"run={run}", "--resume", "--max-steps", str(goal)]) == 0
    whole = tmp_path / "whole"
    assert main(["train", *words(monitored_4x4, whole, {}, **settings), "--max-steps", str(goal)]) == 0
    one, other = everything(whole), everything(run)
    assert [tensor for tensor in one if not torch.equal(one[tensor], other[tensor])] == []
    assert untimed(run) == untimed(whole)
    shutil.rmtree(whole)
