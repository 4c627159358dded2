"""The exit gate (Ouro; docs/math.md §11)."""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn

GateKind = Literal["none", "position", "puzzle"]


class ExitGate(nn.Module):
    """The logit of the exit probability λ = σ(w·h + b), h the argument of the head at every cell, or its mean (ours).

    float32; w and b start at 0, so that λ = ½ everywhere (ours).
    """

    def __init__(self, width: int, kind: GateKind):
        super().__init__()
        self.kind = kind
        self.out = nn.Linear(width, 1)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    def forward(self, h: Tensor) -> Tensor:
        """(B, S, D) -> (B, S) per position, (B, 1) per puzzle."""
        h = h.to(self.out.weight.dtype)
        return self.out(h if self.kind == "position" else h.mean(dim=1, keepdim=True)).squeeze(-1)


def build_gate(width: int, kind: GateKind) -> ExitGate | None:
    """The gate of a config's `gate`."""
    return None if kind == "none" else ExitGate(width, kind)
