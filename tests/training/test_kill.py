"""kill -9 at any moment: what was saved goes on to the bit, and little is lost."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import TINY
from test_loop import VARIANTS, hold_equal

from reason.cli import main
from reason.training.checkpoint import checkpoints

HERE = Path(__file__).parent
FAMILIES = {**VARIANTS, "fp16": {"training.precision": "fp16"}}


def run_plans(plans: list[dict[str, object]], folder: Path) -> list[dict[str, int]]:
    """What `killed.py` says of each child."""
    file = folder / "plan.json"
    file.write_text(json.dumps(plans))
    command = [sys.executable, str(HERE / "killed.py"), str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, env=os.environ)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"status"')]


def words(data: Path, run: Path, changes: dict[str, str], **settings: int) -> list[str]:
    pairs = TINY | {f"training.{key}": str(value) for key, value in settings.items()} | changes
    return [
        "sudoku-4x4",
        f"data={data}",
        f"run={run}",
        *(f"{key}={value}" for key, value in pairs.items()),
    ]


@pytest.mark.parametrize(
    "families",
    [["hrm"], pytest.param([name for name in FAMILIES if name != "hrm"], marks=pytest.mark.slow)],
    ids=["hrm", "the others"],
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
        plans.append(
            {"run": str(tmp_path / name / "parts"), "words": line, "step": 27, "seconds": None, "begun": False}
        )
    assert run_plans(plans, tmp_path) == [{"status": signal.SIGKILL, "seen": 27, "saved": 20}] * len(plans)
    for name in families:
        changes = FAMILIES[name]
        parts, whole = tmp_path / name / "parts", tmp_path / name / "whole"
        assert [path.name for path in checkpoints(parts)] == ["step-000000", "step-000020"], name
        assert main(["train", f"run={parts}", "--resume"]) == 0, name
        assert main(["train", *words(monitored_4x4, whole, changes, **settings)]) == 0, name
        hold_equal(parts, whole)


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_kills_at_random_moments_lose_no_more_than_an_interval_each(
    name: str, monitored_4x4: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Also while files are written: a checkpoint every 5 steps, metrics at each; the end is the same to the bit."""
    count, every, run = request.config.getoption("--kills"), 5, tmp_path / "parts"
    moments, settings = random.Random(name), {"steps": 100_000, "checkpoint_every": every, "log_every": 1}
    start = words(monitored_4x4, run, FAMILIES[name], **settings)
    plan = {"run": str(run), "words": start, "step": None}
    times = [
        {"seconds": moments.uniform(0.0, 1.5), "begun": kill % 4 > 0} for kill in range(count)
    ]  # some before a step
    kills = run_plans([plan | time for time in times], tmp_path)
    assert [kill["status"] for kill in kills] == [signal.SIGPROF] * count
    reached = 0
    for kill in kills:
        assert kill["seen"] - kill["saved"] <= every, kills
        assert kill["saved"] >= reached - every, kills
        reached = max(reached, kill["seen"])
    goal = reached + 2 * every
    assert main(["train", f"run={run}", "--resume", "--max-steps", str(goal)]) == 0
    whole = tmp_path / "whole"
    line = words(monitored_4x4, whole, FAMILIES[name], **settings)
    assert main(["train", *line, "--max-steps", str(goal)]) == 0
    hold_equal(run, whole)
    print(f"{name}: {count} kills, {goal} steps")
    shutil.rmtree(whole)
