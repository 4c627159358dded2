"""Presets of ARC: eight easy tasks for a CPU, and HRM and TRM at their authors' size."""

from pathlib import Path

from datasets_gen.extensions.arc.puzzles import SIDE, Arc
from reason.presets import MADE, add_papers

MADE["arc"] = lambda options: Arc(options.get("size", SIDE))
add_papers(Path(__file__).parent, "arc")
