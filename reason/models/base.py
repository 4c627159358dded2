"""The model protocol: encode, initial_state, step and readout; an optional map for the analysis of the dynamics."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from datasets_gen.structure import Structure
from reason.context import Context
from reason.errors import ConfigError
from reason.nn.dtypes import Dtypes
from reason.settings.base import BaseConfig

State = Any  # a named tuple of (B, S, D) tensors, its own per model family
MapKind = Literal["f_h", "cycle", "step"]


class Shape(BaseConfig):
    """What a data set asks of a model: cells S, vocabulary V, how many puzzle identifiers, and the cells' structure."""

    seq_len: int = Field(ge=1, le=2**24)  # bounds: sizes of tensors that int64 holds
    vocab_size: int = Field(ge=1, le=2**20)
    num_puzzle_identifiers: int = Field(1, ge=1, le=2**31)
    structure: Structure = Structure()
    marks: tuple[int, ...] = Field((), description="of training labels: token V + i counts as this one in an answer")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        """The structure is that of S cells and V tokens."""
        if fault := self.structure.fault(self.seq_len, self.vocab_size):
            raise ValueError(fault)
        return self

    def __str__(self) -> str:
        return f"{self.seq_len} cells, {self.vocab_size} tokens and {self.num_puzzle_identifiers} puzzle identifiers"

    def difference(self, trained: Shape) -> str:
        """What keeps a model of shape `trained` from reading puzzles of this shape, in words."""
        sizes = (self.seq_len, self.vocab_size), (trained.seq_len, trained.vocab_size)
        if sizes[0] != sizes[1]:
            (cells, tokens), (of_cells, of_tokens) = sizes
            return f"{cells} cells and {tokens} tokens, the model was built for {of_cells} cells and {of_tokens} tokens"
        identifiers, of_identifiers = self.num_puzzle_identifiers, trained.num_puzzle_identifiers
        if identifiers not in (1, of_identifiers):
            return f"{identifiers} puzzle identifiers, the model was built for {of_identifiers}"
        unlike = [
            key for key in type(self.structure).model_fields
            if getattr(self.structure, key) != getattr(trained.structure, key)
        ]  # fmt: skip
        return f"other {', '.join(unlike) or 'puzzle identifiers'} than the set that the model was built for"


class Batch(NamedTuple):
    """Puzzles on the device, tokens and identifiers int64. A label of IGNORE is not scored."""

    inputs: Tensor  # (B, S)
    labels: Tensor  # (B, S)
    identifiers: Tensor  # (B,)
    relations: tuple[Tensor, ...] = ()  # for each relation of the structure, seen or not, (B, M, C + P'), int16

    def each(self, change: Callable[[Tensor], Tensor]) -> Batch:
        """Every tensor changed alike: moved to a device, or some of its rows."""
        relations = tuple(map(change, self.relations))
        return Batch(change(self.inputs), change(self.labels), change(self.identifiers), relations)

    def merge(self, other: Batch, change: Callable[[Tensor, Tensor], Tensor]) -> Batch:
        """Every tensor merged with that of `other`."""
        inputs, labels, identifiers = (change(a, b) for a, b in zip(self[:3], other[:3], strict=True))
        return Batch(inputs, labels, identifiers, tuple(map(change, self.relations, other.relations)))


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

    def written(self, shape: Shape) -> float:
        """Numbers that the layers write in a step for one puzzle: positions × width × layer calls; 0: not known."""
        return 0

    @property
    def heads(self) -> frozenset[str]:
        """The values that a Readout has beside the logits: q_halt, q_continue, gate."""
        return frozenset()

    @property
    def parts(self) -> int:
        """Tensors of a state; of two the first is the high state z_H, the second the low state z_L."""
        return 1

    @property
    def reads_identifiers(self) -> bool:
        """Whether the puzzles' identifiers are read."""
        return False

    @property
    def takes_marks(self) -> bool:
        """Whether the head can have logits of marked tokens (`Shape.marks`)."""
        return False

    @property
    def gradient_crosses_steps(self) -> str | None:
        """None where a gradient passes from a step of the model to the one before; else what to type for it."""
        return None

    @property
    def mixed_precision(self) -> bool:
        """Whether products are computed in a narrower type than states where that is asked (`Reasoner.autocast`)."""
        return False

    def check(self, config: Any) -> None:
        """Raise ConfigError (by `require`) where the rest of the whole config does not fit this section."""

    def constraints(self, shape: Shape) -> dict[str, tuple[Any, ...]]:
        """What tells the constraint behind each part of the mixers' messages, by the part's name; {}: no such parts."""
        return {}


class Reasoner(nn.Module, ABC):
    """z ← F(z, x̂) with a readout. State goes in and comes out as a value; the module remembers nothing."""

    shape: Shape
    dtype: torch.dtype  # of states; weights are float32
    products: torch.dtype | None = None  # of matrix products where it is narrower than the states' (mixed precision)
    prefix: int = 0  # positions of x̂ and of the states before those of the cells
    random_start: bool = False  # are the initial states unit normals?

    @abstractmethod
    def encode(self, batch: Batch) -> Context:
        """Tokens and identifiers -> x̂ and what else the puzzles give to every call, the parameters of the dynamics."""

    @abstractmethod
    def initial_state(self, context: Context) -> State:
        """The state from which the puzzles start."""

    @abstractmethod
    def step(self, state: State, context: Context) -> State:
        """One step of the model: a supervision step of a recursive model, one loop of a looped model.

        The config says how far back the gradient reaches.
        """

    def path(self, state: State, context: Context) -> list[State]:
        """The states after each network call of one `step` (each cycle where one integration is a cycle).

        The last one is what `step` returns.
        """
        return [self.step(state, context)]

    @abstractmethod
    def readout(self, state: State, context: Context, step: int | None = None) -> Readout:
        """Logits, halting and gate values of the state after `step` steps, counted from 1; None: a final readout."""

    def write_on(self, prompt: Tensor, count: int, steps: int, end: int | None = None) -> Tensor:
        """Up to `count` tokens (B, n) after those of a prompt, each the likeliest after `steps` steps; ends at `end`.

        Raises:
            ConfigError: the model is not causal.
        """
        raise ConfigError(f"{type(self).__name__} is not causal, so it writes no text; give it cells to fill")

    def begun_from(self, weights: dict[str, Tensor]) -> dict[str, Tensor]:
        """The weights of a trained run as this model starts from them; a family may fill parts that the run lacks."""
        return weights

    def map(self, state: State, context: Context, kind: MapKind) -> tuple[Callable[[Tensor], Tensor], Tensor]:
        """(g, z): the map z ↦ g(z) named by `kind`, and the argument z of g that corresponds to the state.

        Raises:
            NotImplementedError: the family does not state `MAPS`.
        """
        raise NotImplementedError(f"{type(self).__name__} has no map")

    def map_inside(self, state: State, context: Context, kind: MapKind) -> tuple[Callable[[Tensor], Tensor], Tensor]:
        """`map` with its output set to 0 at positions beyond the edge: Jacobians are taken of this map (ours).

        These positions send no messages, so the eigenvalues of the others do not change. Their own eigenvalues mean
        nothing: x̂ is 0 there, and a norm has the derivative 1/√ε at 0.
        """
        g, z = self.map(state, context, kind)
        if context.mask is None:
            return g, z
        kept = context.mask.to(z.dtype).view(len(z), *[1] * (z.ndim - 3), -1, 1)
        return lambda z: g(z) * kept, z

    def input_state(self, context: Context) -> State:
        """The state at x̂: x̂ in place of the part that is read out, the others as in `initial_state` (CMM eq. 32)."""
        start = self.initial_state(context)
        return type(start)(*(context.x if z is start[0] else z for z in start))

    def reads(self, shape: Shape) -> bool:
        """Can the model, after `add_shape`, read puzzles of this shape?"""
        return shape == self.shape

    def add_shape(self, shape: Shape) -> None:
        """Take puzzles of this shape, which the model `reads`, beside those that it was built for."""
        assert self.reads(shape), "asked before"

    def balance_weights(self) -> list[nn.Parameter]:
        """w of AlgGradNorm: every loss term has a gradient in at least one of them; an empty list: no balancing."""
        return []

    def freeze_embedding(self) -> None:
        """Stop training everything that x̂ is made of.

        Raises:
            NotImplementedError: the model has no such part.
        """
        raise NotImplementedError(f"{type(self).__name__} has no embedding to freeze")

    def networks(self) -> Sequence[nn.Module]:
        """The networks F, which a step calls again and again; torch.compile is given these."""
        return []

    @property
    def computes_in(self) -> str:
        """The types by name, as logs and checkpoints have them."""
        return str(Dtypes(self.dtype, self.products))

    def autocast(self) -> contextlib.AbstractContextManager[None]:
        """torch.autocast to `products` for what is entered within, or nothing where there are none.

        A family enters it in `encode`, `step` and `readout` around its products; `map` computes in the type of its
        argument. Casts of weights are not cached: the cast of a call without gradient would serve calls with one.
        """
        if self.products is None:
            return contextlib.nullcontext()
        return torch.autocast(next(self.parameters()).device.type, self.products, cache_enabled=False)

    def parameter_count(self) -> int:
        """Trained numbers, the puzzle-identifier table left out, as the papers count."""
        return sum(p.numel() for name, p in self.named_parameters() if not name.startswith("puzzle_embedding"))
