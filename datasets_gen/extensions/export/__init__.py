"""Writes sets of Sudokus and mazes as the published CSV."""
