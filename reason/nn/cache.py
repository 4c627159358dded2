"""Keys and values kept while a text grows: of a looped stack one set per loop, or one that all loops share (Ouro)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

Recall = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]  # new keys and values -> all that the queries see
Sharing = Literal["per-loop", "last", "mean", "first"]
Pair = tuple[Tensor, Tensor]  # keys and values, each (B, heads, S, D/heads)


class StackCache:
    """Keys and values of one stack of layers that is applied `loops` times.

    A loop reads its own slot. After `share` there is one slot for all loops, which holds the last or first loop's keys
    and values or their mean over loops, those of the prompt and of every token since; a new token sees its own keys
    and values of the loop that it is in (ours).
    """

    def __init__(self, layers: int, loops: int):
        self.layers, self.loops = layers, loops
        self.slots: list[list[Pair | None]] = [[None] * layers for _ in range(loops)]
        self._new: list[list[Pair | None]] = [[None] * layers for _ in range(loops)]
        self._sharing: Sharing = "per-loop"

    def recalls(self, loop: int) -> list[Recall]:
        """For each layer in loop number `loop` (from 0): what it sees; new keys and values are held for `commit`."""

        def recall(layer: int) -> Recall:
            def seen(keys: Tensor, values: Tensor) -> Pair:
                self._new[loop][layer] = (keys, values)
                return _appended(self.slots[min(loop, len(self.slots) - 1)][layer], (keys, values))

            return seen

        return [recall(layer) for layer in range(self.layers)]

    def commit(self) -> None:
        """Keep the keys and values of the cells that all loops have now been through."""
        fresh = self._new if self._sharing == "per-loop" else [self._shared(self._new)]
        for slot, new in zip(self.slots, fresh, strict=True):
            for layer, pair in enumerate(new):
                assert pair is not None, "every loop has run before its cells are kept"
                slot[layer] = _appended(slot[layer], pair)

    def share(self, sharing: Sharing) -> None:
        """From now on one slot for all loops, unless `per-loop`."""
        if sharing != "per-loop":
            self._sharing = sharing
            self.slots = [self._shared(self.slots)]

    def _shared(self, by_loop: list[list[Pair | None]]) -> list[Pair | None]:
        match self._sharing:
            case "last":
                return list(by_loop[-1])
            case "first":
                return list(by_loop[0])
        return [_mean([pair for pair in layer if pair is not None]) for layer in zip(*by_loop, strict=True)]

    @property
    def bytes(self) -> int:
        """Memory of all that is kept."""
        return sum(t.numel() * t.element_size() for slot in self.slots for pair in slot if pair for t in pair)


def _appended(past: Pair | None, new: Pair) -> Pair:
    return new if past is None else (torch.cat([past[0], new[0]], dim=2), torch.cat([past[1], new[1]], dim=2))


def _mean(pairs: list[Pair]) -> Pair:
    keys, values = zip(*pairs, strict=True)
    return torch.stack(keys).mean(0), torch.stack(values).mean(0)
