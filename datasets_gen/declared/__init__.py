"""Puzzles that a CPMpy model declares: its constraints are the checker, the solver, the generator and the structure."""

from datasets_gen.declared import shapes
from datasets_gen.declared.expressions import Runs, unseen
from datasets_gen.declared.lazily import cp
from datasets_gen.declared.puzzle import FACTS, Declared, Drawn
from datasets_gen.declared.text import FORMS, WithCages, WithEdges, WithRuns, WithSigns, labelled

__all__ = [
    "FACTS", "FORMS", "Declared", "Drawn", "Runs", "WithCages", "WithEdges", "WithRuns", "WithSigns", "cp",
    "labelled", "shapes", "unseen",
]  # fmt: skip
