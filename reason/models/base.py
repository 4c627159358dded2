"""The model protocol: encode, initial_state, step and readout; a map where the dynamics are looked at."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import torch
from pydantic import Field
from torch import Tensor, nn

from reason.config.base import BaseConfig

State = Any  # a named tuple of (B, S, D) tensors, its own per model family
MapKind = Literal["f_h", "cycle", "step"]
ReadoutKind = Literal["norm", "raw", "final-only"]


class Shape(BaseConfig):
    """What a data set asks of a model: cells S, vocabulary V, and how many puzzle identifiers."""

    seq_len: int = Field(ge=1)
    vocab_size: int = Field(ge=1)
    num_puzzle_identifiers: int = Field(1, ge=1)

    def __str__(self) -> str:
        return f"{self.seq_len} cells, {self.vocab_size} tokens and {self.num_puzzle_identifiers} puzzle identifiers"

    def fits(self, built: Shape) -> bool:
        """Can a model built for `built` read a set of this shape? It must know every identifier."""
        same = (self.seq_len, self.vocab_size) == (built.seq_len, built.vocab_size)
        return same and self.num_puzzle_identifiers <= built.num_puzzle_identifiers


class Batch(NamedTuple):
    """Puzzles on the device, all int64. A label of IGNORE is not scored."""

    inputs: Tensor  # (B, S)
    labels: Tensor  # (B, S)
    identifiers: Tensor  # (B,)


IGNORE = -100


class Readout(NamedTuple):
    """What a state says: cell logits, and the values of the halting head and the exit gate where the model has them."""

    logits: Tensor  # (B, S, V)
    q_halt: Tensor | None = None  # (B,) float32
    q_continue: Tensor | None = None  # (B,) float32, HRM's Q of continuing
    gate: Tensor | None = None  # (B, S) or, a gate per puzzle, (B, 1): the logit of leaving here, float32


class ModelConfig(BaseConfig):
    """The settings of a model family: `reason.models.FAMILIES` holds each by its `kind`."""

    kind: str = ""

    def refuse_training(self) -> None:
        """Raise ConfigError where a setting is for evaluation alone."""


class Reasoner(nn.Module, ABC):
    """z ← F(z, x̂) with a readout. State goes in and comes out as a value; the module remembers nothing."""

    shape: Shape
    dtype: torch.dtype  # of activations; weights are float32
    final_from: int = 0  # readouts before this step differ from a final one, where the model has two ways to read

    @abstractmethod
    def encode(self, batch: Batch) -> Tensor:
        """Tokens and identifiers -> x̂ (B, S', D), S' = prefix + cells: the parameter of the dynamics."""

    @abstractmethod
    def initial_state(self, x: Tensor) -> State:
        """The state from which a puzzle x̂ starts."""

    @abstractmethod
    def step(self, state: State, x: Tensor) -> State:
        """One supervision step; the gradient reaches back as far as the config says."""

    def path(self, state: State, x: Tensor) -> list[State]:
        """The states on the way through one `step`, its end last; a model of one call a step has no other."""
        return [self.step(state, x)]

    @abstractmethod
    def readout(self, state: State, step: int | None = None) -> Readout:
        """Logits, halting and gate values of the state after `step` steps, counted from 1; none: a final readout."""

    def map(self, state: State, x: Tensor, kind: MapKind) -> tuple[Callable[[Tensor], Tensor], Tensor]:
        """(g, z): the map z ↦ g(z) named by `kind` and the point that the state is for it.

        Raises:
            NotImplementedError: the family does not state `MAPS`.
        """
        raise NotImplementedError(f"{type(self).__name__} has no map")

    def input_state(self, x: Tensor) -> State:
        """The state at x̂: x̂ itself where a readout would look, the rest as `initial_state` has it (CMM eq. 32)."""
        start = self.initial_state(x)
        return type(start)(*(x if z is start[0] else z for z in start))

    def balance_weights(self) -> list[nn.Parameter]:
        """w of AlgGradNorm: weights of which every loss term reaches at least one; none: it cannot be balanced."""
        return []

    def freeze_embedding(self) -> None:
        """Stop training everything that x̂ is made of.

        Raises:
            NotImplementedError: the model has no such part.
        """
        raise NotImplementedError(f"{type(self).__name__} has no embedding to freeze")

    def networks(self) -> list[nn.Module]:
        """F: what is called again and again, and what torch.compile is worth its while for."""
        return []

    def parameter_count(self) -> int:
        """Trained numbers, the puzzle-identifier table left out, as the papers count."""
        return sum(p.numel() for name, p in self.named_parameters() if not name.startswith("puzzle_embedding"))
