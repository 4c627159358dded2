"""benchmarks/gpu.py: its parts on a CPU, and what it writes when one fails."""

import importlib
import json
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(FOLDER)
    return importlib.import_module("gpu")


def test_a_part_that_fails_is_written_and_the_next_one_runs(script: ModuleType, tmp_path: Path) -> None:
    allowed: list[float] = []

    def fails(seconds: float, folder: Path) -> None:
        allowed.append(seconds)
        raise RuntimeError("no device")

    def works(seconds: float, folder: Path) -> int:
        allowed.append(seconds)
        assert json.loads((tmp_path / "out.json").read_text())["first"]["error"] == "RuntimeError: no device"
        return 7

    script.measure({"first": (0.25, fails), "second": (0.75, works)}, tmp_path / "out.json", minutes=2)
    assert json.loads((tmp_path / "out.json").read_text())["second"]["result"] == 7
    assert allowed == [pytest.approx(30, abs=1), pytest.approx(120, abs=2)], "what one part leaves is the others'"
    assert sum(share for share, _ in script.parts(tmp_path).values()) == pytest.approx(1)
    assert script.parts(tmp_path).keys() - script.parts(None).keys() == {"trm beside compiled original"}
    with pytest.raises(RuntimeError, match="status 2"):
        script.run([*script.REASON, "no-such-command"], 60, tmp_path)


@pytest.mark.slow
def test_the_parts_work_on_a_cpu(script: ModuleType, tmp_path: Path) -> None:
    small = ["device=cpu", "model.hidden_size=16", "training.batch_size=4"]
    parts = {
        "bench": (0.6, script.bench(["sudoku-4x4", "trm-mlp-sudoku", *small], 1, 1)),
        "resume": (0.4, script.resumable("cpu", 4)),
    }
    found = script.measure(parts, tmp_path / "out.json", minutes=20)
    assert found["resume"]["result"]["same_weights"], found
    rows = found["bench"]["result"]["results"]
    assert all(row["puzzle_steps_per_second"] > 0 for row in rows)
    assert all(row["memory_estimated"] > 0 and row["memory_peak"] is None for row in rows)
