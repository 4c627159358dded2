"""Messages between the cells of a constraint: all different, less than, a sum with its number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from datasets_gen.structure import Relation
from reason.models.base import Context
from reason.nn.geometry import Geometry
from reason.nn.groups import GroupMixer
from reason.nn.linear import Embedding, Linear
from reason.nn.mlp import ACTIVATIONS, Activation, glu


class Links(NamedTuple):
    """The instances of one relation as products read them: M instances of P ordered places, or P = 1 without order.

    Either the instances of the set, or those of each puzzle of a batch, which then stands in front of every shape.
    """

    pool: Tensor  # (M·P, S): 1/√n at the n cells that a place holds
    membership: Tensor  # (S, M·P): 1 at the same
    numbers: Tensor  # (M, C): −1 where an instance carries none


def links(instances: Tensor, relation: Relation, cells: int, dtype: torch.dtype = torch.float32) -> Links:
    """Return the links of instances (..., M, C + n_cells), numbers first, on S = `cells` cells, in float32 or wider."""
    numbers, places = instances.split([relation.clues, instances.shape[-1] - relation.clues], dim=-1)
    places = places.long()
    if relation.places:
        places = places.flatten(-2)[..., None]  # each place by itself: (..., M·P, 1)
    held = torch.zeros(
        *places.shape[:-1], cells + 1, device=places.device, dtype=torch.promote_types(dtype, torch.float32)
    )
    held = held.scatter(-1, torch.where(places < 0, cells, places), 1.0)[..., :cells]  # (..., M·P, S)
    count = held.sum(-1, keepdim=True).clamp(min=1)
    return Links(held * count.rsqrt(), held.transpose(-1, -2).contiguous(), numbers.long())


class Instances(nn.Module):
    """The instances of the relations that networks read: those of the set as constants, those of each puzzle added."""

    def __init__(self, relations: Mapping[int, Relation], cells: int):
        """`relations` by their index in the structure, and in `Context.relations`."""
        super().__init__()
        self.relations, self.cells = relations, cells
        for index, relation in relations.items():
            rows = _instances(relation)
            named = {"rows": rows} | links(rows, relation, cells)._asdict()
            for name, constant in named.items():
                self.register_buffer(f"{name}_{index}", constant, persistent=False)

    def forward(self, context: Context) -> tuple[tuple[Links, ...], ...]:
        """Return the instances of each relation: those of the set, and those of each puzzle."""
        dtype, found = context.x.dtype, []
        for index, relation in self.relations.items():
            shared = Links(*(getattr(self, f"{name}_{index}") for name in Links._fields))
            per_puzzle = [links(rows, relation, self.cells, dtype) for rows in context.relations[index : index + 1]]
            found.append(tuple(each for each in (shared, *per_puzzle) if each.pool.shape[-2]))
        return tuple(found)

    def all_instances(self, context: Context) -> tuple[Tensor, Tensor]:
        """Return all instances of each puzzle (B, N), and their sizes (n, 5), for the kernel of a whole step."""
        found, kinds = [], []
        for index, relation in self.relations.items():
            shared = getattr(self, f"rows_{index}").expand(len(context.x), -1, -1)
            parts = [shared, *context.relations[index : index + 1]]
            most = max(each.shape[-1] for each in parts)
            every = torch.cat([pad(each, (0, most - each.shape[-1]), value=-1) for each in parts], dim=1)
            found.append(every.flatten(1))
            kinds.append((max(1, relation.places), relation.clues, relation.highest + 2, *every.shape[1:]))
        return torch.cat(found, dim=1).int(), torch.tensor(kinds)


def _instances(relation: Relation) -> Tensor:
    """(M, C + n_cells): the instances of every puzzle, which carry no numbers."""
    most = max(map(len, relation.instances), default=0)
    rows = [[-1] * relation.clues + [*cells] + [-1] * (most - len(cells)) for cells in relation.instances]
    return torch.tensor(rows, dtype=torch.int16).view(len(rows), relation.clues + most)


class Messages(nn.Module):
    """The messages of one relation: each instance sums its cells up, adds its numbers, and answers through a gate.

    m = W_o(act(g) ⊙ u), (g, u) = Σ_p W_p Σ_{j at place p} h_j/√n + Σ_c E_c[number c]; a cell at place q receives the
    part q of m. Without order there is one place. With `values`, which have an order, W_p reads three sums: the same
    value's, those of all lower values, and those of all values.
    """

    def __init__(
        self, width: int, inner: int, relation: Relation, values: bool, activation: Activation, std: float | None
    ):
        super().__init__()
        self.places, self.values, self.activation = max(1, relation.places), values, ACTIVATIONS[activation]
        read, self.stride = width * self.places * (3 if values else 1), relation.highest + 2
        self.sums = Linear(read, 2 * width, std=std)
        self.numbers = Embedding(relation.clues * self.stride, 2 * width, std) if relation.clues else None
        self.answer = Linear(width, self.places * 2 * inner, std=(2 * width) ** -0.5 if std is None else std)

    def forward(self, h: Tensor, links: Links) -> Tensor:
        """(B, S, K, D) -> (B, S, K·2I)."""
        values = h.shape[2]
        pooled = links.pool.to(h.dtype) @ h.flatten(2)  # (B, M·P, K·D)
        pooled = pooled.unflatten(1, (-1, self.places)).unflatten(-1, (values, -1)).transpose(2, 3)  # (B, M, K, P, D)
        if self.values:
            lower = pooled.cumsum(2) - pooled
            whole = pooled.sum(2, keepdim=True).expand_as(pooled)
            pooled = torch.cat([pooled, values**-0.5 * lower, values**-0.5 * whole], dim=-1)
        gates = self.sums(pooled.flatten(3))  # (B, M, K, 2D)
        if self.numbers is not None:
            each = torch.arange(0, len(self.numbers.weight), self.stride, device=h.device)  # a table for every number
            gates = gates + self.numbers(links.numbers + 1 + each).sum(-2).to(h.dtype)[..., None, :]
        answers = self.answer(glu(gates, self.activation))  # (B, M, K, P·2I)
        answers = answers.unflatten(-1, (self.places, -1)).transpose(2, 3)  # (B, M, P, K, 2I)
        return links.membership.to(h.dtype) @ answers.flatten(3).flatten(1, 2)


class RelationMixer(GroupMixer):
    """The mixer of groups, with the messages of every relation that networks read added before its gate.

    Equivariant to the order of instances, and of the cells of an instance without order; no weight depends on the
    number of cells or instances. Without relations it is the mixer of groups.
    """

    def __init__(
        self,
        width: int,
        inner: int,
        groups: int,
        relations: Sequence[Relation],
        symbols: bool = False,
        values: bool = False,
        activation: Activation = "silu",
        std: float | None = None,
    ):
        super().__init__(width, inner, groups, symbols, activation, std)
        self.messages = nn.ModuleList([Messages(width, inner, each, values, activation, std) for each in relations])
        self.lower = Linear(width, 2 * inner, std=(4 * width) ** -0.5 if std is None else std) if values else None

    def matrices(self) -> Tensor:
        """Return the flat matrices of groups, symbols and places, and of the position itself, for the kernel of a step.

        Behind them follow for each relation the matrix of its sums and its table of numbers.
        """
        own = self.own.weight if self.lower is None else torch.cat([self.own.weight, self.lower.weight], dim=1)
        parts = [linear.weight for linear in (*self.relations, *([] if self.symbols is None else [self.symbols]))]
        parts += [messages.answer.weight for messages in self._kinds] + [own]
        for messages in self._kinds:
            parts += [messages.sums.weight, *([] if messages.numbers is None else [messages.numbers.weight])]
        return torch.cat([part.flatten() for part in parts])

    @property
    def _kinds(self) -> list[Messages]:
        return list(self.messages)  # type: ignore[arg-type]

    def received(self, h: Tensor, geometry: Geometry) -> Tensor:
        """(B, S', D) -> (S', B, 2I): gates and values before the gate acts."""
        y = super().received(h, geometry)
        cells = geometry.masked(h).unflatten(1, (-1, geometry.symbols))  # (B, S, K, D)
        for messages, instances in zip(self._kinds, geometry.mixer_constants or (), strict=True):
            for each in instances:
                got = messages(cells, each).unflatten(-1, (geometry.symbols, -1)).flatten(1, 2)  # (B, S', 2I)
                y = y + got.transpose(0, 1)
        if self.lower is not None:
            below = (cells.cumsum(2) - cells) * geometry.symbols**-0.5
            y = y + self.lower(below.flatten(1, 2)).transpose(0, 1)
        return y
