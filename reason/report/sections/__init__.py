"""The sections of a report, in their order. A new evaluation adds its Section here, and is shown everywhere."""

from reason.report.section import Results, Section
from reason.report.sections.accuracy import ACCURACY
from reason.report.sections.blind_spot import BLIND_SPOT
from reason.report.sections.caches import CACHES
from reason.report.sections.difficulty import DIFFICULTY
from reason.report.sections.dynamics import DYNAMICS
from reason.report.sections.exits import EXITS
from reason.report.sections.halting import HALTING
from reason.report.sections.policies import POLICIES
from reason.report.sections.restarts import RESTARTS
from reason.report.sections.training import TRAINING
from reason.report.sections.votes import VOTES

SECTIONS = (
    ACCURACY, VOTES, DIFFICULTY, HALTING, POLICIES, RESTARTS, EXITS, CACHES, DYNAMICS, BLIND_SPOT, TRAINING,
)  # fmt: skip


def sections_of(results: Results) -> list[Section]:
    """Those that the results have numbers for."""
    return [section for section in SECTIONS if results.get(section.key)]
