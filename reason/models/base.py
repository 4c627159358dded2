"""The interface of a reasoner: a discrete dynamical system z ← F(z, x̂) with a readout, in four methods.

    context = model.encode(batch)                   tokens (B, S) -> x̂ (B, S', D), the parameters of the dynamics
    state = model.initial_state(context)            z_0, a named tuple of (B, S', D)
    state = model.step(state, context)              z_{k+1} = F(z_k, x̂)
    logits = model.readout(state, context).logits   (B, S, V): an answer, after any step

State is an argument and a return value, and the module stores nothing between calls. So only `reason.rollout` decides
how many steps are taken, at which step the gradient ends and when a row halts, in training and in evaluation.
Letters: B rows (puzzles), S cells, D width, V tokens; S' = P + S·K positions, a prefix and K for each cell (K = 1
without symbols); M instances of a relation, C numbers and n_cells cells each.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from datasets_gen.structure import Structure
from reason.nn.dtypes import Dtypes
from reason.nn.geometry import UNKNOWN, Geometry
from reason.settings.base import BaseConfig, require

if TYPE_CHECKING:
    from reason.models.layout import Layout

State = Any  # a named tuple of (B, S, D) tensors; each model family has its own


class Shape(BaseConfig):
    """Properties of a data set that a model depends on: cells S, vocabulary V, puzzle identifiers, cell structure."""

    seq_len: int = Field(ge=1, le=2**24)  # bounds: sizes of tensors that int64 holds
    vocab_size: int = Field(ge=1, le=2**20)
    num_puzzle_identifiers: int = Field(1, ge=1, le=2**31)
    structure: Structure = Structure()
    marks: tuple[int, ...] = Field((), description="for each extra token V + i of training labels, the answer's token")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        """Check that the structure fits S cells and V tokens."""
        if fault := self.structure.fault(self.seq_len, self.vocab_size):
            raise ValueError(fault)
        return self

    def __str__(self) -> str:
        return f"{self.seq_len} cells, {self.vocab_size} tokens and {self.num_puzzle_identifiers} puzzle identifiers"

    def difference(self, trained: Shape) -> str:
        """Return the reason, as text, why a model of shape `trained` cannot accept puzzles of this shape."""
        if (self.seq_len, self.vocab_size) != (trained.seq_len, trained.vocab_size):
            here, there = (f"{shape.seq_len} cells and {shape.vocab_size} tokens" for shape in (self, trained))
            return f"{here}, the model was built for {there}"
        if (count := self.num_puzzle_identifiers) not in (1, trained.num_puzzle_identifiers):
            return f"{count} puzzle identifiers, the model was built for {trained.num_puzzle_identifiers}"
        unlike = [key for key, value in self.structure if value != getattr(trained.structure, key)]
        return f"other {', '.join(unlike) or 'puzzle identifiers'} than the set that the model was built for"


class Batch(NamedTuple):
    """Puzzles on the device, tokens and identifiers int64. A label of IGNORE is not scored."""

    inputs: Tensor  # (B, S)
    labels: Tensor  # (B, S)
    identifiers: Tensor  # (B,)
    relations: tuple[Tensor, ...] = ()  # for each relation of the structure, seen or not, (B, M, C + n_cells), int16
    shape: Shape | None = None  # of their set, by which a model distinguishes sets of one size

    def each(self, change: Callable[..., Tensor], *others: Batch) -> Batch:
        """Apply `change` to every tensor, together with the same tensor of each batch in `others`."""
        inputs, labels, identifiers = map(change, self[:3], *(other[:3] for other in others))
        relations = map(change, self.relations, *(other.relations for other in others))
        return Batch(inputs, labels, identifiers, tuple(relations), self.shape)


IGNORE = -100


def correct(answer: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return which scored cells are right (B, S), and which puzzles are exact (B,): all of one or more scored cells."""
    scored = labels != IGNORE
    right = (answer == labels) & scored
    return right, (right == scored).all(-1) & scored.any(-1)


@dataclass(frozen=True)
class Context:
    """The parameters of the dynamics z ← F(z, x̂), made once per batch by `Reasoner.encode`.

    They stay the same while a row keeps its puzzle. A model without a layout only needs x: `Context(x)`.
    """

    x: Tensor  # (B, S', D): the encoded puzzle x̂; S' = prefix + positions of the cells
    mask: Tensor | None = None  # (B, S', 1): 0 at inactive positions, such as walls; None: all are active
    relations: tuple[Tensor, ...] = ()  # (B, M, C + n_cells) for each relation: instances of each puzzle, −1: none
    layout: Layout | None = None  # the constants of the puzzles' shape

    @cached_property
    def geometry(self) -> Geometry:
        """The input of the mixers, computed on first access; the layout uses mask and relations of this context."""
        return UNKNOWN if self.layout is None else self.layout.geometry(self)

    def rows(self, which: slice | Tensor) -> Context:
        """Return the context of some of the puzzles."""
        mask = None if self.mask is None else self.mask[which]
        return replace(self, x=self.x[which], mask=mask, relations=tuple(each[which] for each in self.relations))

    def cells(self, z: Tensor) -> Tensor:
        """Return x̂ or a part of a state (B, S', D) without prefix and positions that a mixer added, (B, S·K, D)."""
        return z if self.layout is None else self.layout.cells(z)


class Readout(NamedTuple):
    """Readout of a state: cell logits, and the values of halting head and exit gate if the model has them."""

    logits: Tensor  # (B, S, V); in training also a logit for each of the n `Shape.marks`: (B, S, V + n)
    q_halt: Tensor | None = None  # (B,) float32
    q_continue: Tensor | None = None  # (B,) float32, HRM's Q of continuing
    gate: Tensor | None = None  # (B, S) or, a gate per puzzle, (B, 1): the exit logit, float32


class ModelConfig(BaseConfig):
    """The settings of a model family: `reason.models.FAMILIES` holds each by its `kind`."""

    kind: str = ""
    brings: ClassVar[Mapping[str, object]] = {}  # defaults of other sections that this model needs

    @property
    def heads(self) -> frozenset[str]:
        """The values that a Readout has in addition to the logits: q_halt, q_continue, gate."""
        return frozenset()

    def check(self, config: Any) -> None:
        """Raise ConfigError (by `require`) if the other sections of the config do not fit this one.

        The default refuses mixed precision. A family that overrides it computes its products in `Reasoner.autocast`.
        """
        precision, what = config.training.precision, "products in mixed precision (Reasoner.autocast)"
        require(not precision.startswith("amp"), f"training.precision={precision}", what, "training.precision=auto")


class Reasoner(nn.Module, ABC):
    """A model: four required methods. `reason.models.mapped.Mapped` adds the maps that some losses and probes need."""

    shape: Shape
    dtype: torch.dtype  # of states; weights are float32
    products: torch.dtype | None = None  # of matrix products if narrower than the states' (mixed precision)
    random_start: bool = False  # are the initial states unit normals?

    @abstractmethod
    def encode(self, batch: Batch) -> Context:
        """Encode a batch: x̂ and the other constant inputs of `step`."""

    @abstractmethod
    def initial_state(self, context: Context) -> State:
        """Return the initial state of the puzzles."""

    @abstractmethod
    def step(self, state: State, context: Context) -> State:
        """Take one step: a supervision step of a recursive model, one loop of a looped model.

        The config says how far back the gradient reaches.
        """

    @abstractmethod
    def readout(self, state: State, context: Context, step: int | None = None) -> Readout:
        """Return the readout of the state after `step` steps, counted from 1; None: a final readout."""

    def networks(self) -> Sequence[nn.Module]:
        """Return the networks F that a step calls; torch.compile compiles them one by one."""
        return []

    @property
    def computes_in(self) -> str:
        """The names of the types of states and products, as logs and checkpoints store them."""
        return str(Dtypes(self.dtype, self.products))

    def autocast(self) -> contextlib.AbstractContextManager[None]:
        """Return torch.autocast to `products`, or a context without effect if `products` is None.

        A family enters this context around its products; `map` computes in the type of its argument. Casts of weights
        are not cached: the cast of a call without gradient would serve calls with one.
        """
        if self.products is None:
            return contextlib.nullcontext()
        return torch.autocast(next(self.parameters()).device.type, self.products, cache_enabled=False)

    def parameter_count(self) -> int:
        """Return the number of trained parameters without the puzzle-identifier table, as the papers count."""
        return sum(p.numel() for name, p in self.named_parameters() if not name.startswith("puzzle_embedding"))
