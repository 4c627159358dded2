"""Decimation: clues that a model gives itself, for puzzles with several solutions."""
