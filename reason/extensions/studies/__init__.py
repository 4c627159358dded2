"""Studies beyond accuracy: difficulty, the halting head, stopping policies, restarts, probes of the dynamics."""

from reason.plugins import EVALUATIONS

EVALUATIONS |= {
    "evaluation.policies=true": "calibrated stopping policies: when to halt, and what that saves",
    "evaluation.restarts=8": "more than one try at every puzzle",
    "evaluation.probes=true": "norms, residuals, spectral radius, how failures end",
}
