"""Maps z ↦ g(z) of a model's state: CMM's losses and the probes look at their fixed points and Jacobians."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Literal, cast

from torch import Tensor

from reason.errors import ConfigError
from reason.models.base import Context, Reasoner, State

MapKind = Literal["f_h", "cycle", "step"]


class Mapped(Reasoner):
    """A reasoner with maps of its state, one required method."""

    @abstractmethod
    def map(self, state: State, context: Context, kind: MapKind) -> tuple[Callable[[Tensor], Tensor], Tensor]:
        """Return (g, z): the map z ↦ g(z) named by `kind`, and the argument z of g that corresponds to the state."""

    def map_inside(self, state: State, context: Context, kind: MapKind) -> tuple[Callable[[Tensor], Tensor], Tensor]:
        """Return `map` with its output set to 0 at positions beyond the edge; Jacobians use this map (ours).

        These positions send no messages, so the eigenvalues of the others do not change. Their own eigenvalues mean
        nothing: x̂ is 0 there, and a norm has the derivative 1/√ε at 0.
        """
        g, z = self.map(state, context, kind)
        if context.mask is None:
            return g, z
        kept = context.mask.to(z.dtype).view(len(z), *[1] * (z.ndim - 3), -1, 1)  # z is (B, S', D) or (B, n, S', D)
        return lambda z: g(z) * kept, z

    def input_state(self, context: Context) -> State:
        """Return the state at x̂: x̂ replaces the part with the readout, the rest is `initial_state` (CMM eq. 32)."""
        start = self.initial_state(context)
        return type(start)(context.x, *start[1:])

    def path(self, state: State, context: Context) -> list[State]:
        """Return the states after each network call of a `step`, or each cycle if one integration is a cycle."""
        return [self.step(state, context)]

    def balance_weights(self) -> list[Tensor]:
        """Return w of AlgGradNorm: every loss term has a gradient in one of these weights or more."""
        return [p for p in self.parameters() if p.requires_grad]


def with_maps(model: Reasoner) -> Mapped:
    """Return the model as one with maps. Raises ConfigError if it has none."""
    if not hasattr(model, "map"):
        raise ConfigError(f"{type(model).__name__} has no maps: derive it from reason.models.mapped.Mapped")
    return cast(Mapped, model)
