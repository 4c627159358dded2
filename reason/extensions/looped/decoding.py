"""Greedy decoding by a causal looped model with key-value caches: one set per loop, or one that all loops share (Ouro).

docs/math.md §13. The token that the model says after each cell becomes the next cell.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import torch
from torch import Tensor

if TYPE_CHECKING:
    from reason.extensions.looped.layers import Layers
    from reason.extensions.looped.model import LoopedModel

Sharing = Literal["per-loop", "last", "mean", "first"]
Kept = list[Tensor | None]  # of each layer: keys and values (2, B, heads, S, D/heads)


class StackCache:
    """Keys and values of one stack of layers that is applied `loops` times.

    Each loop reads its own set. After `share`, all loops share one tail: the keys and values of the last loop, of the
    first, or their mean. The tail covers all later tokens, and the prompt too unless `keep_prompt` is set. A new token
    reads its own keys and values of the current loop (ours).
    """

    def __init__(self, stack: Layers, loops: int):
        self.blocks: Any = stack.blocks
        self.loops, self.sharing, layers = loops, "per-loop", len(stack.blocks)
        self.sets: list[Kept] = [[None] * layers for _ in range(loops)]
        self.tail: Kept = [None] * layers
        self._new: list[Kept] = [[None] * layers for _ in range(loops)]

    @contextlib.contextmanager
    def reading(self, loop: int) -> Iterator[None]:
        """Within it the layers see the keys and values of loop `loop` (from 0); new ones are held for `commit`."""
        for layer, block in enumerate(self.blocks):
            block.recall = partial(self._recall, loop, layer)
        try:
            yield
        finally:
            for block in self.blocks:
                block.recall = None

    def _recall(self, loop: int, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        new = self._new[loop][layer] = torch.stack([keys, values])
        seen = _joined(_joined(self.sets[loop][layer], self.tail[layer]), new)
        assert seen is not None
        return seen[0], seen[1]

    def commit(self) -> None:
        """Store the held keys and values, once all loops have processed the new cells."""
        if self.sharing == "per-loop":
            self.sets = [list(map(_joined, kept, new)) for kept, new in zip(self.sets, self._new, strict=True)]
        else:
            self.tail = list(map(_joined, self.tail, self._shared(self._new)))

    def share(self, sharing: Sharing, keep_prompt: bool = False) -> None:
        """Share one set among all loops from now on, unless `per-loop`; `keep_prompt`: stored cells stay per loop."""
        self.sharing = sharing
        if sharing != "per-loop" and not keep_prompt:
            self.tail = self._shared(self.sets)
            self.sets = [[None] * len(self.tail)] * self.loops

    def _shared(self, sets: list[Kept]) -> Kept:
        if self.sharing == "mean":
            return [
                torch.stack([kept for kept in layer if kept is not None]).mean(0) for layer in zip(*sets, strict=True)
            ]
        return list(sets[-1 if self.sharing == "last" else 0])

    @property
    def bytes(self) -> int:
        """Bytes of all stored keys and values."""
        return sum(kept.nbytes for layers in (*self.sets, self.tail) for kept in layers if kept is not None)


def _joined(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    return b if a is None else a if b is None else torch.cat([a, b], dim=3)


class Caches:
    """Keys and values of a growing text: one set for prelude and coda, one for each loop of the block."""

    def __init__(self, model: LoopedModel, loops: int):
        self.model = model
        self.prelude, self.coda = StackCache(model.prelude, 1), StackCache(model.coda, 1)
        self.block = StackCache(model.block, loops)
        self.cells = 0  # read so far

    @property
    def bytes(self) -> int:
        """Of all keys and values."""
        return self.prelude.bytes + self.block.bytes + self.coda.bytes

    def read(self, tokens: Tensor) -> Tensor:
        """Logits (B, n, V) of the next cells, whose tokens (B, n) are given, after all loops; they are cached."""
        with self.prelude.reading(0):
            context = self.model.encode_from(tokens, self.cells)
        state = self.model.initial_state(context)
        for loop in range(self.block.loops):
            with self.block.reading(loop):
                state = self.model.step(state, context)
        with self.coda.reading(0):
            readout = self.model.readout(state, context, self.block.loops)
        for cache in (self.prelude, self.block, self.coda):
            cache.commit()
        self.cells += tokens.shape[1]
        return readout.logits


class Generated(NamedTuple):
    """The answer to a prompt."""

    tokens: Tensor  # (B, n) the likeliest ones, each chosen given those before it
    logits: Tensor  # (B, n, V) from which they were chosen
    bytes: int  # of the keys and values of prompt and answer at the end


@torch.inference_mode()
def generate(
    model: LoopedModel,
    prompt: Tensor,
    count: int,
    loops: int,
    sharing: Sharing = "per-loop",
    keep_prompt: bool = False,
    end: int | None = None,
) -> Generated:
    """Greedily up to `count` tokens after a prompt (B, n ≥ 1), each after `loops` loops.

    The prompt is read with the keys and values of each loop for that loop only. `per-loop` goes on so, and computes
    what reading the whole text anew would. With `last`, `mean` or `first` all loops look at one shared set, T times
    smaller. `keep_prompt`: the prompt's stay one set per loop, and only the tokens said are shared (ours: the paper can
    be read either way). Ends early where every row has said `end`; what a row says after its own `end` counts for
    nothing.
    """
    model.eval()
    caches = Caches(model, loops)
    logits = [caches.read(prompt)[:, -1]]
    caches.block.share(sharing, keep_prompt)
    ended = torch.zeros(len(prompt), dtype=torch.bool, device=prompt.device)
    while len(logits) < count:
        token = logits[-1].argmax(-1, keepdim=True)
        if end is not None and (ended := ended | (token.squeeze(1) == end)).all():
            break
        logits.append(caches.read(token)[:, -1])
    said = torch.stack(logits, dim=1)
    return Generated(said.argmax(-1), said, caches.bytes)
