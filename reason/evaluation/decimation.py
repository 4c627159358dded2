"""Decimation: clues that the model gives itself, for puzzles with several solutions (a word of belief propagation)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from reason.models.base import Batch, Readout, Reasoner, State
from reason.rollout import StepRecord, where

DECIDED = 0.99  # probability of a cell's likeliest token from which decimation leaves the cell alone
TINY = 1e-9  # probabilities below count as this in a logarithm


class Decimation:
    """Decimation: after every `every` steps the surest open cell of a puzzle becomes a clue, and its state starts anew.

    Of the cells whose likeliest token has a probability below `DECIDED`, the surest is the one whose distribution is
    farthest, by the Kullback-Leibler divergence, from the mean over the puzzle's open cells: where most cells are
    empty, a likely queen tells more than a likely gap. The state of a `solved` puzzle stays. So a network that gives
    marginals of several solutions settles on one of them.

    A puzzle that is not solved and has no such cell has failed, and starts from its question again. Bit i of the number
    of its failures says whether its i-th clue is then the second likeliest token: no combination comes twice.
    (ours, after belief propagation-guided decimation, arXiv:0709.1667, and limited discrepancy search)
    """

    def __init__(
        self,
        every: int,
        inputs: Tensor,
        open_cells: Tensor,
        probabilities: Callable[[Tensor], Tensor],
        solved: Callable[[Tensor], Tensor],
    ):
        """For one batch: questions (B, S), the cells (B, S) that they leave open, probabilities of logits (B, S, V).

        solved: which answers (B, S) keep the rules, (B,) bool.
        """
        self.every, self.questions, self.open = every, inputs, open_cells
        self.probabilities, self.solved = probabilities, solved
        self.inputs, self.still = inputs, open_cells
        self.failures = self.given = inputs.new_zeros(len(inputs))  # given: clues since the last failure

    def unroll(
        self,
        model: Reasoner,
        batch: Batch,
        steps: int,
        rows: Tensor | None = None,
        *,
        start: Callable[[State], State] | None = None,
        after: Callable[[State], State] | None = None,
        rules: Callable[[StepRecord], Tensor] | None = None,
    ) -> Iterator[StepRecord]:
        """As `reason.rollout.unroll`, with a clue more after every `every` steps; records keep the batch as asked."""
        inputs, done, state = batch.inputs, None, None
        for step in range(1, steps + 1):
            if step % self.every == 1 or self.every == 1:
                context = model.encode(batch._replace(inputs=inputs))
                fresh = model.initial_state(context)
                fresh = fresh if start is None else start(fresh)
                state = fresh if done is None else where(done, state, fresh)
            before, state = state, model.step(state, context)
            state = state if after is None else after(state)
            state = state if done is None else where(done, before, state)
            record = StepRecord(model, step, batch, context, before, state, rows, rules)
            yield record
            if step % self.every == 0 and step < steps:
                inputs, done = self.after(record)
            del record  # with its readout, before the next step takes memory

    def after(self, record: StepRecord) -> tuple[Tensor, Tensor]:
        """The questions (B, S) with one more clue each, and the solved puzzles (B,)."""
        done = self.solved(record.answer)
        new, token = self.clues(record.readout, self.still, (self.failures >> self.given.clamp(max=62)) & 1 > 0)
        new &= ~done[:, None]
        failed = ~done & ~new.any(1)
        self.inputs = torch.where(failed[:, None], self.questions, torch.where(new, token, self.inputs))
        self.still = torch.where(failed[:, None], self.open, self.still & ~new)
        self.failures, self.given = self.failures + failed, (self.given + 1).masked_fill(failed, 0)
        return self.inputs, done

    def clues(self, readout: Readout, still: Tensor, against: Tensor) -> tuple[Tensor, Tensor]:
        """(B, S) bool with at most one new clue a row, among the cells `still` (B, S) open; (B, S) their tokens.

        They are the likeliest tokens, and in the rows `against` (B,) the second likeliest.
        """
        p = self.probabilities(readout.logits)
        best_two, tokens = p.topk(2, dim=-1)
        sure, token = best_two[..., 0], torch.where(against[:, None], tokens[..., 1], tokens[..., 0])
        base = (p * still[..., None]).sum(1, keepdim=True) / still.sum(1).clamp(min=1)[:, None, None]
        gain = (p * (p.clamp(min=TINY) / base.clamp(min=TINY)).log()).sum(-1)
        undecided = still & (sure < DECIDED)
        best = gain.masked_fill(~undecided, -torch.inf).argmax(1, keepdim=True)
        return torch.zeros_like(still).scatter(1, best, True) & undecided, token
