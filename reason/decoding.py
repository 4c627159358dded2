"""Greedy generation by a causal model: the token it says after each cell becomes the next cell."""

from __future__ import annotations

from collections import deque

import torch
from torch import Tensor

from reason.models.base import IGNORE, Batch, Reasoner
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
