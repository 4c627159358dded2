"""Settings of an evaluation."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pydantic import Field, field_validator
from pydantic.fields import FieldInfo

from reason.plugins import installed
from reason.settings.base import PLAIN, BaseConfig, Need

if TYPE_CHECKING:
    from torch import Tensor

    from datasets_gen.puzzles import Puzzle
    from reason.config.schema import Config
    from reason.losses.lm import Likelihood
    from reason.rollout import Unroller


class Study(NamedTuple):
    """A measurement that is made if `evaluation.studies` names it: NAME, or NAME=ARGUMENT."""

    description: str
    needs: Callable[[Config], Iterable[Need]] = lambda config: ()
    plain: bool = False  # needs the unmodified puzzle (excludes search)
    argument: str = ""  # pattern of the argument; "": it takes none


STUDIES: dict[str, Study] = {}  # by name; extensions and user files add theirs


class EvaluationConfig(BaseConfig):
    """The settings of an evaluation, which makes one pass and the studies that `studies` names."""

    steps: int | None = Field(
        None,
        ge=1,
        le=100_000,
        description="T, number of supervision steps (short form: steps=T); none: twice the number in training, more "
        "for larger boards and searches",
    )
    split: str = Field("test", pattern=PLAIN, description="which split of the data set")
    batch_size: int = Field(256, ge=1, description="puzzles per batch; results change only by rounding")
    compile: Literal["auto", "none", "inductor", "graph"] = Field(
        "auto",
        description="inductor: torch.compile of the network calls; results change only by rounding; graph: also each "
        "step as one CUDA graph; auto: inductor if it works and the evaluation takes minutes",
    )
    weights: Literal["auto", "ema", "raw"] = Field("auto", description="auto: the EMA if the run has one, else raw")
    checkpoint: Literal["newest", "best"] = Field(
        "newest", description="best: the checkpoint with the highest validation accuracy in training"
    )
    limit: int | None = Field(None, ge=1, description="evaluate only this many puzzles, the first of the split")

    studies: tuple[str, ...] = Field((), description="further measurements")

    @classmethod
    def settings(cls) -> dict[str, FieldInfo]:
        """Return every setting; the studies include those that were added."""
        descriptions = [f"{name}{'=…' if each.argument else ''}: {each.description}" for name, each in STUDIES.items()]
        field = Field((), description=f"further measurements, as NAME,NAME: {'; '.join(descriptions) or 'none here'}")
        return {**cls.model_fields, "studies": FieldInfo.from_annotated_attribute(tuple[str, ...], field)}

    @field_validator("studies", mode="before")
    @classmethod
    def _listed(cls, given: Any) -> Any:
        return tuple(given.split(",")) if isinstance(given, str) else tuple(given)

    @field_validator("studies")
    @classmethod
    def _known(cls, studies: tuple[str, ...]) -> tuple[str, ...]:
        names = [study.partition("=")[0] for study in studies]
        if twice := {name for name in names if names.count(name) > 1}:
            raise ValueError(f"{min(twice)} twice; a study has one argument")
        for study in studies:
            name, _, argument = study.partition("=")
            if name not in STUDIES or not re.fullmatch(STUDIES[name].argument, argument):
                known = ", ".join(f"{name}=…" if each.argument else name for name, each in STUDIES.items())
                raise ValueError(f"unknown study {study}; studies are {known or 'none'}; {installed()}")
        return studies

    @property
    def asked(self) -> dict[str, str]:
        """The arguments of the selected studies by name; "" if a study takes none."""
        return {name: argument for name, _, argument in (study.partition("=") for study in self.studies)}


class Search(NamedTuple):
    """A search strategy that changes the puzzle between steps, such as decimation."""

    least: int  # lower bound of the default number of steps
    # Its arguments: the puzzle's family, questions (B, S), a likelihood, and a test of answers (B, S).
    unroller: Callable[[Puzzle, Tensor, Likelihood, Callable[[Tensor], Tensor]], Unroller]


SEARCHES: dict[str, Callable[[EvaluationConfig, Puzzle | None, int, bool], Search | None]] = {}  # extensions add theirs


def search_of(
    settings: EvaluationConfig, puzzle: Puzzle | None, trained_steps: int, stuck: bool = False
) -> Search | None:
    """Return the search for puzzles of a family, or None; `stuck`: plain steps are known to help little."""
    return next(filter(None, (each(settings, puzzle, trained_steps, stuck) for each in SEARCHES.values())), None)
