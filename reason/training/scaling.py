"""Loss scaling for fp16."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

PATIENCE = 100  # skipped steps in a row (ours): the scale has fallen by 2^100 and is not coming back


class LossScaling:
    """torch.amp.GradScaler, and its skipped steps counted. For any type but fp16 it does nothing.

    The loss is multiplied by a scale before backward and the gradients divided by it after; where one overflows, the
    optimizer step is skipped and the scale halved. To know that, the scaler waits for the device once an optimizer
    step; bf16 and fp32 never wait. A skipped step counts as taken: its puzzles are drawn, the schedule moves (ours).
    """

    def __init__(self, device: torch.device, dtype: torch.dtype):
        self.scaler = torch.amp.GradScaler(device.type, enabled=dtype == torch.float16)
        self.skipped = 0  # in all
        self._in_a_row = 0

    @property
    def enabled(self) -> bool:
        """Is the loss scaled, so that steps with overflowing gradients are skipped?"""
        return self.scaler.is_enabled()

    def scale(self, loss: Tensor) -> Tensor:
        """The scaled loss."""
        return self.scaler.scale(loss)

    def factor(self, device: torch.device) -> Tensor | float:
        """The scale, without waiting for the device."""
        return self.scaler.scale(torch.ones((), device=device)) if self.scaler.is_enabled() else 1.0

    def unscale(self, optimizer: torch.optim.Optimizer) -> None:
        """Divide the gradients by the scale."""
        self.scaler.unscale_(optimizer)

    def step(self, optimizer: torch.optim.Optimizer) -> bool:
        """One step of the optimizer; False where it was skipped."""
        moved = []
        hook = optimizer.register_step_post_hook(lambda *_: moved.append(True))
        try:
            self.scaler.step(optimizer)
        finally:
            hook.remove()
        self.scaler.update()
        self._in_a_row = 0 if moved else self._in_a_row + 1
        self.skipped += not moved
        return bool(moved)

    @property
    def stuck(self) -> bool:
        """Were PATIENCE steps in a row skipped?"""
        return self._in_a_row >= PATIENCE

    def figures(self) -> dict[str, float]:
        """For the metrics: steps skipped since the start, and the scale; {} without scaling."""
        if not self.scaler.is_enabled():
            return {}
        return {"skipped_steps": self.skipped, "loss_scale": self.scaler.get_scale()}

    def state_dict(self) -> dict[str, Any]:
        """The scale, its growth, the counts."""
        return {"scaler": self.scaler.state_dict(), "skipped": self.skipped, "in_a_row": self._in_a_row}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load a saved scale."""
        if state["scaler"] and self.scaler.is_enabled():
            self.scaler.load_state_dict(state["scaler"])
        self.skipped, self._in_a_row = state["skipped"], state["in_a_row"]
