"""The settings of the studies that are asked for by name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from reason.evaluation.config import STUDIES, Study
from reason.settings.base import BaseConfig, Need, Unless

if TYPE_CHECKING:
    from reason.config.schema import Config


class RestartSettings(BaseConfig):
    """`restarts` takes the place of a yes or no: one restart is the pass itself."""

    restarts: int = Field(1, ge=1, le=100_000, description="K, number of answers per puzzle; each costs one pass")
    vary: Annotated[Literal["all", "initial", "symmetry", "noise"], Unless("restarts", 1)] = Field(
        "all", description="what differs between restarts: the initial state, the puzzle's symmetry, noise on the state"
    )


def _maps(config: Config) -> Iterator[Need]:
    yield Need(config.model_has("map"), "maps of the state (Reasoner.map)")


STUDIES |= {
    "policies": Study("calibrate stopping policies", undecimated=True),
    "probes": Study("probe the dynamics in float64; takes minutes if states are large", _maps, undecimated=True),
    "restarts": Study("answer every puzzle K times", settings=RestartSettings),
}
