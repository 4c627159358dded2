"""Add `--mix extreme` to the command sudoku."""

from datasets_gen.extensions.extreme.mix import mixed_splits
from datasets_gen.sudoku.generate import MIXES

MIXES["extreme"] = mixed_splits
