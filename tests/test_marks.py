"""Training on labels that say more than the answer (data.marks): taught, folded in answers, refused elsewhere."""

import json
from pathlib import Path

import pytest
import torch
from conftest import refusal

from datasets_gen.maze.paths import FREE
from reason import api
from reason.cli import main
from reason.data import PuzzleData
from reason.models.recursive import unmarked

SHORT = (
    "model.hidden_size=16 training.steps=4 training.batch_size=4 training.monitor.every=2 training.compile=none "
    "optimizer.schedule.warmup_steps=1 rollout.supervision_steps=2"
)


def test_the_larger_logit_is_that_of_the_token() -> None:
    logits = torch.tensor([[0.0, 5.0, 1.0, 2.0, -1.0], [0.0, 1.0, 3.0, 2.0, 4.0]])
    assert unmarked(logits, (2, 1)).tolist() == [[0, 5, 2], [0, 4, 3]]
    assert unmarked(logits, ()) is logits


@pytest.fixture
def mazes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    words = ["generate", "maze", "--size", "6", "--min-path", "5", "--validation", "4", "--test", "4"]
    assert main([*words, "--train", "12", "--output-dir", "mazes", "--processes", "1"]) == 0
    return tmp_path / "mazes"


def test_a_marked_training_is_read_without_marks(mazes: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = PuzzleData(mazes, "train", marks=True)
    assert data.labels.max() == data.shape.vocab_size == 6
    assert data.shape.marks == (FREE,)
    assert main(["train", "maze-any", "data=mazes", "data.marks=true", "run=run", *SHORT.split()]) == 0
    assert (
        main(["train", "maze-any", "data=mazes", "data.marks=true", "run=half", *SHORT.split(), "--max-steps", "2"])
        == 0
    )
    assert main(["train", "run=half", "--resume"]) == 0
    run, half = (api.load(name, device="cpu").model for name in ("run", "half"))
    assert all(torch.equal(a, b) for a, b in zip(run.parameters(), half.parameters(), strict=True))
    batch = data.take(torch.arange(4))
    x = run.encode(batch)
    state = run.step(run.initial_state(x), x)
    assert run.readout(state, x).logits.shape[-1] == 6
    assert run.train().readout(state, x).logits.shape[-1] == 7
    assert main(["evaluate", "run", "steps=2"]) == 0
    capsys.readouterr()
    assert main(["solve", "run", "S..\n.#.\n..G", "--json", "--restarts", "1"]) in (0, 1)
    assert json.loads(capsys.readouterr().out)["task"] == {"name": "maze", "size": 3}


def test_marks_are_of_mazes_and_of_a_head_that_has_them(mazes: Path, sudoku_4x4: Path) -> None:
    refusal(["train", "sudoku-4x4", f"data={sudoku_4x4}", "data.marks=true"], "holds no mazes; type data.marks=false")
