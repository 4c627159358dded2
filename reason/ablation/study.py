"""An ablation: ordinary runs of a preset's variants, several seeds each, as a queue that may be stopped anywhere."""

from __future__ import annotations

import contextlib
import glob
import itertools
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from reason.config.describe import has_mark
from reason.config.differences import differing
from reason.config.overrides import override, read_config
from reason.config.schema import Config
from reason.errors import ConfigError
from reason.files import read_json, written_beside
from reason.presets import preset
from reason.runs.directory import locked
from reason.runs.evaluation import refuse_unreadable
from reason.runs.folders import plain_name
from reason.runs.results import compared
from reason.settings.base import Mark
from reason.training.checkpoint import readable, step_of

SPEC = "ablation.json"
OWN = (".lock", f".{SPEC}.partial")  # what a folder holds before its ablation.json
EVALUATION = "ablation"  # the name of every run's evaluation on its own data
PRESET = "preset"  # what is varied where several presets are named
GROWS = ("seeds", "also_on")  # may be more in a folder that is there already


class Ablation(BaseModel):
    """What is varied, and what all runs share; settings as they are typed."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    preset: str
    shared: dict[str, str] = {}
    varied: dict[str, list[str]] = {}
    seeds: int = Field(3, ge=1, le=1000)
    first_seed: int = Field(0, ge=0)
    one_at_a_time: bool = False
    evaluation: dict[str, str] = {}
    also_on: list[str] = []

    def evaluations(self) -> dict[str, str | None]:
        """The evaluations of every run by name, and the set of each; None: the run's own."""
        others = {f"{EVALUATION}-{plain_name(Path(directory).name, 'set')}": directory for directory in self.also_on}
        return {EVALUATION: None, **others}

    def variants(self) -> list[Variant]:
        """The first values of all settings, which is the base, and the others: each by itself, or all together."""
        keys = list(self.varied)
        base = {key: values[0] for key, values in self.varied.items()}
        if self.one_at_a_time:
            chosen = [base] + [base | {key: value} for key in keys for value in self.varied[key][1:]]
        else:
            chosen = [dict(zip(keys, values, strict=True)) for values in itertools.product(*self.varied.values())]
        short = {key: key.rsplit(".", 1)[-1] for key in keys}
        names = short if len(set(short.values())) == len(keys) else dict(zip(keys, keys, strict=True))
        variants = []
        for number, settings in enumerate(chosen):
            apart = settings if not self.one_at_a_time else {k: v for k, v in settings.items() if v != base[k]}
            name = ",".join(f"{names[key]}={value}" for key, value in apart.items()) or "base"
            variants.append(Variant(number, name, settings))
        return variants

    def cells(self, folder: Path) -> list[Cell]:
        """Every run, a seed of all variants before the next seed.

        Raises:
            ConfigError: a setting is unknown or does not fit.
        """
        found = []
        for seed in range(self.first_seed, self.first_seed + self.seeds):
            for variant in self.variants():
                run = folder / plain_name(f"{variant.number:02d}-seed{seed}", "run")
                found.append(Cell(variant, seed, run, self.config(variant, seed)))
        return found

    def config(self, variant: Variant, seed: int) -> Config:
        """The variant's config; as many puzzle-steps as the base takes, unless the steps themselves are varied.

        Raises:
            ConfigError: a setting is unknown or does not fit.
        """
        base = self._of(self.variants()[0])
        config = override(self._of(variant), {"seed": str(seed)})
        if config.data.directory != base.data.directory:
            raise ConfigError(
                f"preset {config.name} reads {config.data.directory}, {base.name} {base.data.directory}: type "
                "data=DIR, one set for all"
            )
        refuse_unreadable(self.evaluation)
        override(config, self.evaluation)
        if "training.steps" in self.varied:
            return config
        steps = round(_puzzle_steps(base) / (_puzzle_steps(config) / config.training.steps))
        return override(config, {"training.steps": str(max(1, steps))})

    def _of(self, variant: Variant) -> Config:
        settings = self.shared | variant.settings
        return override(preset(settings.pop(PRESET, self.preset)).config(), settings)


def _puzzle_steps(config: Config) -> int:
    return config.training.steps * config.rollout.grad_steps * config.training.batch_size


@dataclass(frozen=True)
class Variant:
    """Settings that set runs apart."""

    number: int
    name: str
    settings: dict[str, str]


@dataclass(frozen=True)
class Cell:
    """One run: a variant with a seed."""

    variant: Variant
    seed: int
    run: Path
    config: Config

    def results(self, name: str = EVALUATION) -> dict[str, Any] | None:
        """What an evaluation found; None where there is none yet.

        Raises:
            ConfigError: its file is damaged.
        """
        file = self.run / "evaluation" / name / "results.json"
        try:
            return compared(read_json(file))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except ConfigError as error:
            said = str(error) if str(file) in str(error) else f"{file}: {error}"
            raise ConfigError(f"{said}; or remove it to evaluate again") from None

    def missing(self, ablation: Ablation) -> dict[str, str | None]:
        """The evaluations that it still needs."""
        return {name: read for name, read in ablation.evaluations().items() if self.results(name) is None}

    def trained(self) -> bool:
        """Whether the checkpoint that it would go on from is its last."""
        newest = next(readable(self.run), None)
        return newest is not None and step_of(newest) >= self.config.training.steps


@contextlib.contextmanager
def opened(folder: Path, asked: Ablation) -> Iterator[None]:
    """Work in a folder alone: a new one, or that of the same ablation, perhaps with fewer seeds or sets than now.

    Raises:
        ConfigError: the folder holds another ablation, runs of other settings, or something else, or another process
            works there.
    """
    refuse_other_ablation(folder, asked)
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder, "is in use: another reason ablate works there", "--out DIR"):
        refuse_other_ablation(folder, asked)
        refuse_changed(asked.cells(folder))
        with written_beside(folder / SPEC) as part:
            part.write_text(json.dumps(asked.model_dump(), indent=2) + "\n", encoding="utf-8")
        yield


def refuse_other_ablation(folder: Path, asked: Ablation) -> None:
    """Raises ConfigError where a folder holds another ablation, or something else."""
    file = folder / SPEC
    if file.exists():
        try:
            there = Ablation.model_validate(read_json(file))
        except ValidationError as error:
            raise ConfigError(f"{file} is no ablation ({error.errors()[0]['msg']}); name another --out DIR") from None
        read = [sets for sets in there.also_on if _is_read(folder, sets)]
        more = asked.seeds >= there.seeds and set(read) <= set(asked.also_on)
        free = {*(GROWS if more else ()), *(() if any(folder.glob("*/evaluation/*")) else ("evaluation",))}
        fixed = [key for key in Ablation.model_fields if key not in free]
        apart = [key for key in fixed if getattr(there, key) != getattr(asked, key)]
        if list(there.varied) != list(asked.varied):  # which numbers the variants
            apart.append("varied")
        if apart:
            raise ConfigError(
                f"{folder} holds another ablation: {apart[0]} is {getattr(there, apart[0])!r} there; repeat its own "
                "command, with as many seeds and sets or more, or name another --out DIR"
            )
    elif folder.exists() and (not folder.is_dir() or any(path.name not in OWN for path in folder.iterdir())):
        raise ConfigError(f"{folder} is there already and holds no ablation; name another --out DIR")


def _is_read(folder: Path, sets: str) -> bool:
    """Whether a run has an evaluation on a set of `also_on`."""
    name = glob.escape(f"{EVALUATION}-{Path(sets).name}")
    return any(folder.glob(f"*/evaluation/{name}/results.json"))


def refuse_changed(cells: Iterable[Cell]) -> None:
    """Raises ConfigError where a run that is there was begun with other settings than its variant has now."""
    for cell in cells:
        if (cell.run / "config.json").exists():
            there = read_config(cell.run / "config.json")
            apart = differing([config.model_dump(mode="json") for config in (there, cell.config)])
            key = next((key for key in apart if not has_mark(key, Mark.RESUMABLE)), None)
            if key is not None:
                was, now = apart[key]
                raise ConfigError(
                    f"{cell.run} was begun with {key}={was}, the preset or this version has {now}: runs of both are "
                    "no ablation; name another --out DIR"
                )
