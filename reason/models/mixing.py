"""How positions see each other: the settings that both families have, and what they ask of a puzzle."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from reason.models.base import ModelConfig, Shape
from reason.nn.block import Mixer, StructuredMixer
from reason.nn.gate import GateKind
from reason.nn.groups import GroupMixer
from reason.nn.local import LocalMixer, Neighbourhood
from reason.nn.mlp import Activation
from reason.nn.relations import RelationMixer
from reason.settings.base import When

Positions = Literal["none", "rotary", "rotary-2d", "learned"]
STRUCTURED = ("local", "groups", "relations")


class MixingConfig(ModelConfig):
    """The settings that both families have."""

    hidden_size: int = Field(512, ge=2, le=16_384, description="D, width of every state")
    mixer: Mixer = Field(
        "attention",
        description="how cells exchange information: attention; mlp: an MLP over the cells; local: a gated k×k "
        "convolution on the grid; groups: messages within the set's groups (Sudoku: rows, columns, boxes); relations: "
        "as groups, and messages within every instance of the set's relations (less than, sum with a number), if any",
    )
    kernel: Annotated[int, When("mixer", "local")] = Field(3, ge=1, le=31, description="mixer=local: k")
    neighbourhood: Annotated[Neighbourhood, When("mixer", "local")] = Field(
        "moore",
        description="mixer=local: moore: the k×k cells around a cell; von-neumann: only the cells within k // 2 "
        "straight moves",
    )
    symbols: bool = Field(
        False,
        description="mixers groups and relations: one position for every (cell, symbol) or (cell, value); if the "
        "symbols of a puzzle are renamed, the symbols of the answer are renamed in the same way",
    )
    num_heads: Annotated[int, When("mixer", "attention")] = Field(8, ge=1, description="attention heads")
    expansion: float = Field(
        4.0,
        gt=0,
        description="sets the inner width I: mixers attention and mlp: expansion · 2/3 · D, rounded up to a multiple "
        "of 256, as in HRM and TRM; mixers local, groups and relations: expansion · D",
    )
    positions: Positions = Field("rotary", description="position encoding; rotary-2d: rotary over row and column")
    rope_theta: Annotated[float, When("positions", "rotary", "rotary-2d")] = Field(
        10_000.0, gt=1, description="rotary positions: wavelengths from 2π to 2π·base"
    )
    gate: GateKind = Field("none", description="exit gate (Ouro): one per puzzle (mean over cells), or per position")

    @property
    def heads(self) -> frozenset[str]:
        """The gate that the settings name."""
        return frozenset({"none": (), "position": ("gate",), "puzzle": ("gate", "puzzle-gate")}[self.gate])

    @property
    def prefix(self) -> int:
        """Positions before those of the cells."""
        return 0

    @property
    def head_dim(self) -> int:
        """Features of an attention head."""
        return self.hidden_size // self.num_heads

    @property
    def size_free(self) -> bool:
        """Is no weight bound to the number of cells?"""
        return self.mixer != "mlp" and self.positions != "learned"

    @property
    def structured(self) -> bool:
        """Does the model look at grid, groups or symbols at all?"""
        return self.mixer in STRUCTURED or self.positions == "rotary-2d"

    def positions_of(self, shape: Shape) -> int:
        """S': prefix + S cells, K positions each with symbols."""
        return self.prefix + shape.seq_len * (len(shape.structure.alphabet) if self.symbols else 1)

    @property
    def layer_calls(self) -> int:
        """Calls of a layer in one step of the model."""
        return 1

    def written(self, shape: Shape) -> float:
        """Positions × width × layer calls."""
        return self.positions_of(shape) * self.hidden_size * self.layer_calls

    @property
    def leaves_symbols_out(self) -> bool:
        """Do positions whose symbol the clues exclude take no part?"""
        return False

    @property
    def leaves_cells_out(self) -> bool:
        """Do cells beyond the edge, such as walls, take no part?"""
        return False

    def embeddings(self, shape: Shape) -> int:
        """Rows of the token embedding: V; with symbols 2 (this one, another) and one for each other token."""
        return 2 + shape.vocab_size - len(shape.structure.alphabet) if self.symbols else shape.vocab_size

    def others(self, shape: Shape) -> list[int]:
        """The tokens that are no symbols, where a label may be one, such as a wall: more than padding and blank."""
        found = sorted(set(range(shape.vocab_size)) - set(shape.structure.alphabet))
        return found if len(found) > 2 else []

    def values_of(self, shape: Shape) -> int:
        """K of values whose order means something, each with an embedding; 0: symbols, or no positions for them."""
        return len(shape.structure.values) if self.symbols else 0

    def relations_of(self, shape: Shape) -> list[Any]:
        """What the weights of messages depend on: the groups' names, and the relations without their instances."""
        structure = shape.structure
        groups = list(structure.groups) if self.mixer in ("groups", "relations") else []
        seen = [(each.name, each.places, each.clues, each.highest) for each in structure.relations if each.seen]
        return [groups, seen if self.mixer == "relations" else [], self.values_of(shape)]

    def lacking(self, shape: Shape) -> str | None:
        """What the model cannot do without and `shape` does not declare; None: nothing."""
        structure = shape.structure
        if (self.mixer == "local" or self.positions == "rotary-2d") and structure.grid is None:
            key = "model.mixer=local" if self.mixer == "local" else "model.positions=rotary-2d"
            return f"{key} looks at a grid, and the set declares none"
        if self.mixer == "groups" and not structure.groups and not self.symbols:
            return "model.mixer=groups looks at groups of cells, and the set declares none"
        if self.mixer == "relations" and not (structure.groups or structure.relations or self.symbols):
            return "model.mixer=relations looks at groups and relations of cells, and the set declares none"
        if self.leaves_cells_out and structure.outside is None:
            return "model.open_cells=true leaves out what lies beyond the edge, and the set declares no token for it"
        if self.leaves_symbols_out and structure.values:
            return "model.open_symbols=true is for symbols that groups hold once, and the set declares values"
        if self.leaves_symbols_out and not structure.groups:
            return "model.open_symbols=true looks at groups of cells, and the set declares none"
        if self.symbols and not structure.alphabet:
            return "model.symbols=true takes a position for every symbol or value, and the set declares none"
        if self.symbols and structure.values and self.mixer != "relations":
            return "the values of the set have an order, which model.mixer=relations alone reads"
        return None


def constraints_of(c: ModelConfig, shape: Shape) -> dict[str, tuple[Any, ...]]:
    """The constraint behind each part of a mixer's messages: (name of a group,), or a relation's name and sizes."""
    if not isinstance(c, MixingConfig) or c.mixer not in ("groups", "relations"):
        return {}
    groups, relations, _ = c.relations_of(shape)
    found = {f"relations.{index}": (name,) for index, name in enumerate(groups)}
    return found | {f"messages.{index}": kind for index, kind in enumerate(relations)}


def by_symbol(c: ModelConfig, *shapes: Shape) -> bool:
    """Whether the tokens of puzzles of every shape mean the same to the model: this symbol, another one, none yet."""
    return isinstance(c, MixingConfig) and c.symbols and all(shape.structure.symbols for shape in shapes)


def refuse_unfit(c: MixingConfig) -> None:
    """Raises ValueError for settings that no puzzle could make fit."""
    head_dim, remainder = divmod(c.hidden_size, c.num_heads)
    if c.mixer == "attention" and remainder:
        raise ValueError(f"hidden_size {c.hidden_size} does not divide into {c.num_heads} heads")
    if c.mixer == "attention" and c.positions.startswith("rotary"):
        parts = 4 if c.positions == "rotary-2d" else 2
        if head_dim % parts:
            size = "an even head size" if parts == 2 else "a head size divisible by 4"
            raise ValueError(f"{c.positions} positions need {size}; change num_heads or hidden_size")
    if c.mixer != "attention" and c.positions.startswith("rotary"):
        raise ValueError(f"the mixer {c.mixer} has no heads to rotate: type model.positions=none (or learned)")
    if c.kernel % 2 == 0:
        raise ValueError(f"kernel {c.kernel} has no centre: type model.kernel={c.kernel + 1}")
    if c.symbols and c.mixer not in ("groups", "relations"):
        raise ValueError(f"symbols=true is for messages in groups, not for {c.mixer}: type model.mixer=groups")
    if c.symbols and c.gate == "position":
        raise ValueError("a gate per position would be one for every symbol of a cell: type model.gate=puzzle")
    if c.mixer in STRUCTURED and inner_of(c) < 1:
        raise ValueError(f"expansion {c.expansion:g} leaves no inner width: type model.expansion=1")


def same_mixer(c: ModelConfig, shape: Shape) -> dict[str, Any]:
    """The change from the mixer `relations` to `groups`, which computes the same where a set has no relations.

    `groups` may leave out symbols that the clues exclude.
    """
    if not isinstance(c, MixingConfig) or c.mixer != "relations" or c.values_of(shape):
        return {}
    return {} if any(relation.seen for relation in shape.structure.relations) else {"model.mixer": "groups"}


def inner_of(c: MixingConfig) -> int:
    """I of the mixers along the structure."""
    return round(c.expansion * c.hidden_size)


def structured_mixer(
    c: MixingConfig, shape: Shape, activation: Activation = "silu", std: float | None = None
) -> StructuredMixer:
    """The mixer along the puzzle's structure that the settings name."""
    if c.mixer == "local":
        return LocalMixer(c.hidden_size, inner_of(c), c.kernel, activation, std, c.neighbourhood)
    groups = len(shape.structure.groups)
    if c.mixer == "groups":
        return GroupMixer(c.hidden_size, inner_of(c), groups, c.symbols, activation, std)
    seen = [relation for relation in shape.structure.relations if relation.seen]
    values = c.values_of(shape) > 0
    return RelationMixer(c.hidden_size, inner_of(c), groups, seen, c.symbols, values, activation, std)
