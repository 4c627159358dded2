"""Settings of an evaluation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

from pydantic import Field, model_validator
from pydantic.fields import FieldInfo

from reason.settings.base import PLAIN, Need, TabledConfig, Unless, When

if TYPE_CHECKING:
    from reason.config.schema import Config


class Study(NamedTuple):
    """A measurement that is made where `evaluation.NAME=true` asks for it."""

    description: str
    needs: Callable[[Config], Iterable[Need]] = lambda config: ()
    undecimated: bool = False  # does it read steps of a puzzle that stays as it is?


def _maps(config: Config) -> Iterator[Need]:
    yield Need(config.model_has("map"), "maps of the state (Reasoner.map)")


STUDIES: dict[str, Study] = {  # a study of one's own is one entry more
    "policies": Study("calibrate and time stopping policies; each costs at most one pass", undecimated=True),
    "probes": Study("probe the dynamics in float64; takes minutes if states are large", _maps, undecimated=True),
}


class EvaluationConfig(TabledConfig):
    """How a trained model is read: one pass always; restarts and the studies of STUDIES where asked, at their cost."""

    steps: int | None = Field(
        None,
        ge=1,
        le=100_000,
        description="T, number of supervision steps (short form: steps=T); none: twice the number in training, more "
        "for larger boards and with decimation",
    )
    decimation: Annotated[int, Field(ge=1)] | Literal["auto"] | None = Field(
        "auto",
        description="K: after every K steps the most certain undecided cell becomes a clue, and the puzzle restarts "
        "from the initial state; if the clues lead to no answer that satisfies the rules, they are removed; auto: "
        "N_super if puzzles may have several solutions, otherwise none",
    )
    split: str = Field("test", pattern=PLAIN, description="which split of the data set")
    batch_size: int = Field(256, ge=1, description="puzzles per batch; results change only by rounding")
    compile: Literal["auto", "none", "inductor"] = Field(
        "auto",
        description="torch.compile of the network calls; results change only by rounding; auto: inductor if it works "
        "and the evaluation takes minutes",
    )
    weights: Literal["auto", "ema", "raw"] = Field("auto", description="auto: the EMA if the run has one, else raw")
    checkpoint: Literal["newest", "best"] = Field(
        "newest", description="best: the checkpoint with the highest validation accuracy in training"
    )
    limit: int | None = Field(None, ge=1, description="evaluate only this many puzzles, the first of the split")
    boards: int = Field(6, ge=0, description="number of solved puzzles, and of failed puzzles, shown on the page")
    restarts: int = Field(1, ge=1, le=100_000, description="K, number of answers per puzzle; each costs one pass")
    vary: Annotated[Literal["all", "initial", "symmetry", "noise"], Unless("restarts", 1)] = Field(
        "all", description="what differs between restarts: the initial state, the puzzle's symmetry, noise on the state"
    )
    sigma: Annotated[float, Unless("restarts", 1), When("vary", "all", "noise")] = Field(
        0.1, gt=0, description="vary=noise: standard deviation of the noise, relative to the state's root mean square"
    )
    probed: Annotated[int, When("probes", True)] = Field(
        8, ge=1, description="number of solved puzzles, and of failed puzzles, that are probed"
    )
    spectra: Annotated[int, When("probes", True)] = Field(
        2, ge=0, description="number of probed solved puzzles, and of probed failed puzzles, with a spectral radius"
    )

    @classmethod
    def table(cls) -> dict[str, FieldInfo]:
        """Whether each study is made."""
        fields = {name: Field(False, description=study.description) for name, study in STUDIES.items()}
        return {name: FieldInfo.from_annotated_attribute(bool, field) for name, field in fields.items()}

    @property
    def studies(self) -> list[str]:
        """The names of the studies that are made."""
        return [name for name in STUDIES if getattr(self, name)]

    @model_validator(mode="after")
    def _steps_without_decimation(self) -> EvaluationConfig:
        if isinstance(self.decimation, int) and self._undecimated:
            name = self._undecimated[0]
            raise ValueError(
                f"{name}=true reads steps of a puzzle that stays as it is: type evaluation.decimation=none, or "
                f"evaluation.{name}=false"
            )
        return self

    @property
    def _undecimated(self) -> list[str]:
        return [name for name in self.studies if STUDIES[name].undecimated]

    def decimated_every(self, several: bool, trained_steps: int) -> int | None:
        """Steps between decimations, None: no decimation. several: may the puzzles have several solutions?"""
        if self.decimation == "auto":
            return trained_steps if several and not self._undecimated else None
        return self.decimation
