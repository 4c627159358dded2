"""Key-value caches of a looped stack: one set per loop, or one set shared by all loops (Ouro; docs/math.md §13)."""

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

    Each loop reads its own slot. After `share`, all loops share one tail: the keys and values of the last loop, of the
    first, or their mean. The tail covers all later tokens, and the prompt too unless `keep_prompt` is set. A new token
    reads its own keys and values of the current loop (ours).
    """

    def __init__(self, num_layers: int, loops: int):
        self.num_layers, self.loops = num_layers, loops
        self.slots: list[list[Pair | None]] = [[None] * num_layers for _ in range(loops)]
        self.tail: list[Pair | None] = [None] * num_layers
        self._new: list[list[Pair | None]] = [[None] * num_layers for _ in range(loops)]
        self._sharing: Sharing = "per-loop"

    def recalls(self, loop: int) -> list[Recall]:
        """Per layer of loop `loop` (from 0), the keys and values to attend to; new ones are held for `commit`."""

        def recall(layer: int) -> Recall:
            def seen(keys: Tensor, values: Tensor) -> Pair:
                self._new[loop][layer] = (keys, values)
                return _joined(self.slots[loop][layer], self.tail[layer], (keys, values))

            return seen

        return [recall(layer) for layer in range(self.num_layers)]

    def commit(self) -> None:
        """Store the held keys and values, once all loops have processed the new cells."""
        assert all(pair for new in self._new for pair in new), "every loop has run before its cells are kept"
        if self._sharing == "per-loop":
            for slot, new in zip(self.slots, self._new, strict=True):
                slot[:] = [_joined(*pairs) for pairs in zip(slot, new, strict=True)]
        else:
            self.tail = [_joined(*pairs) for pairs in zip(self.tail, self._shared(self._new), strict=True)]

    def share(self, sharing: Sharing, keep_prompt: bool = False) -> None:
        """Share one set among all loops from now on, unless `per-loop`; `keep_prompt`: stored cells stay per loop."""
        if sharing == "per-loop":
            return
        self._sharing = sharing
        if not keep_prompt:
            self.tail = self._shared(self.slots)
            self.slots = [[None] * self.num_layers for _ in range(self.loops)]

    def _shared(self, by_loop: list[list[Pair | None]]) -> list[Pair | None]:
        match self._sharing:
            case "last":
                return list(by_loop[-1])
            case "first":
                return list(by_loop[0])
        return [_mean([pair for pair in layer if pair is not None]) for layer in zip(*by_loop, strict=True)]

    @property
    def bytes(self) -> int:
        """Bytes of all stored keys and values."""
        kept = [pair for slot in (*self.slots, self.tail) for pair in slot if pair is not None]
        return sum(t.numel() * t.element_size() for pair in kept for t in pair)


def _joined(*pairs: Pair | None) -> Pair:
    """Concatenation of keys and values along the sequence."""
    keys, values = zip(*(pair for pair in pairs if pair is not None), strict=True)
    return torch.cat(keys, dim=2), torch.cat(values, dim=2)


def _mean(pairs: list[Pair]) -> Pair:
    keys, values = zip(*pairs, strict=True)
    return torch.stack(keys).mean(0), torch.stack(values).mean(0)
