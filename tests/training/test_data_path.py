"""A training step never asks the device for a number: nothing in it waits."""

from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import trainer_of
from test_loop import VARIANTS
from torch.utils._python_dispatch import TorchDispatchMode

from reason.config.overrides import override
from reason.config.schema import Config

WAITING = {"aten::_local_scalar_dense", "aten::nonzero", "aten::masked_select", "aten::unique_dim", "aten::_unique2"}


class NoWaiting(TorchDispatchMode):
    """Refuses what copies a number to the host, or a shape that depends on one."""

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function._schema.name in WAITING:
            raise AssertionError(f"{function._schema.name} waits for the device")
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("wait", [lambda t: t.item(), lambda t: t.nonzero(), lambda t: bool(t.any()), torch.unique])
def test_waiting_is_noticed(wait: Any) -> None:
    with pytest.raises(AssertionError, match="waits"), NoWaiting():
        wait(torch.ones(3)[0:1])


@pytest.mark.parametrize("family", VARIANTS)
def test_no_step_waits_for_the_device(family: str, tiny: Config, tmp_path: Path) -> None:
    """Draw, augment, supervise, backward, average, meters. The step counter of AdamW lives on the host on a GPU too."""
    trainer = trainer_of(override(tiny, VARIANTS[family]), tmp_path / "run")
    if family.startswith(("adamw", "muon")):
        trainer.optimizers.step = lambda step: torch.zeros(())  # type: ignore[method-assign]
    with NoWaiting():
        for _ in range(4):
            trainer.optimizer_step()
    assert trainer.step == 4


@pytest.mark.gpu
@pytest.mark.parametrize("family", VARIANTS)  # fp16 is not among them: its scaler waits once an optimizer step
def test_no_gpu_step_waits(family: str, tiny: Config, tmp_path: Path) -> None:
    trainer = trainer_of(override(tiny, VARIANTS[family]), tmp_path / "run", "cuda")
    trainer.optimizer_step()
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(4):
            trainer.optimizer_step()
    finally:
        torch.cuda.set_sync_debug_mode("default")
