"""Greedy decoding by a causal model.

`greedy` runs the whole text for every token, with any model; `generate` caches keys and values of looped transformers.
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
    """Continue prompts (B, S) greedily, row b from its first lengths[b] ≥ 1 cells; the cells after them are ignored.

    Returns labels (B, S): cell i holds the token generated after cell i, IGNORE inside the prompt and after `end`.
    Every token costs an unroll of `steps` loops over all cells so far.
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
    """Labels (B, S) of causal examples -> (B,): prompt lengths, up to and with the first scored cell."""
    return (labels != IGNORE).int().argmax(-1) + 1


class Caches:
    """Caches of a looped transformer: one set for prelude and coda, one per loop for the block."""

    def __init__(self, model: LoopedModel, loops: int):
        self.prelude, self.coda = (StackCache(len(stack.blocks), 1) for stack in (model.prelude, model.coda))
        self.block = StackCache(len(model.block.blocks), loops)
        self.cells = 0  # read so far

    @property
    def bytes(self) -> int:
        """Memory of all keys and values."""
        return self.prelude.bytes + self.block.bytes + self.coda.bytes


def read(model: LoopedModel, tokens: Tensor, caches: Caches) -> Readout:
    """Append tokens (B, n) to the text; returns their readout after all loops."""
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
    """A greedy continuation and the memory of its caches."""

    tokens: Tensor  # (B, n) the most probable ones, each given those before it
    logits: Tensor  # (B, n, V) from which they were chosen
    prompt_bytes: int  # of keys and values after the prompt: one set per loop
    cache_bytes: int  # at the end, prompt and answer


@torch.inference_mode()
def generate(
    model: LoopedModel,
    prompt: Tensor,
    count: int,
    loops: int,
    sharing: Sharing = "per-loop",
    keep_prompt: bool = False,
) -> Generated:
    """Generate `count` tokens greedily after a prompt (B, n), each with `loops` loops (docs/math.md §13).

    The prompt uses one set of keys and values per loop. `per-loop` keeps one set per loop and equals a forward pass
    over the whole text; with `last`, `mean` or `first` all loops attend to one shared set, T times smaller (Ouro: last
    and mean cost little accuracy, first collapses). `keep_prompt` keeps the prompt's sets per loop and shares those of
    generated tokens only (ours: the paper allows both readings).
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
    """Greedy answers of a batch compared with its labels, and the memory of the caches."""

    exact: Tensor  # (B,) bool: every scored token right
    loss: Tensor  # (B,) mean −ln p of the right token given the generated history, softmax
    cache_bytes: int
    prompt_bytes: int


@torch.inference_mode()
def answer(
    model: LoopedModel, batch: Batch, loops: int, sharing: Sharing = "per-loop", keep_prompt: bool = False
) -> Answers:
    """Generate the scored cells of each row from the cells before them, and compare.

    A row's prompt ends with its first scored cell, whose label is the first generated token; rows of equal prompt
    length are decoded together.
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
