"""What `auto` comes to: by the memory that is available and by the work counted from shapes; recorded, then kept."""

import json
from pathlib import Path

import pytest
import torch

from reason.cli import main
from reason.config.overrides import override, read_config
from reason.config.schema import Config
from reason.machine import auto
from reason.machine.auto import resolve
from reason.machine.estimate import Work, estimate_memory, work_of
from reason.nn.dtypes import Dtypes
from reason.presets import PRESETS, preset

CPU = torch.device("cpu")
SMALL = PRESETS["sudoku-4x4"].shape


def test_gradients_are_checkpointed_where_training_would_not_fit(tiny: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    """At one byte below the estimate, and at no other size; a process holds its own share of the rows."""
    large = override(tiny, {"model.gradient": "all-cycles", "training.batch_size": "64"})
    needed = estimate_memory(large, SMALL, Dtypes(torch.float32), "cpu").total
    for available, expected in ((needed, False), (needed - 1, True)):
        monkeypatch.setattr(auto, "available_memory", lambda _, size=available: size)
        config, reasons = resolve(large, [SMALL], CPU)
        assert config.model.gradient_checkpointing is expected
        assert [line.partition(":")[0] for line in reasons] == ["gradient checkpointing"] * expected
    assert resolve(large, [SMALL], CPU, processes=2).config.model.gradient_checkpointing is False
    typed = override(large, {"model.gradient_checkpointing": "false", "training.compile": "none"})
    assert resolve(typed, [SMALL], CPU) == (typed, [])


def test_long_training_is_compiled_where_code_can_be_generated(tiny: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    second = Work(bytes=int(auto.SPEEDS["cpu"][0]), calls=0)
    monkeypatch.setattr(auto, "work_of", lambda *_: second)
    for works, steps, expected in ((True, 240, "inductor"), (True, 239, "none"), (False, 240, "none")):
        monkeypatch.setattr(auto, "inductor_works", lambda _, works=works: works)
        asked = override(tiny, {"training.steps": str(steps), "training.compile": "auto"})
        config, reasons = resolve(asked, [SMALL, SMALL], CPU)
        assert config.training.compile == expected
        assert len(reasons) == (steps == 240)


def test_short_training_is_not_counted(tiny: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto, "work_of", lambda *_: pytest.fail("it was counted"))
    monkeypatch.setattr(auto, "estimate_memory", lambda *_: pytest.fail("it was estimated"))
    config = resolve(override(tiny, {"training.compile": "auto"}), [SMALL], CPU).config
    assert (config.training.compile, config.model.gradient_checkpointing) == ("none", False)


def test_a_run_records_and_keeps_what_auto_came_to(half: Path, sudoku_4x4: Path) -> None:
    assert preset("sudoku-4x4").config().model.gradient_checkpointing == "auto"
    recorded = read_config(half / "config.json")
    assert (recorded.training.compile, recorded.model.gradient_checkpointing) == ("none", False)
    older = json.loads((half / "config.json").read_text())
    older["config"]["model"]["gradient_checkpointing"] = older["config"]["training"]["compile"] = "auto"
    (half / "config.json").write_text(json.dumps(older))  # as an earlier version wrote it
    assert main(["train", "run=half", "--resume", "--max-steps", "3"]) == 0
    assert read_config(half / "config.json") == recorded
    assert main(["train", "run=half", "--resume", "model.gradient_checkpointing=true"]) == 0
    assert read_config(half / "config.json").model.gradient_checkpointing is True


def test_more_work_of_wider_states_and_of_more_steps(tiny: Config) -> None:
    def work(**changes: str) -> Work:
        config = override(tiny, {key.replace("__", "."): value for key, value in changes.items()})
        return work_of(config, SMALL, Dtypes(torch.float32), "cpu")

    assert work(model__hidden_size="32").bytes > 1.4 * work().bytes
    assert work(model__hidden_size="32").calls == work().calls > 100
    two, four = (work(rollout__grad_steps=count) for count in "24")
    assert four == (2 * two.bytes, 2 * two.calls)
