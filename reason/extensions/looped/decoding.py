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
    """Keys and values of a growing text. A layer of the block has a set for each loop, or one that all loops share.

    The sets are stored in segments, (2, B, heads, cells, D/heads) each, so that a prompt may have one set per loop and
    later tokens share one. A new token attends to itself with its keys and values of the current loop (ours).
    """

    def __init__(self, model: LoopedModel, loops: int):
        self.model, self.loops, self.cells = model, loops, 0  # cells processed so far
        self.sharing: Sharing = "per-loop"
        stacks: Any = (model.prelude, model.block, model.coda)
        self.segments: dict[Any, list[list[Tensor]]] = {layer: [] for stack in stacks for layer in stack.blocks}

    def read(self, tokens: Tensor, every: bool = False) -> list[Readout]:
        """Return readouts of the next cells, tokens (B, n), after `every` loop or the last; extends the caches."""
        new: dict[Any, list[Tensor]] = {layer: [] for layer in self.segments}

        def recall(layer: Any, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
            call = len(new[layer])
            new[layer].append(torch.stack([keys, values]))
            before = [sets[min(call, len(sets) - 1)] for sets in self.segments[layer]]
            seen = torch.cat([*before, new[layer][-1]], dim=3)
            return seen[0], seen[1]

        for layer in self.segments:
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
            for layer in self.segments:
                layer.recall = None
        for layer, sets in new.items():
            self._keep(layer, self._shared(sets) if layer in set(self.model.block.blocks) else sets[-1:])
        self.cells += tokens.shape[1]
        return readouts

    def share(self, sharing: Sharing, keep_prompt: bool) -> None:
        """Make all loops share one set from now on, unless `per-loop`; `keep_prompt`: stored cells stay per loop."""
        self.sharing = sharing
        for layer in self.model.block.blocks:
            if not keep_prompt:
                self.segments[layer] = [self._shared(sets) for sets in self.segments[layer]]

    @property
    def bytes(self) -> int:
        """Return the bytes of all sets."""
        return sum(one.nbytes for segments in self.segments.values() for sets in segments for one in sets)

    def _shared(self, sets: list[Tensor]) -> list[Tensor]:
        return sets if self.sharing == "per-loop" else [ONE_SET[self.sharing](sets)]

    def _keep(self, layer: Any, sets: list[Tensor]) -> None:
        """Extend the last segment if it has as many sets, or begin a new one."""
        segments = self.segments[layer]
        if segments and len(segments[-1]) == len(sets):
            sets = [torch.cat(pair, dim=3) for pair in zip(segments.pop(), sets, strict=True)]
        segments.append(sets)


class Generated(NamedTuple):
    """The continuation of a prompt."""

    tokens: Tensor  # (B, n)
    logits: Tensor  # (B, n, V), from which they were chosen
    loops: Tensor  # (B, n), after which their logits were computed
    bytes: int  # of the keys and values of prompt and continuation at the end; a shared set counts once


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
    """Generate up to `count` tokens after a prompt (B, n ≥ 1), `loops` loops each; `choose` selects from logits (B, V).

    The prompt is processed with separate keys and values for each loop. `per-loop` continues in this way and is equal
    to a pass over the whole text. With `last`, `mean` or `first` all loops attend to one shared set, T times smaller.
    `keep_prompt`: the prompt keeps one set per loop, and only the new tokens share one (ours: the paper is ambiguous).
    Ends early if every row has `end`; later tokens of a row are ignored.
    leave: a token is predicted at the first loop at which the exit gate's distribution exceeds this quantile
    (`exit_step`). The other loops are still computed, since later tokens attend to their keys and values.
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
    return Generated(torch.stack(tokens, 1), torch.stack(logits, 1), torch.stack(left, 1), caches.bytes)
