"""Greedy generation by a causal model: the token it says after each cell becomes the next cell.

`greedy` reads the whole text anew for every token, with any model; `generate` keeps keys and values, as looped
transformers can.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import torch
from torch import Tensor

from reason.models import LoopedModel
from reason.models.base import IGNORE, Batch, Readout, Reasoner
from reason.nn.cache import Sharing, StackCache
from reason.rollout import unroll


@torch.inference_mode()
def greedy(model: Reasoner, prompts: Tensor, lengths: Tensor, steps: int, end: int | None = None) -> Tensor:
    """Go on with prompts (B, S), row b given up to its first lengths[b] ≥ 1 cells; what stands after them is not read.

    Returns what is said after each cell, (B, S) as labels: cell i holds the token after cell i, IGNORE where the
    prompt goes on anyway, and after `end` has been said. Every token costs a whole unroll of `steps` loops over the
    cells so far.
    """
    rows, cells = prompts.shape
    if int(lengths.min()) < 1:
        raise ValueError(f"a prompt of {int(lengths.min())} tokens: a model says what comes after at least one")
    tokens, said = prompts.clone(), torch.full_like(prompts, IGNORE)
    identifiers = torch.zeros(rows, dtype=torch.long, device=prompts.device)
    running = torch.ones(rows, dtype=torch.bool, device=prompts.device)
    for cell in range(int(lengths.min()) - 1, cells):
        seen = tokens[:, : cell + 1]
        (_, readout), *_ = deque(unroll(model, Batch(seen, seen, identifiers), steps), maxlen=1)
        token = readout.logits[:, -1].argmax(-1)
        free = running & (cell >= lengths - 1)
        said[:, cell] = torch.where(free, token, IGNORE)
        if cell + 1 < cells:
            tokens[:, cell + 1] = torch.where(free, token, tokens[:, cell + 1])
        if end is not None:
            running = running & ~(free & (token == end))
    return said


def prompt_lengths(labels: Tensor) -> Tensor:
    """Labels (B, S) of causal examples -> (B,): the cells that are given, up to the first scored one with it."""
    return (labels != IGNORE).int().argmax(-1) + 1


class Caches:
    """What a text that grows keeps: of the prelude and the coda as of any transformer, of the block loop by loop."""

    def __init__(self, model: LoopedModel, loops: int):
        self.prelude, self.coda = (StackCache(len(stack.blocks), 1) for stack in (model.prelude, model.coda))
        self.block = StackCache(len(model.block.blocks), loops)
        self.cells = 0  # read so far

    @property
    def bytes(self) -> int:
        """Memory of all keys and values."""
        return self.prelude.bytes + self.block.bytes + self.coda.bytes


def read(model: LoopedModel, tokens: Tensor, caches: Caches) -> Readout:
    """The readout of the next cells of a text, whose tokens (B, n) are given, after all loops; they are kept."""
    x = model.encode_from(tokens, caches.cells, caches.prelude.recalls(0))
    state = model.initial_state(x)
    for loop in range(caches.block.loops):
        state = model.step(state, x, caches.block.recalls(loop))
    readout = model.readout(state, caches.block.loops, caches.coda.recalls(0))
    for cache in (caches.prelude, caches.block, caches.coda):
        cache.commit()
    caches.cells += tokens.shape[1]
    return readout


@dataclass(frozen=True)
class Generated:
    """What was said after a prompt."""

    tokens: Tensor  # (B, n) the likeliest ones, each chosen given those before it
    logits: Tensor  # (B, n, V) from which they were chosen
    prompt_bytes: int  # of keys and values while the prompt was read: one set per loop
    cache_bytes: int  # at the end, prompt and answer: what one set per loop or a shared one holds


@torch.inference_mode()
def generate(
    model: LoopedModel,
    prompt: Tensor,
    count: int,
    loops: int,
    sharing: Sharing = "per-loop",
    keep_prompt: bool = False,
) -> Generated:
    """Greedily `count` tokens after a prompt (B, n), each after `loops` loops.

    The prompt is read with keys and values of each loop for that loop alone. While generating, `per-loop` goes on so,
    which computes what reading the whole text anew would; with `last`, `mean` or `first` all loops look at one shared
    set (Ouro: last and mean cost little, first collapses), T times smaller. `keep_prompt`: the prompt's stay one set
    per loop, and only the tokens said are shared (ours: the paper can be read either way).
    """
    assert model.config.causal, "only a causal model says the next token"
    model.eval()
    caches = Caches(model, loops)
    said = [read(model, prompt, caches).logits[:, -1]]
    prompt_bytes = caches.bytes
    caches.block.share(sharing, keep_prompt)
    for _ in range(count - 1):
        said.append(read(model, said[-1].argmax(-1, keepdim=True), caches).logits[:, -1])
    logits = torch.stack(said, dim=1)
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
    model: LoopedModel, batch: Batch, loops: int, sharing: Sharing = "per-loop", keep_prompt: bool = False
) -> Answers:
    """Generate the scored cells of each row from the cells before them, and compare.

    A row's prompt ends with its first scored cell, whose label is the first token said; rows of one prompt length go
    together.
    """
    scored = batch.labels != IGNORE
    lengths = prompt_lengths(batch.labels)
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
