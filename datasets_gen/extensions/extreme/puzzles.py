"""Add the depth to the statistics of Sudoku."""

from datasets_gen.extensions.extreme.depth import statistics
from datasets_gen.sudoku import STATISTICS

STATISTICS.append(statistics)
