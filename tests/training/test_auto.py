"""What `auto` means: rules by device, size and mixer; config.json records the choice, and a resumed run keeps it."""

import json
from pathlib import Path

import pytest
import torch

from reason.cli import main
from reason.config.overrides import override, read_config
from reason.config.schema import Config
from reason.presets import PRESETS
from reason.training import accelerate, auto
from reason.training.accelerate import Accelerator
from reason.training.auto import LONG, resolve, resolve_reading

CPU = torch.device("cpu")
SMALL = PRESETS["sudoku-4x4"].shape


def written(config: Config) -> float:
    """Positions × width × layer calls of a step, by hand."""
    c = config.model
    cells = SMALL.seq_len + c.puzzle_emb_len
    return cells * c.hidden_size * c.h_cycles * (c.l_cycles + 1) * c.num_layers * c.repeats


@pytest.mark.parametrize(
    ("works", "enough", "expected"), [(True, True, "inductor"), (True, False, "none"), (False, True, "none")]
)
def test_long_work_is_compiled_where_code_can_be_generated(
    works: bool, enough: bool, expected: str, tiny: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auto, "inductor_works", lambda _: works)
    a_step = written(tiny) * tiny.training.batch_size * tiny.rollout.grad_steps
    steps = int(LONG["cpu"] / a_step) + 1 if enough else int(LONG["cpu"] / a_step)
    asked = override(tiny, {"training.steps": str(steps), "training.compile": "auto"})
    config, reasons = resolve(asked, [SMALL, SMALL], CPU)
    assert config.training.compile == expected
    assert len(reasons) == enough
    puzzles = 3 * int(LONG["cpu"] / written(tiny)) + (3 if enough else -3)
    config, _ = resolve_reading(override(tiny, {"evaluation.compile": "auto"}), SMALL, CPU, puzzles, 1)
    assert config.evaluation.compile == expected


def test_an_accelerator_of_whole_steps_leaves_nothing_to_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    by_steps = Accelerator(lambda *_: None, lambda _: None)
    monkeypatch.setattr(accelerate, "ACCELERATORS", {"any": by_steps})
    preset = PRESETS["sudoku-6x6-groups"]
    asked = override(preset.config(), {"training.steps": "1000000", "training.compile": "auto"})
    config, reasons = resolve(asked, [preset.shape], CPU)
    assert (config.model.fused, config.training.compile, reasons) == (True, "none", [])


def test_a_run_records_and_keeps_what_auto_came_to(half: Path) -> None:
    recorded = read_config(half / "config.json")
    assert recorded.training.compile == "none"
    older = json.loads((half / "config.json").read_text())
    older["config"]["model"]["gradient_checkpointing"] = older["config"]["training"]["compile"] = "auto"
    (half / "config.json").write_text(json.dumps(older))  # as an earlier version wrote it
    assert main(["train", "run=half", "--resume", "--max-steps", "3"]) == 0
    assert read_config(half / "config.json") == recorded
    assert main(["train", "run=half", "--resume", "model.gradient_checkpointing=true"]) == 0
    assert read_config(half / "config.json").model.gradient_checkpointing is True
