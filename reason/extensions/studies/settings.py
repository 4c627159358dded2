"""Registers the studies that are requested by name."""

from __future__ import annotations

from reason.evaluation.config import STUDIES, Study
from reason.losses import maps

STUDIES |= {
    "policies": Study(
        "calibrate stopping policies, which may lose half a point of exact against all steps, or 1 % of the "
        "perplexity of text; policies=0.02 sets this share",
        plain=True,
        argument=r"(0?\.\d+)?",
    ),
    "probes": Study("probe the dynamics in float64; takes minutes if states are large", maps, plain=True),
    "restarts": Study(
        "R answers per puzzle, restarts=R, each at the cost of a pass; they differ in the initial state, the puzzle's "
        "symmetry and noise on the state, or in one of these: restarts=R:initial, R:symmetry, R:noise",
        argument=r"[1-9]\d{0,4}(:(initial|symmetry|noise))?",
    ),
}
