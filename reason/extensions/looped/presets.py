"""The presets of STARS, Ouro and the readout blind spot, and a looped transformer on 6×6 Sudoku."""

from pathlib import Path

from reason.presets import add_papers

add_papers(Path(__file__).parent, "stars", "blindspot", "ouro")
