"""Greedy generation by a causal model: the token it says after each cell becomes the next cell.

One decoder and two ways to read the text so far: `Rereading` unrolls it anew for every token, with any model; `Caches`
keep keys and values, as looped transformers can.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor

from reason.extensions.looped.cache import Sharing, StackCache
from reason.models.base import IGNORE, Batch, Readout, Reasoner
from reason.rollout import last_step, unroll

if TYPE_CHECKING:
    from reason.extensions.looped.model import LoopedModel


class Rereading:
    """Keep the text alone: every token costs an unroll of `steps` loops over all cells so far."""

    def __init__(self, model: Reasoner, steps: int):
        self.model, self.steps, self.pieces = model, steps, list[Tensor]()

    def read(self, tokens: Tensor) -> Readout:
        """The readout of all cells so far, those of tokens (B, n) the last ones, after all loops."""
        self.pieces.append(tokens)
        text = torch.cat(self.pieces, dim=1)
        return last_step(unroll(self.model, Batch(text, text, torch.zeros_like(text[:, 0])), self.steps)).readout


class Caches:
    """Keep keys and values of a growing text: one set for prelude and coda, one for each loop of the block."""

    def __init__(self, model: LoopedModel, loops: int):
        self.model = model
        self.prelude, self.coda = (StackCache(len(stack.blocks), 1) for stack in (model.prelude, model.coda))
        self.block = StackCache(len(model.block.blocks), loops)
        self.cells = 0  # read so far

    @property
    def bytes(self) -> int:
        """Memory of all keys and values."""
        return self.prelude.bytes + self.block.bytes + self.coda.bytes

    def read(self, tokens: Tensor) -> Readout:
        """The readout of the next cells, whose tokens (B, n) are given, after all loops; they are cached."""
        context = self.model.encode_from(tokens, self.cells, self.prelude.recalls(0))
        state = self.model.initial_state(context)
        for loop in range(self.block.loops):
            state = self.model.step(state, context, self.block.recalls(loop))
        readout = self.model.readout(state, context, self.block.loops, self.coda.recalls(0))
        for cache in (self.prelude, self.block, self.coda):
            cache.commit()
        self.cells += tokens.shape[1]
        return readout


def decode(reader: Rereading | Caches, last: Tensor, count: int, end: int | None = None) -> Tensor:
    """Logits (B, n, V) of up to `count` tokens, the likeliest each time; `last` (B, V) are those of the first.

    Ends early where every row has said `end`; what a row says after its own `end` counts for nothing.
    """
    logits = [last]
    ended = torch.zeros(len(last), dtype=torch.bool, device=last.device)
    while len(logits) < count:
        token = logits[-1].argmax(-1, keepdim=True)
        if end is not None:
            ended |= token.squeeze(1) == end
            if ended.all():
                break
        logits.append(reader.read(token).logits[:, -1])
    return torch.stack(logits, dim=1)


@dataclass(frozen=True)
class Generated:
    """The answer to a prompt."""

    tokens: Tensor  # (B, n) the likeliest ones, each chosen given those before it
    logits: Tensor  # (B, n, V) from which they were chosen
    prompt_bytes: int = 0  # of keys and values while the prompt was read: one set per loop
    cache_bytes: int = 0  # at the end, prompt and answer: what one set per loop or a shared one holds


@torch.inference_mode()
def generate(
    model: Reasoner,
    prompt: Tensor,
    count: int,
    loops: int,
    sharing: Sharing | None = None,
    keep_prompt: bool = False,
    end: int | None = None,
) -> Generated:
    """Greedily up to `count` tokens after a prompt (B, n ≥ 1), each after `loops` loops; see `decode` for `end`.

    sharing: none: every token reads the whole text anew, with any model. Else keys and values are kept (looped
    models). The prompt is read with those of each loop for that loop alone. While generating, `per-loop` goes on so,
    which computes what reading anew would; with `last`, `mean` or `first` all loops look at one shared set (Ouro:
    last and mean cost little, first collapses), T times smaller. `keep_prompt`: the prompt's stay one set per loop,
    and only the tokens said are shared (ours: the paper can be read either way).
    """
    assert prompt.shape[1], "a model says what comes after at least one token"
    model.eval()
    if sharing is None:
        reader = Rereading(model, loops)
        logits = decode(reader, reader.read(prompt).logits[:, -1], count, end)
        return Generated(logits.argmax(-1), logits)
    caches = Caches(cast("LoopedModel", model), loops)
    first = caches.read(prompt).logits[:, -1]
    prompt_bytes = caches.bytes
    caches.block.share(sharing, keep_prompt)
    logits = decode(caches, first, count, end)
    return Generated(logits.argmax(-1), logits, prompt_bytes, caches.bytes)


@dataclass(frozen=True)
class Answers:
    """Greedy answers held against the labels of a batch, and what the caches of its rows took."""

    exact: Tensor  # (B,) bool: every scored token right
    loss: Tensor  # (B,) mean −ln p of the right token where greedy decoding stands: its own history, softmax
    cache_bytes: int
    prompt_bytes: int


@torch.inference_mode()
def answer(
    model: Reasoner, batch: Batch, loops: int, sharing: Sharing | None = None, keep_prompt: bool = False
) -> Answers:
    """Generate the scored cells of each row from the cells before them, and compare.

    A row's prompt ends with its first scored cell, whose label is the first token said; rows of one prompt length go
    together.
    """
    scored = batch.labels != IGNORE
    lengths = scored.int().argmax(-1) + 1
    exact = torch.zeros(len(scored), dtype=torch.bool, device=scored.device)
    loss = torch.zeros(len(scored), device=scored.device)
    cache_bytes = prompt_bytes = 0
    for length in lengths.unique().tolist():
        rows = lengths == length
        labels, inside = batch.labels[rows, length - 1 :], scored[rows, length - 1 :]
        count = int(inside.sum(1).max())
        found = generate(model, batch.inputs[rows, :length], count, loops, sharing, keep_prompt)
        wanted, inside = labels[:, :count], inside[:, :count]
        exact[rows] = ((found.tokens == wanted) | ~inside).all(1)
        right = found.logits.float().log_softmax(-1).gather(-1, wanted.clamp(min=0)[..., None]).squeeze(-1)
        loss[rows] = -torch.where(inside, right, 0.0).sum(1) / inside.sum(1)
        cache_bytes, prompt_bytes = cache_bytes + found.cache_bytes, prompt_bytes + found.prompt_bytes
    return Answers(exact, loss, cache_bytes, prompt_bytes)
