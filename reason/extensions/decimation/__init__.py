"""Decimation: a model's surest cells become clues, for puzzles with several solutions."""
