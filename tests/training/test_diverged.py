"""Losses and gradients that are no numbers: training stops, and nothing broken is saved."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from test_loop import trainer_of

from reason.config.overrides import override
from reason.config.schema import Config
from reason.errors import Diverged
from reason.training import checkpoint


def test_a_loss_that_is_no_number_stops_with_its_name(tiny: Config, tmp_path: Path) -> None:
    trainer = trainer_of(tiny, tmp_path / "run")
    step = trainer.optimizer_step

    def breaks_at_once() -> torch.Tensor:
        with torch.no_grad():
            trainer.model.head.weight.fill_(float("nan"))
        return step()

    trainer.optimizer_step = breaks_at_once  # type: ignore[method-assign]
    with pytest.raises(Diverged, match=r"loss lm is no finite number at step 2; last good checkpoint: .*step-000000"):
        trainer.train()


def test_what_is_broken_is_never_saved(tiny: Config, tmp_path: Path) -> None:
    """The loss breaks between two log lines: the checkpoint that is due there is refused, the good one stays."""
    config = override(tiny, {"training.log_every": "100", "training.checkpoint_every": "2"})
    trainer = trainer_of(config, tmp_path / "run")
    step = trainer.optimizer_step

    def breaks_after_three() -> torch.Tensor:
        if trainer.step == 3:
            with torch.no_grad():
                trainer.model.head.weight.fill_(float("nan"))
        return step()

    trainer.optimizer_step = breaks_after_three  # type: ignore[method-assign]
    with pytest.raises(Diverged, match=r"at step 4; last good checkpoint: .*step-000002"):
        trainer.train()
    assert [path.name for path in checkpoint.checkpoints(tmp_path / "run")] == ["step-000000", "step-000002"]


def test_a_gradient_that_is_none_is_never_saved(tiny: Config, tmp_path: Path) -> None:
    """Every loss finite, one gradient NaN: the step before it stays the last good one."""
    trainer = trainer_of(override(tiny, {"training.checkpoint_every": "1"}), tmp_path / "run")

    def spoil(gradient: torch.Tensor) -> torch.Tensor:
        return gradient * float("nan") if trainer.step == 2 else gradient

    trainer.model.head.weight.register_hook(spoil)
    with pytest.raises(Diverged, match=r"the gradient is no finite number.* at step 3; last good .*step-000002"):
        trainer.train()
    for folder in checkpoint.checkpoints(tmp_path / "run"):
        assert all(t.isfinite().all() for t in load_file(folder / "weights.safetensors").values())
