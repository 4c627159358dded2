"""The preset of 9×9 Sudokus by attention within groups."""

from pathlib import Path

from reason.presets import add_papers

add_papers(Path(__file__).parent, "attention")
