"""Token mixers: the table MIXERS, the settings shared by all model families, and each mixer's required structure.

Two mixers treat all cells alike: attention, and an MLP over the sequence (`reason.nn.block`). The others follow the
structure that a set declares in its dataset.json: its grid (a maze), its groups (rows, columns and boxes of a Sudoku),
its relations. They are entries of MIXERS; add an entry to define your own mixer (docs/extending.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, NamedTuple, cast

from pydantic import Field, field_validator
from pydantic.fields import FieldInfo
from torch import nn

from datasets_gen.plugins import nearest
from reason.errors import ConfigError
from reason.models.base import ModelConfig, Shape
from reason.nn.groups import GroupMixer
from reason.nn.local import LocalMixer, Neighbourhood
from reason.nn.mlp import Activation
from reason.plugins import ADD_IMPORT, defined, installed
from reason.settings.base import When

Positions = Literal["none", "rotary", "rotary-2d", "learned"]


class AnySet(NamedTuple):
    """A mixer whose weights fit every data set (with `symbols`): it reads the constraints of each puzzle.

    The module from `constraints` maps a Context to `Geometry.constraints`. Its extend(index, relations) appends to the
    embedding indices (B, S·K) of the cells' positions those of the positions that the mixer adds, such as hidden
    booleans; it returns (B, S').
    """

    embeddings: int  # rows of the token embedding
    outputs: int  # of the head, for each position
    constraints: Callable[[Shape], nn.Module]


class StructuredMixer(NamedTuple):
    """A mixer along the puzzle's structure: an entry of MIXERS.

    The module from `build` takes a state h (B, S', D) and a `Geometry`, and returns the tensor that is added to h.
    Its last layer is a `Linear` named `out`. The module also replaces the MLP of the layer.
    """

    build: Callable[[MixingConfig, Shape], nn.Module]
    description: str
    missing_structure: Callable[[MixingConfig, Shape], str | None] = lambda config, shape: None  # an error message
    by_group: bool = False  # uses groups (`Geometry.pool` and others), and may have a position for every symbol
    any_set: AnySet | None = None


def _lacks_grid(c: MixingConfig, shape: Shape) -> str | None:
    return None if shape.structure.grid else f"model.mixer={c.mixer} needs a grid, and the set declares none"


def lacks_groups(c: MixingConfig, shape: Shape) -> str | None:
    """Return the error message for a set without groups and symbols, or None."""
    there = shape.structure.groups or c.symbols
    return None if there else f"model.mixer={c.mixer} needs groups of cells, and the set declares none"


MIXERS: dict[str, StructuredMixer] = {
    "local": StructuredMixer(
        lambda c, shape: LocalMixer(c.hidden_size, inner_of(c), *gating(c), c.neighbourhood),
        "a gated convolution on the grid",
        _lacks_grid,
    ),
    "groups": StructuredMixer(
        lambda c, shape: GroupMixer(c.hidden_size, inner_of(c), len(shape.structure.groups), c.symbols, *gating(c)),
        "messages within the set's groups (Sudoku: rows, columns, boxes)",
        lacks_groups,
        by_group=True,
    ),
}
UNSTRUCTURED = {"attention": "softmax over the cells", "mlp": "an MLP over the cells"}  # of `reason.nn.block`


class MixingConfig(ModelConfig):
    """The settings that all families have."""

    hidden_size: int = Field(512, ge=2, le=16_384, description="D, width of every state")
    mixer: str = Field("attention", description="how cells exchange information")
    neighbourhood: Annotated[Neighbourhood, When("mixer", "local")] = Field(
        "moore",
        description="mixer=local: moore: the 3×3 cells around a cell; von-neumann: the cell and those above, below, "
        "left and right",
    )
    symbols: bool = Field(
        False,
        description="mixers along groups: one position for every (cell, symbol) or (cell, value); if the "
        "symbols of a puzzle are renamed, the symbols of the answer are renamed in the same way",
    )
    num_heads: Annotated[int, When("mixer", "attention")] = Field(8, ge=1, description="attention heads")
    expansion: float = Field(
        4.0,
        gt=0,
        description="sets the inner width I: mixers attention and mlp: expansion · 2/3 · D, rounded up to a multiple "
        "of 256, as in HRM and TRM; the other mixers: expansion · D",
    )
    positions: Positions = Field("rotary", description="position encoding; rotary-2d: rotary over row and column")
    rope_theta: Annotated[float, When("positions", "rotary", "rotary-2d")] = Field(
        10_000.0, gt=1, description="θ of rotary positions: their wavelengths go from 2π to 2π·θ"
    )

    @field_validator("mixer")
    @classmethod
    def _known(cls, mixer: str) -> str:
        if mixer not in UNSTRUCTURED | MIXERS:
            known = UNSTRUCTURED | MIXERS
            hint = f"{nearest(mixer, known)}{installed()}; {ADD_IMPORT}"
            raise ValueError(f"a mixer is {', '.join(known)}; got {mixer}; {hint}")
        return mixer

    @classmethod
    def settings(cls) -> Mapping[str, FieldInfo]:
        """Return every setting; the mixers with those that were added."""
        mixers, literal = UNSTRUCTURED | {name: each.description for name, each in MIXERS.items()}, cast(Any, Literal)
        descriptions = "; ".join(f"{name}: {text}" for name, text in mixers.items())
        field = Field("attention", description=f"how cells exchange information: {descriptions}")
        return {**cls.model_fields, "mixer": FieldInfo.from_annotated_attribute(literal[tuple(mixers)], field)}

    @property
    def prefix(self) -> int:
        """Positions before those of the cells."""
        return 0

    @property
    def layer_calls(self) -> int:
        """The number of layer calls in one model step."""
        return 1

    @property
    def structured_mixer(self) -> StructuredMixer:
        """The entry of the mixer; for attention and MLP an entry without structure, which builds no module."""
        return MIXERS.get(self.mixer) or StructuredMixer(lambda c, shape: nn.Identity(), UNSTRUCTURED[self.mixer])

    @property
    def set_agnostic(self) -> bool:
        """Whether no weight depends on the set."""
        return self.structured_mixer.any_set is not None

    @property
    def structured(self) -> bool:
        """Whether the model uses grid, groups or symbols."""
        return self.mixer in MIXERS or self.positions == "rotary-2d"

    def positions_of(self, shape: Shape) -> int:
        """Return S': the prefix, and for each of S cells one position, or K with symbols."""
        return self.prefix + shape.seq_len * (len(shape.structure.alphabet) if self.symbols else 1)

    def embeddings(self, shape: Shape) -> int:
        """Return the rows of the token embedding: V; with symbols 2, and one for each token that is not a symbol."""
        if any_set := self.structured_mixer.any_set:
            return any_set.embeddings
        return 2 + shape.vocab_size - len(shape.structure.alphabet) if self.symbols else shape.vocab_size

    def outputs(self, shape: Shape) -> int:
        """Return the head's outputs per position: V; with symbols 1, and one for each other token of the labels."""
        if any_set := self.structured_mixer.any_set:
            return any_set.outputs
        return 1 + len(self.others(shape)) if self.symbols else shape.vocab_size + len(shape.marks)

    def others(self, shape: Shape) -> list[int]:
        """Return the tokens other than symbols if there are more than padding and blank: a label may hold a wall."""
        found = sorted(set(range(shape.vocab_size)) - set(shape.structure.alphabet))
        return found if len(found) > 2 else []

    def missing_structure(self, shape: Shape) -> str | None:
        """Return the required structure that `shape` lacks, as a message, or None."""
        structure = shape.structure
        if message := self.structured_mixer.missing_structure(self, shape):
            return message
        if self.positions == "rotary-2d" and structure.grid is None:
            return "model.positions=rotary-2d needs a grid, and the set declares none"
        if self.symbols and not structure.alphabet:
            return "model.symbols=true takes a position for every symbol or value, and the set declares none"
        if self.symbols and structure.values and not self.set_agnostic:
            return f"the values of the set have an order, which model.mixer={self.mixer} ignores"
        return None


def numbers_written(c: ModelConfig, shape: Shape) -> int:
    """Return how many numbers the layers write per step and puzzle: positions × width × layer calls; 0: unknown."""
    return c.positions_of(shape) * c.hidden_size * c.layer_calls if isinstance(c, MixingConfig) else 0


def fits_any_set(c: ModelConfig) -> bool:
    """Return whether no weight depends on the set, so that one network takes sets of different kinds."""
    return isinstance(c, MixingConfig) and c.set_agnostic


def group_names(c: ModelConfig, shape: Shape) -> tuple[str, ...]:
    """Return the names of the groups, each with a matrix of `GroupMixer`; () for other mixers."""
    return tuple(shape.structure.groups) if isinstance(c, MixingConfig) and c.mixer == "groups" else ()


def by_symbol(c: ModelConfig, *shapes: Shape) -> bool:
    """Return whether tokens of every shape mean the same to the model: this symbol, another one, none yet."""
    return isinstance(c, MixingConfig) and c.symbols and (c.set_agnostic or all(s.structure.symbols for s in shapes))


def check_mixing(c: MixingConfig) -> None:
    """Raise ValueError for settings that fit no puzzle."""
    rotary = c.positions.startswith("rotary")
    if c.mixer == "attention":
        parts = {"rotary": 2, "rotary-2d": 4}.get(c.positions, 1)
        if c.hidden_size % (c.num_heads * parts):
            size = f" of a width divisible by {parts}, which positions {c.positions} need" if rotary else ""
            raise ValueError(
                f"hidden_size {c.hidden_size} does not divide into {c.num_heads} heads{size}: type another "
                "model.num_heads or model.hidden_size"
            )
    elif rotary:
        raise ValueError(f"the mixer {c.mixer} has no heads to rotate: type model.positions=none (or learned)")
    if c.symbols and not c.structured_mixer.by_group:
        raise ValueError(f"symbols=true is for messages in groups, not for {c.mixer}: type model.mixer=groups")
    if c.mixer in MIXERS and inner_of(c) < 1:
        raise ValueError(f"expansion {c.expansion:g} leaves no inner width: type model.expansion=1")


def build_mixer(c: MixingConfig, shape: Shape) -> nn.Module:
    """Return a new mixer along the structure. Raises ConfigError if the module has no `Linear` named `out`."""
    mixer = MIXERS[c.mixer].build(c, shape)
    if not isinstance(getattr(getattr(mixer, "out", None), "weight", None), nn.Parameter):
        raise ConfigError(f"{defined(type(mixer))} has no `out`: name the last Linear of model.mixer={c.mixer} `out`")
    return mixer


def inner_of(c: MixingConfig) -> int:
    """Return I, the inner width of the mixers along the structure."""
    return round(c.expansion * c.hidden_size)


def gating(c: MixingConfig) -> tuple[Activation, float | None]:
    """Return the activation of gates and the deviation of initial weights (None: by fan-in) for any family."""
    return getattr(c, "activation", "silu"), getattr(c, "init_std", None)
