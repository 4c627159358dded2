"""`model.kind=NAME`: the class NAME(nn.Module) of an imported file, built as NAME(shape), maps tokens (B, S) to logits.

    x̂ ← NAME(tokens)      z ← x̂      logits = z      (B, S, V) each

A step takes the module's answer as the state, a second step changes nothing, and training takes one step per puzzle.
"""

from __future__ import annotations

import inspect
import sys
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from reason.errors import ConfigError
from reason.models import FAMILIES, FINDERS, Family
from reason.models.base import Batch, Context, ModelConfig, Readout, Reasoner, Shape
from reason.plugins import IMPORTED
from reason.settings.base import require


class PlainConfig(ModelConfig):
    """The config of a module, without settings; a preset with a module trains without halting."""

    brings: ClassVar = {
        "rollout.halting": "none",
        "rollout.supervision_steps": 1,
        "loss.weights.q_halt": 0.0,
        "loss.weights.q_continue": 0.0,
    }

    def check(self, config: Any) -> None:
        """Check that the states are float32: the module is called in `autocast`."""
        precision = config.training.precision
        fix = f"training.precision=amp-{precision}"
        require(precision not in ("bf16", "fp16"), f"training.precision={precision}", "states of that type", fix)


class Answer(NamedTuple):
    """The state: the logits (B, S, V)."""

    z: Tensor


class PlainModel(Reasoner):
    """The module as a model of one step."""

    module: ClassVar[type[nn.Module]]

    def __init__(self, config: PlainConfig, shape: Shape, dtype: torch.dtype):
        super().__init__()
        self.shape, self.dtype, name = shape, torch.float32, self.module.__name__
        try:
            inspect.signature(self.module).bind(shape)
        except TypeError as error:
            raise ConfigError(f"{name}(shape) cannot be called: {error}; def __init__(self, shape) is needed") from None
        self.net = self.module(shape)

    def encode(self, batch: Batch) -> Context:
        """Call the module; x̂ are its logits."""
        with self.autocast():
            logits = self.net(batch.inputs)
        if logits.shape != (needed := (*batch.inputs.shape, self.shape.vocab_size)):
            raise ConfigError(f"{self.module.__name__}.forward: shape {tuple(logits.shape)}; {needed} is needed")
        return Context(logits)

    def initial_state(self, context: Context) -> Answer:
        """Return zero logits, the state before the first step."""
        return Answer(torch.zeros_like(context.x))

    def step(self, state: Answer, context: Context) -> Answer:
        """Return the module's answer as the new state."""
        return Answer(context.x)

    def readout(self, state: Answer, context: Context, step: int | None = None) -> Readout:
        """Return the state, which is the logits."""
        return Readout(state.z)


def find(kind: str) -> bool:
    """Register the class with this name in an imported file or the running program as a family."""
    for file in (*IMPORTED.values(), sys.modules["__main__"]):
        module = vars(file).get(kind)
        if isinstance(module, type) and issubclass(module, nn.Module):
            FAMILIES[kind] = Family(PlainConfig, type(kind, (PlainModel,), {"module": module}))
    return kind in FAMILIES


FINDERS.append(find)
