"""Puzzle sets on the device: examples, batches, augmentation."""

from reason.data.augmentation import IDENTITY, Symmetries, augment, draw_symmetries, give_hints
from reason.data.config import DataConfig
from reason.data.puzzles import PuzzleData, Sampler, TrainingSets, by_relation, shape_of, shape_of_puzzle, task_of

__all__ = [
    "IDENTITY", "DataConfig", "PuzzleData", "Sampler", "Symmetries", "TrainingSets", "augment", "by_relation",
    "draw_symmetries", "give_hints", "shape_of", "shape_of_puzzle", "task_of",
]  # fmt: skip
