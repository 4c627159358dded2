"""The commands for a lent GPU, on a processor: a training of so many minutes, and weights that can be read."""

import subprocess
import sys
from pathlib import Path

import pytest
from conftest import make_set, output

from reason.training.log import read_metrics

ROOT = Path(__file__).parents[1]
TINY = [
    "model.hidden_size=16",
    "training.compile=none",
    "training.batch_size=4",
    "training.precision=fp32",
    "training.log_every=10",
    "optimizer.schedule.warmup_steps=1",
]
SHORT = "import benchmarks.gpu_training as gpu; gpu.SPEED, gpu.RESERVE = 40, 1; import sys; sys.exit(gpu.main())"


@pytest.mark.slow
def test_a_training_of_so_many_minutes_is_packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    make_set("maze --size 5 --min-path 4 --train 20 --test 4", Path("mazes"))
    words = ["maze-any", "mazes", "run", "--minutes", "1", "data.marks=true", *TINY]
    subprocess.run([sys.executable, "-c", SHORT, *words], check=True, timeout=120)
    refused = subprocess.run(
        [sys.executable, "-c", SHORT, "maze-any", "mazes", "other", "--minutes", "0.01", *TINY], capture_output=True
    )
    assert b"give more --minutes" in refused.stderr
    last = read_metrics(Path("run"))[-1]["step"]
    assert last > 1
    assert not Path("run-speed").exists()
    subprocess.run(["tar", "xzf", "run-weights.tar.gz", "--one-top-level=packed"], check=True)
    output(["evaluate", "packed/run", "data=mazes", "steps=2"], "4 puzzles (test)")
    assert {path.name for path in Path("packed/run").iterdir()} >= {"config.json", "metrics.jsonl", "checkpoints"}
