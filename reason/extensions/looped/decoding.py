"""Decoding by a causal looped model with key-value caches: one set per loop, or one that all loops share (Ouro).

docs/math.md §13. The token that is chosen after each cell becomes the next cell.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import torch
from torch import Tensor

from reason.extensions.looped.exit import exit_step, gates_of
from reason.models.base import Readout

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

    def read(self, tokens: Tensor, every: bool = False) -> list[Readout]:
        """Readouts of cells whose tokens (B, n) come next, after `every` loop or only the last; they are cached."""
        new: dict[Any, list[Tensor]] = {layer: [] for layer in self.sets}

        def recall(layer: Any, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
            new[layer].append(torch.stack([keys, values]))
            sets = self.sets[layer]
            seen = _joined(sets[min(len(new[layer]), len(sets)) - 1], new[layer][-1])
            return seen[0], seen[1]

        for layer in self.sets:
            layer.recall = partial(recall, layer)
        try:
            context = self.model.encode_from(tokens, self.cells)
            state = self.model.initial_state(context)
            readouts = []
            for loop in range(1, self.loops + 1):
                state = self.model.step(state, context)
                if every or loop == self.loops:
                    readouts.append(self.model.readout(state, context, loop))
        finally:
            for layer in self.sets:
                layer.recall = None
        for layer, calls in new.items():
            sets = calls[-len(self.sets[layer]) :]  # the coda's last call is kept
            if self.sharing != "per-loop" and len(self.sets[layer]) == self.loops:
                sets = [ONE_SET[self.sharing](sets)] * self.loops
            self.sets[layer] = list(map(_joined, self.sets[layer], sets))
        self.cells += tokens.shape[1]
        return readouts

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

    tokens: Tensor  # (B, n) each chosen given those before it
    logits: Tensor  # (B, n, V) from which they were chosen
    loops: Tensor  # (B, n) after which their logits were read
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
    choose: Callable[[Tensor], Tensor] = lambda logits: logits.argmax(-1),
    leave: float | None = None,
) -> Generated:
    """Up to `count` tokens after a prompt (B, n ≥ 1), each after `loops` loops; `choose` takes them of logits (B, V).

    The prompt is read with the keys and values of each loop for that loop only. `per-loop` goes on so, and computes
    what reading the whole text anew would. With `last`, `mean` or `first` all loops look at one shared set, T times
    smaller. `keep_prompt`: the prompt's stay one set per loop, and only the tokens said are shared (ours: the paper can
    be read either way). Ends early where every row has said `end`; what a row says after its own `end` counts for
    nothing. leave: a token is read at the loop where the exit gate's distribution exceeds this quantile (`exit_step`);
    the other loops are computed all the same, since later tokens read their keys and values.
    """
    model.eval()
    caches, new = Caches(model, loops), prompt
    tokens, logits, left = list[Tensor](), list[Tensor](), list[Tensor]()
    ended = torch.zeros(len(prompt), dtype=torch.bool, device=prompt.device)
    while len(tokens) < count and not ended.all():
        readouts = caches.read(new, every=leave is not None)
        if not tokens:
            caches.share(sharing, keep_prompt)
        last = torch.stack([readout.logits[:, -1] for readout in readouts])  # (1 or T, B, V)
        step = torch.full_like(prompt[:, 0], loops)
        if leave is not None:
            step = exit_step(gates_of(readouts)[..., -1], leave)
            last = last.gather(0, (step - 1)[None, :, None].expand(1, *last.shape[1:]))
        logits.append(last[0])
        left.append(step)
        tokens.append(choose(last[0]))
        new = tokens[-1][:, None]
        ended |= tokens[-1] == (-1 if end is None else end)
    kept = next(iter(caches.sets.values()))[0]
    assert kept is not None, "the prompt is read"
    each = kept[:, :, :, 0].nbytes  # of a cell in one layer, all rows
    inside, outside = len(model.block.blocks), len(model.prelude.blocks) + len(model.coda.blocks)
    of_answer = loops if sharing == "per-loop" else 1  # sets of the block's keys and values
    of_prompt = loops if keep_prompt else of_answer
    parts = (prompt.shape[1], of_prompt), (caches.cells - prompt.shape[1], of_answer)
    size_at_end = each * sum(cells * (outside + sets * inside) for cells, sets in parts)
    return Generated(torch.stack(tokens, 1), torch.stack(logits, 1), torch.stack(left, 1), size_at_end)
