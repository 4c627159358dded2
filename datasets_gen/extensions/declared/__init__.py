"""Puzzles that a CPMpy model declares: its constraints are the checker, the solver, the generator and the structure."""

from datasets_gen.extensions.declared import shapes
from datasets_gen.extensions.declared.expressions import Connected as connected
from datasets_gen.extensions.declared.expressions import OneLoop as one_loop
from datasets_gen.extensions.declared.expressions import Runs
from datasets_gen.extensions.declared.expressions import Unseen as unseen
from datasets_gen.extensions.declared.puzzle import FACTS, Declared, Drawn
from datasets_gen.extensions.declared.rules import cp
from datasets_gen.extensions.declared.text import FORMS, WithCages, WithEdges, WithRuns, WithSigns, labelled

__all__ = [
    "FACTS", "FORMS", "Declared", "Drawn", "Runs", "WithCages", "WithEdges", "WithRuns", "WithSigns",
    "connected", "cp", "labelled", "one_loop", "shapes", "unseen",
]  # fmt: skip
