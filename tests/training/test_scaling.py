"""fp16: the loss is scaled, overflowing steps are skipped and counted, and all of it resumes."""

from pathlib import Path

import pytest
import torch
from conftest import trainer_of
from test_loop import VARIANTS, hold_equal, resumed

from reason.config.overrides import override
from reason.config.schema import Config
from reason.errors import ConfigError, Diverged
from reason.presets import PRESETS
from reason.training.log import read_metrics
from reason.training.precision import dtypes

HALF = {"training.precision": "fp16"}


def test_scaled_training_resumes_to_the_bit(tiny: Config, tmp_path: Path) -> None:
    """With a scale so high that the first steps overflow: skips, halvings and growth are part of the state."""
    config = override(tiny, HALF | {"training.log_every": "1"})

    def begun(run: str) -> object:
        trainer = trainer_of(config, tmp_path / run)
        trainer.scaling.scaler.set_growth_interval(2)
        trainer.scaling.scaler.load_state_dict(trainer.scaling.scaler.state_dict() | {"scale": 2.0**40})
        return trainer

    begun("whole").train()
    begun("parts").train(max_steps=3)
    resumed(config, tmp_path / "parts").train()
    hold_equal(tmp_path / "parts", tmp_path / "whole")
    lines = read_metrics(tmp_path / "whole")
    assert lines[0]["skipped_steps"] == 1
    assert lines[0]["gradient_norm"] is None
    assert lines[1]["loss_scale"] < lines[0]["loss_scale"] <= 2.0**39


def test_a_skipped_step_moves_nothing(tiny: Config, tmp_path: Path) -> None:
    trainer = trainer_of(override(tiny, HALF | VARIANTS["trm-attention"]), tmp_path / "run")  # with puzzle embeddings
    trainer.scaling.scaler.load_state_dict(trainer.scaling.scaler.state_dict() | {"scale": 2.0**60})
    before = {name: p.detach().clone() for name, p in trainer.model.named_parameters()}
    trainer.optimizer_step()
    assert trainer.scaling.skipped == 1
    assert all(torch.equal(before[name], p) for name, p in trainer.model.named_parameters())
    assert trainer.optimizers.state_dict() == {}
    trainer.scaling.scaler.load_state_dict(trainer.scaling.scaler.state_dict() | {"scale": 2.0**10})
    trainer.optimizer_step()
    moved = [name for name, p in trainer.model.named_parameters() if not torch.equal(before[name], p)]
    assert "head.weight" in moved
    assert "puzzle_embedding.weight" in moved


def test_overflow_without_end_stops(tiny: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gradients that no scale brings back: the run stops with the step and the last good checkpoint."""
    monkeypatch.setattr("reason.training.precision.STUCK", 2.0**4)
    trainer = trainer_of(override(tiny, HALF | {"training.steps": "500"}), tmp_path / "run")
    trainer.train(max_steps=3)
    step = trainer.optimizers.step

    def overflowing(index: int) -> torch.Tensor:
        for parameter in trainer.optimizers.weights:
            if parameter.grad is not None:
                parameter.grad.fill_(float("inf"))
        return step(index)

    trainer.optimizers.step = overflowing  # type: ignore[method-assign]
    expected = r"overflows fp16 .* at step 15; last good checkpoint: .*step-000012.*precision=fp32"
    with pytest.raises(Diverged, match=expected):
        trainer.train()
    assert trainer.scaling.skipped == 12


@pytest.mark.parametrize(
    ("capability", "bf16", "expected"),
    [((9, 0), True, torch.bfloat16), ((7, 0), False, torch.float16), ((6, 1), False, torch.float32)],
    ids=["H100", "V100", "P100"],
)
def test_auto_takes_what_the_gpu_is_fast_in(
    capability: tuple[int, int], bf16: bool, expected: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation=True: bf16)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "a GPU")
    assert dtypes("auto", torch.device("cuda")).states == expected
    if not bf16:
        with pytest.raises(ConfigError, match="a GPU has no bf16; type fp16"):
            dtypes("bf16", torch.device("cuda"))
        with pytest.raises(ConfigError, match="a GPU has no bf16; type amp-fp16"):
            dtypes("amp-bf16", torch.device("cuda"))


def test_no_preset_asks_for_bf16() -> None:
    """Each runs where there is none: `auto` then takes fp16."""
    assert {preset.config().training.precision for preset in PRESETS.values()} <= {"auto", "amp", "fp16", "fp32"}
    with pytest.raises(ConfigError, match="type bf16 or fp32"):
        dtypes("fp16", torch.device("mps"))
