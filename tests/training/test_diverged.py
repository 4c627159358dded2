"""Losses and gradients that are no numbers: training stops, and nothing broken is saved."""

from pathlib import Path

import pytest
import torch
from conftest import trainer_of
from safetensors.torch import load_file

from reason.config.overrides import override
from reason.config.schema import Config
from reason.errors import Diverged
from reason.training.loop import Trainer

EACH = {"training.checkpoint_every": "1"}
SELDOM = {"training.log_every": "100", "training.checkpoint_every": "2"}


@pytest.mark.parametrize(("changes", "step", "value", "said"), [
    ({}, 0, "nan", r"loss lm is not finite at step 2; last good checkpoint: .*step-000000"),
    (SELDOM, 2, "nan", r"at step 4; last good checkpoint: .*step-000002"),  # seen where a checkpoint is due
    (EACH, 1, "inf", r"weight head.weight is not finite at step 2; last good .*step-000001"),  # no loss is broken
])  # fmt: skip
def test_what_is_broken_is_never_saved(
    changes: dict[str, str], step: int, value: str, said: str, tiny: Config, tmp_path: Path
) -> None:
    """Weights that a step of the optimizer breaks."""
    trainer = trainer_of(override(tiny, changes), tmp_path / "run")
    move = trainer.optimizers.step

    def breaks(index: int) -> torch.Tensor:
        norm = move(index)
        if index == step:
            with torch.no_grad():
                trainer.model.head.weight[0, 0] = float(value)
        return norm

    trainer.optimizers.step = breaks
    stops_with(trainer, said, tmp_path / "run")


def test_a_gradient_that_is_none_is_never_saved(tiny: Config, tmp_path: Path) -> None:
    """Every loss finite, one gradient NaN: the step before it stays the last good one."""
    trainer = trainer_of(override(tiny, EACH), tmp_path / "run")
    trainer.model.head.weight.register_hook(lambda gradient: gradient * float("nan") if trainer.step == 2 else gradient)
    stops_with(trainer, r"the gradient is not finite.* at step 3; last good .*step-000002", tmp_path / "run")


def stops_with(trainer: Trainer, said: str, run: Path) -> None:
    """Training ends with the words, and whatever was saved is finite."""
    with pytest.raises(Diverged, match=said):
        trainer.train()
    for file in run.glob("checkpoints/step-*/*.safetensors"):
        assert all(t.isfinite().all() for t in load_file(file).values() if t.is_floating_point()), file
