"""Exponential moving average of the weights."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor, nn

from reason.settings.base import BaseConfig, When


class EmaConfig(BaseConfig):
    """The exponential moving average of the weights, which is evaluated."""

    decay: float | None = Field(0.999, ge=0, lt=1, description="r of avg ← r·avg + (1 − r)·weights; none: no EMA")
    warmup: Annotated[bool, When("decay")] = Field(
        False, description="decay min(r, (1 + t)/(10 + t)), which short runs need"
    )

    def of_start(self, steps: int) -> float:
        """Return the share of the initial weights in the average after `steps` optimizer steps."""
        return 0 if self.warmup or self.decay is None else self.decay**steps

    def rate(self, step: int) -> float:
        """Return 1 − r after optimizer step `step`, counted from 1; 0 without an average."""
        if self.decay is None:
            return 0.0
        return 1 - (min(self.decay, (1 + step) / (10 + step)) if self.warmup else self.decay)


class Ema:
    """avg ← r·avg + (1 − r)·weights after every optimizer step, from the initial weights on (TRM).

    The puzzle embeddings are excluded, as in the authors' code, which holds them in a buffer.
    """

    def __init__(self, model: nn.Module):
        self._source = {n: p.detach() for n, p in model.named_parameters() if not n.startswith("puzzle_embedding")}
        self._average = {name: weight.clone() for name, weight in self._source.items()}

    @torch.no_grad()
    def update(self, rate: float | Tensor) -> None:
        """Move the averages towards the weights by the factor `rate` = 1 − r."""
        weights = [rate] * len(self._average) if isinstance(rate, Tensor) else rate
        torch._foreach_lerp_([*self._average.values()], [*self._source.values()], weights)

    @contextlib.contextmanager
    def in_place(self) -> Iterator[None]:
        """Replace the weights by the averages within the block, and restore them after it, bit for bit."""
        weights = [*self._source.values()]
        before = [weight.clone() for weight in weights]
        torch._foreach_copy_(weights, [*self._average.values()])
        try:
            yield
        finally:
            torch._foreach_copy_(weights, before)

    def state_dict(self) -> dict[str, Tensor]:
        """Return the averaged weights by parameter name."""
        return dict(self._average)

    @torch.no_grad()
    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Load saved averages."""
        for name, average in self._average.items():
            average.copy_(state[name])
