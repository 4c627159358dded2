"""Decimation, as in belief propagation: the surest cells become clues, for puzzles with several solutions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import torch
from torch import Tensor

from datasets_gen.puzzles import Puzzle
from reason.losses.lm import Likelihood, probabilities
from reason.models.base import Batch, Context, Reasoner, State
from reason.rollout import StepRecord, Unroller, select_state, unroll

DECIDED = 0.99  # a cell whose likeliest token has this probability or more gets no clue
TINY = 1e-9  # probabilities below count as this in a logarithm


class Decimation:
    """After every `every` steps the surest open cell of a puzzle becomes a clue, and the puzzle restarts (`unroll`).

    The surest cell is chosen among those whose likeliest token has a probability below `DECIDED`. Its distribution has
    the largest Kullback-Leibler divergence from the mean over the puzzle's open cells: if most cells are empty, a
    likely queen is more informative than a likely gap. The state of a `solved` puzzle is kept. A network that predicts
    marginals of several solutions thus decides on one of them.

    An unsolved puzzle without such a cell has failed and restarts from its question. Bit i of the number of its
    failures determines whether its i-th clue is the second likeliest token, so that no combination repeats.
    (ours, after belief propagation-guided decimation, arXiv:0709.1667, and limited discrepancy search)
    """

    def __init__(
        self,
        every: int,
        questions: Tensor,
        given: Tensor,
        likelihood: Likelihood,
        solved: Callable[[Tensor], Tensor],
    ):
        """Make the rule for a batch of questions (B, S) with clues in the cells `given` (B, S).

        solved: maps answers (B, S) to whether they satisfy the rules, (B,) bool.
        """
        self.every = every
        self.likelihood = likelihood
        self.solved = solved
        self.questions = self.inputs = questions
        self.open = self.still = ~given
        self.failures = self.given = questions.new_zeros(len(questions))  # given: clues since the last failure

    def unroll(
        self,
        model: Reasoner,
        batch: Batch,
        steps: int,
        start: Callable[[State], State] | None = None,
        step: Callable[[State, Context], State] | None = None,
    ) -> Iterator[StepRecord]:
        """Take `steps` steps as `reason.rollout.unroll` does, and add clues after every `every` of them.

        The solved puzzles keep their state; the others restart from their new question.
        """
        solved = torch.zeros_like(self.failures, dtype=torch.bool)
        kept: State = None

        def begin(fresh: State) -> State:
            fresh = fresh if start is None else start(fresh)
            return fresh if kept is None else select_state(solved, kept, fresh)

        def move(state: State, context: Context) -> State:
            return select_state(solved, state, (step or model.step)(state, context))

        last: StepRecord | None = None
        for taken in range(0, steps, self.every):
            if last is not None:
                kept = last.state
                solved = self.add_clues(last)
            question = batch._replace(inputs=self.inputs)
            for record in unroll(model, question, min(self.every, steps - taken), begin, move):
                last = replace(record, step=taken + record.step, batch=batch)
                yield last

    def add_clues(self, record: StepRecord) -> Tensor:
        """Add a clue to the question of each unsolved puzzle, and return the solved ones (B,)."""
        done = self.solved(record.answer)
        new, token = self.clues(record.logits, self.still, (self.failures >> self.given.clamp(max=62)) & 1 > 0)
        new &= ~done[:, None]
        failed = ~done & ~new.any(1)
        self.inputs = torch.where(failed[:, None], self.questions, torch.where(new, token, self.inputs))
        self.still = torch.where(failed[:, None], self.open, self.still & ~new)
        self.failures = self.failures + failed
        self.given = (self.given + 1).masked_fill(failed, 0)
        return done

    def clues(self, logits: Tensor, still: Tensor, against: Tensor) -> tuple[Tensor, Tensor]:
        """Return (B, S) bool, at most one new clue per row among the open cells `still` (B, S), and tokens (B, S).

        The tokens are the likeliest ones, and in the rows `against` (B,) the second likeliest.
        """
        p = probabilities(logits, self.likelihood)  # (B, S, V)
        best_two, tokens = p.topk(2, dim=-1)  # (B, S, 2)
        sure = best_two[..., 0]
        token = torch.where(against[:, None], tokens[..., 1], tokens[..., 0])
        base = (p * still[..., None]).sum(1, keepdim=True) / still.sum(1).clamp(min=1)[:, None, None]  # (B, 1, V)
        gain = (p * (p.clamp(min=TINY) / base.clamp(min=TINY)).log()).sum(-1)  # (B, S)
        undecided = still & (sure < DECIDED)
        best = gain.masked_fill(~undecided, -torch.inf).argmax(1, keepdim=True)  # (B, 1)
        return torch.zeros_like(still).scatter(1, best, True) & undecided, token


def unroller(
    every: int, puzzle: Puzzle, questions: Tensor, likelihood: Likelihood, solved: Callable[[Tensor], Tensor]
) -> Unroller:
    """Return the `unroll` that adds clues to questions (B, S) of a family."""
    given = torch.from_numpy(puzzle.given(questions.cpu().numpy())).to(questions.device)
    return Decimation(every, questions, given, likelihood, solved).unroll
