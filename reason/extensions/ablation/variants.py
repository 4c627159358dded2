"""An ablation: a preset's variants with several seeds each.

Each run is an ordinary run folder DIR/NN-seedS, and DIR/ablation.json states what is varied. No further progress is
stored: a run without its evaluations is unfinished and continues from its newest checkpoint.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from reason.config.describe import refuse_unreadable
from reason.config.overrides import derive, override
from reason.config.schema import Config
from reason.errors import ConfigError
from reason.files import published, read_json
from reason.presets import preset
from reason.runs.folders import plain_name
from reason.runs.results import compared
from reason.runs.sets import with_published
from reason.training.checkpoint import readable, step_of
from reason.training.log import read_metrics

SPEC = "ablation.json"
EVALUATION = "ablation"  # name of the evaluation on the run's data
PRESET = "preset"  # the varied setting if several presets are named
Pairs = dict[str, str]  # {"section.key": its typed value}


class Ablation(BaseModel):
    """The varied settings and those that all runs share; values are texts, as typed."""

    model_config = ConfigDict(frozen=True)

    preset: str
    shared: Pairs = {}
    varied: dict[str, tuple[str, ...]] = {}
    seeds: int = Field(3, ge=1, le=1000)
    first_seed: int = Field(0, ge=0)
    one_at_a_time: bool = False
    as_published: bool = False  # each preset for its published epochs, not for the base's puzzle-steps
    evaluation: Pairs = {}
    also_on: list[str] = []

    def evaluations(self) -> dict[str, str | None]:
        """Return the evaluations of every run by name, with the set of each; None: the run's set."""
        others = {f"{EVALUATION}-{plain_name(Path(directory).name, 'set')}": directory for directory in self.also_on}
        return {EVALUATION: None, **others}

    def variants(self) -> dict[str, Pairs]:
        """Return settings by name: the first values (the base), then the others, all combinations or one at a time."""
        keys = list(self.varied)
        base = {key: values[0] for key, values in self.varied.items()}
        if self.one_at_a_time:
            chosen = [base] + [base | {key: value} for key in keys for value in self.varied[key][1:]]
        else:
            chosen = [dict(zip(keys, values, strict=True)) for values in itertools.product(*self.varied.values())]
        short = {key: key.rsplit(".", 1)[-1] for key in keys}
        names = short if len(set(short.values())) == len(keys) else dict(zip(keys, keys, strict=True))

        def name(settings: Pairs) -> str:
            named = {k: v for k, v in settings.items() if not self.one_at_a_time or v != base[k]}
            return ",".join(f"{names[key]}={value}" for key, value in named.items()) or "base"

        return {name(settings): settings for settings in chosen}

    def cells(self, folder: Path) -> list[Cell]:
        """Return every run: all variants of a seed, then the next seed. Raises ConfigError for an invalid setting."""
        return [
            Cell(name, seed, folder / f"{number:02d}-seed{seed}", self.config(settings, seed))
            for seed in range(self.first_seed, self.first_seed + self.seeds)
            for number, (name, settings) in enumerate(self.variants().items())
        ]

    def config(self, settings: Pairs, seed: int) -> Config:
        """Return a variant's config, with the base's puzzle-steps unless the steps are varied or published."""
        base = self._of(next(iter(self.variants().values())))
        config = derive(self._of(settings), {"seed": seed})
        if config.data.directory != base.data.directory:
            raise ConfigError(
                f"preset {config.name} reads {config.data.directory}, {base.name} {base.data.directory}: type "
                "data=DIR, one set for all"
            )
        refuse_unreadable(self.evaluation)
        override(config, self.evaluation)
        if "training.steps" in self.varied or (self.as_published and "training.steps" not in self.shared):
            return config
        steps = round(self._length(base) / (self._length(config) / config.training.steps))
        return derive(config, {"training.steps": max(1, steps)})

    def _length(self, config: Config) -> float:
        return config.drawn if self.as_published else config.drawn * config.rollout.accum_steps  # puzzle-steps

    def _of(self, settings: Pairs) -> Config:
        changes = self.shared | settings
        config = override(preset(changes.pop(PRESET, self.preset)).config(), changes)
        return config if "data.directory" in changes else with_published(config)

    def refuse_idle(self) -> None:
        """Raise ConfigError if a varied setting changes nothing in any variant."""
        base, *others = self.variants().values()
        for key in (key for key in self.varied if key != PRESET):
            told_apart = [v for v in others if not self.one_at_a_time or v[key] != base[key]]
            reasons = [self.config(v, self.first_seed).idle.get(key) for v in (base, *told_apart)]
            if all(reasons):
                raise ConfigError(f"varying {key} changes nothing in these trainings: {reasons[0]}; remove it")


@dataclass(frozen=True)
class Cell:
    """A run: a variant with a seed."""

    variant: str
    seed: int
    run: Path
    config: Config

    def results(self, name: str = EVALUATION) -> dict[str, Any] | None:
        """Return the results of an evaluation, with the minutes of training; None if they are missing or damaged."""
        try:
            measures = compared(read_json(self.run / "evaluation" / name / "results.json"))
            seconds = max((line.get("seconds", 0) for line in read_metrics(self.run)), default=0)
            return measures | {"minutes": seconds / 60}
        except (OSError, ConfigError):
            return None

    def missing(self, ablation: Ablation) -> dict[str, str | None]:
        """Return the evaluations that the run still needs."""
        return {name: read for name, read in ablation.evaluations().items() if self.results(name) is None}

    def trained(self) -> bool:
        """Return whether the newest checkpoint is that of the last step."""
        newest = next(readable(self.run), None)
        return newest is not None and step_of(newest) >= self.config.training.steps

    @property
    def log(self) -> Path:
        """Return the file with the output of this run's processes."""
        return self.run.with_name(f"{self.run.name}.log")


def open_folder(folder: Path, asked: Ablation) -> None:
    """Begin an ablation in a folder, or continue the existing one; seeds and `also_on` may change."""
    if (folder / SPEC).exists():
        free = {"seeds", "also_on", *(() if any(folder.glob("*/evaluation/*")) else ("evaluation",))}
        there, wanted = read_json(folder / SPEC), asked.model_dump(mode="json", exclude=free)
        apart = [key for key in wanted if there.get(key) != wanted[key]]
        if not apart and list(there["varied"]) != list(wanted["varied"]):  # their order numbers the variants
            apart = ["varied"]
        if apart:
            raise ConfigError(
                f"{folder} has another ablation: {apart[0]} is {there.get(apart[0])!r} there; repeat that "
                "command (seeds and --also-on may differ), or type another --out DIR"
            )
    elif any(not path.name.startswith(".") for path in folder.iterdir()):
        raise ConfigError(f"{folder} exists already and has no ablation; type another --out DIR")
    with published(folder / SPEC, replace=True) as part:
        part.write_text(json.dumps(asked.model_dump(mode="json"), indent=2) + "\n", encoding="utf-8")


def cell_of(folder: Path, name: str) -> tuple[Ablation, Cell]:
    """Return the ablation in a folder, and its run of this name."""
    ablation = Ablation.model_validate(read_json(folder / SPEC))
    return ablation, next(cell for cell in ablation.cells(folder) if cell.run.name == name)
