"""Decimation, as in belief propagation: the surest cells become clues, for puzzles with several solutions."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from datasets_gen.puzzles import Puzzle
from reason.losses.lm import Likelihood, probabilities
from reason.rollout import StepRecord

DECIDED = 0.99  # a cell whose likeliest token has this probability or more gets no clue
TINY = 1e-9  # probabilities below count as this in a logarithm


class Decimation:
    """After every `every` steps the surest open cell of a puzzle becomes a clue: `clues` of `reason.rollout.unroll`.

    Of the cells whose likeliest token has a probability below `DECIDED`, the surest is the one whose distribution is
    farthest, by the Kullback-Leibler divergence, from the mean over the puzzle's open cells: if most cells are
    empty, a likely queen is more informative than a likely gap. The state of a `solved` puzzle stays. So a network
    that gives marginals of several solutions settles on one of them.

    A puzzle that is not solved and has no such cell has failed, and starts from its question again. Bit i of the number
    of its failures decides whether its i-th clue is then the second likeliest token: no combination repeats.
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
        """Make the rule for a batch of questions (B, S), whose clues are the cells `given` (B, S).

        solved: which answers (B, S) keep the rules, (B,) bool.
        """
        self.every, self.likelihood, self.solved = every, likelihood, solved
        self.questions = self.inputs = questions
        self.open = self.still = ~given
        self.failures = self.given = questions.new_zeros(len(questions))  # given: clues since the last failure

    @classmethod
    def of(
        cls, every: int, puzzle: Puzzle, questions: Tensor, likelihood: Likelihood, solved: Callable[[Tensor], Tensor]
    ) -> Decimation:
        """Make the rule for questions (B, S) of a family, which has the given cells."""
        given = torch.from_numpy(puzzle.given(questions.cpu().numpy())).to(questions.device)
        return cls(every, questions, given, likelihood, solved)

    def __call__(self, record: StepRecord) -> tuple[Tensor, Tensor] | None:
        """The questions (B, S) with one more clue each, and the solved puzzles (B,); None: not after this step."""
        if record.step % self.every:
            return None
        done = self.solved(record.answer)
        new, token = self.clues(record.logits, self.still, (self.failures >> self.given.clamp(max=62)) & 1 > 0)
        new &= ~done[:, None]
        failed = ~done & ~new.any(1)
        self.inputs = torch.where(failed[:, None], self.questions, torch.where(new, token, self.inputs))
        self.still = torch.where(failed[:, None], self.open, self.still & ~new)
        self.failures, self.given = self.failures + failed, (self.given + 1).masked_fill(failed, 0)
        return self.inputs, done

    def clues(self, logits: Tensor, still: Tensor, against: Tensor) -> tuple[Tensor, Tensor]:
        """(B, S) bool with at most one new clue a row, among the cells `still` (B, S) open; (B, S) their tokens.

        They are the likeliest tokens, and in the rows `against` (B,) the second likeliest.
        """
        p = probabilities(logits, self.likelihood)  # (B, S, V)
        best_two, tokens = p.topk(2, dim=-1)  # (B, S, 2)
        sure, token = best_two[..., 0], torch.where(against[:, None], tokens[..., 1], tokens[..., 0])
        base = (p * still[..., None]).sum(1, keepdim=True) / still.sum(1).clamp(min=1)[:, None, None]  # (B, 1, V)
        gain = (p * (p.clamp(min=TINY) / base.clamp(min=TINY)).log()).sum(-1)  # (B, S)
        undecided = still & (sure < DECIDED)
        best = gain.masked_fill(~undecided, -torch.inf).argmax(1, keepdim=True)  # (B, 1)
        return torch.zeros_like(still).scatter(1, best, True) & undecided, token
