"""Greedy decoding by a causal looped model with key-value caches: one set per loop, or one that all loops share (Ouro).

docs/math.md §13. The token that the model says after each cell becomes the next cell.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import torch
from torch import Tensor

if TYPE_CHECKING:
    from reason.extensions.looped.model import LoopedModel

Sharing = Literal["per-loop", "last", "mean", "first"]
ONE_SET: dict[Sharing, Callable[[list[Tensor]], Tensor]] = {  # of the sets of all loops
    "last": lambda sets: sets[-1],
    "first": lambda sets: sets[0],
    "mean": lambda sets: torch.stack(sets).mean(0),
}


class Caches:
    """Keys and values of a growing text: a set for each call of a layer, that is for each loop of those in the block.

    After `share` the loops look at one set: that of the last loop, of the first, or their mean. A new token reads its
    own keys and values of the current loop (ours).
    """

    def __init__(self, model: LoopedModel, loops: int):
        self.model, self.loops, self.cells = model, loops, 0  # cells read so far
        self.sharing: Sharing = "per-loop"
        stacks: Any = ((model.prelude, 1), (model.block, loops), (model.coda, 1))
        self.sets: dict[Any, list[Tensor | None]] = {  # by layer, of each call: (2, B, heads, cells, D/heads)
            layer: [None] * calls for stack, calls in stacks for layer in stack.blocks
        }

    def read(self, tokens: Tensor) -> Tensor:
        """Logits (B, n, V) of the next cells, whose tokens (B, n) are given, after all loops; they are cached."""
        new: dict[Any, list[Tensor]] = {layer: [] for layer in self.sets}

        def recall(layer: Any, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
            new[layer].append(torch.stack([keys, values]))
            seen = _joined(self.sets[layer][len(new[layer]) - 1], new[layer][-1])
            return seen[0], seen[1]

        for layer in self.sets:
            layer.recall = partial(recall, layer)
        try:
            context = self.model.encode_from(tokens, self.cells)
            state = self.model.initial_state(context)
            for _ in range(self.loops):
                state = self.model.step(state, context)
            readout = self.model.readout(state, context, self.loops)
        finally:
            for layer in self.sets:
                layer.recall = None
        for layer, sets in new.items():
            if self.sharing != "per-loop" and len(self.sets[layer]) == self.loops:
                sets = [ONE_SET[self.sharing](sets)] * self.loops
            self.sets[layer] = list(map(_joined, self.sets[layer], sets))
        self.cells += tokens.shape[1]
        return readout.logits

    def share(self, sharing: Sharing, keep_prompt: bool) -> None:
        """Share one set among all loops from now on, unless `per-loop`; `keep_prompt`: stored cells stay per loop."""
        self.sharing = sharing
        for layer in self.model.block.blocks:
            if sharing != "per-loop" and not keep_prompt:
                self.sets[layer] = [ONE_SET[sharing](self.sets[layer])] * self.loops  # type: ignore[arg-type]


def _joined(old: Tensor | None, new: Tensor) -> Tensor:
    return new if old is None else torch.cat([old, new], dim=3)


class Generated(NamedTuple):
    """The answer to a prompt."""

    tokens: Tensor  # (B, n) the likeliest ones, each chosen given those before it
    logits: Tensor  # (B, n, V) from which they were chosen
    bytes: int  # that the keys and values of prompt and answer take at the end, a shared set counted once


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
    caches.share(sharing, keep_prompt)
    ended = torch.zeros(len(prompt), dtype=torch.bool, device=prompt.device)
    while len(logits) < count:
        token = logits[-1].argmax(-1, keepdim=True)
        if end is not None and (ended := ended | (token.squeeze(1) == end)).all():
            break
        logits.append(caches.read(token)[:, -1])
    said, shared, asked = torch.stack(logits, dim=1), sharing != "per-loop", prompt.shape[1]
    kept = next(iter(caches.sets.values()))[0]
    assert kept is not None, "the prompt is read"

    def size(cells: int, loops: int) -> int:
        """Bytes of the keys and values of so many cells of all rows, the block's for `loops` loops."""
        layers = len(model.prelude.blocks) + loops * len(model.block.blocks) + len(model.coda.blocks)
        return cells * layers * kept[:, :, :, 0].nbytes

    of_prompt = size(asked, loops if keep_prompt or not shared else 1)
    return Generated(said.argmax(-1), said, of_prompt + size(caches.cells - asked, 1 if shared else loops))
