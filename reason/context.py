"""What the puzzles of a batch give to every network call: x̂, which positions take part, where cells lie, relations."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from torch import Tensor

from reason.nn.dtypes import at_least_float32
from reason.nn.geometry import UNKNOWN, Geometry

if TYPE_CHECKING:
    from reason.models.layout import Layout


@dataclass(frozen=True)
class Context:
    """The parameters of the dynamics z ← F(z, x̂), made once per batch by `Reasoner.encode`.

    They stay the same while a row keeps its puzzle. A model without a layout only needs x: `Context(x)`.
    """

    x: Tensor  # (B, S', D): the encoded puzzle x̂; S' = prefix + positions of the cells
    mask: Tensor | None = None  # (B, S', 1): 0 at positions that take no part, such as walls; None: all take part
    relations: tuple[Tensor, ...] = ()  # for each relation the instances of each puzzle, (B, M, C + P'), −1 absent
    layout: Layout | None = None  # the constants of the puzzles' shape

    @cached_property
    def geometry(self) -> Geometry:
        """The input of the mixers, computed on first access; the layout reads mask and relations of this context."""
        return UNKNOWN if self.layout is None else self.layout.geometry(self)

    def rows(self, which: slice | Tensor) -> Context:
        """Some of the puzzles."""
        mask = None if self.mask is None else self.mask[which]
        return replace(self, x=self.x[which], mask=mask, relations=tuple(each[which] for each in self.relations))

    def detach(self) -> Context:
        """The same numbers without a gradient."""
        return replace(self, x=self.x.detach())

    def at_least_float32(self) -> Context:
        """x̂ and mask in float32, where they are narrower."""
        mask = None if self.mask is None else at_least_float32(self.mask)
        return replace(self, x=at_least_float32(self.x), mask=mask)
