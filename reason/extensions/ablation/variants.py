"""An ablation: a preset's variants with several seeds each, and what is checked before any is trained.

Each run is an ordinary run folder DIR/NN-seedS, and DIR/ablation.json says what is varied. So nothing else is stored
about what is done: a run whose evaluations are missing is left to do, and it goes on from its newest checkpoint.
"""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from datasets_gen.layout import splits_of
from reason.config.describe import has_mark, unused
from reason.config.differences import differing
from reason.config.overrides import Changes, derive, leaves, read_config, tuples, value_text
from reason.config.schema import Config
from reason.data.puzzles import PuzzleData
from reason.errors import ConfigError
from reason.files import read_json, written_beside
from reason.presets import preset
from reason.runs.folders import plain_name
from reason.runs.reading import refuse_unreadable
from reason.runs.results import compared
from reason.settings.base import Mark
from reason.training.checkpoint import readable, step_of
from reason.training.log import read_metrics

SPEC = "ablation.json"
EVALUATION = "ablation"  # the name of every run's evaluation on its own data
PRESET = "preset"  # what is varied where several presets are named


class Ablation(BaseModel):
    """What is varied, and what all runs share."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    preset: str
    shared: Changes = {}
    varied: dict[str, tuple[Any, ...]] = {}
    seeds: int = Field(3, ge=1, le=1000)
    first_seed: int = Field(0, ge=0)
    one_at_a_time: bool = False
    evaluation: Changes = {}
    also_on: list[str] = []
    sets: dict[str, str] = {}  # what `read_sets` returned when runs were begun

    @field_validator("shared", "varied", "evaluation")
    @classmethod
    def _lists_as_tuples(cls, settings: Any) -> Any:
        return tuples(settings)

    def typed(self, key: str) -> str:
        """A varied setting as it is typed."""
        return f"{key}={','.join(map(value_text, self.varied[key]))}"

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
            name = ",".join(f"{names[key]}={value_text(value)}" for key, value in apart.items()) or "base"
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
        config = derive(self._of(variant), {"seed": seed})
        if config.data.directory != base.data.directory:
            raise ConfigError(
                f"preset {config.name} reads {config.data.directory}, {base.name} {base.data.directory}: type "
                "data=DIR, one set for all"
            )
        refuse_unreadable(self.evaluation)
        derive(config, self.evaluation)
        if "training.steps" in self.varied:
            return config
        steps = round(_puzzle_steps(base) / (_puzzle_steps(config) / config.training.steps))
        return derive(config, {"training.steps": max(1, steps)})

    def _of(self, variant: Variant) -> Config:
        settings = self.shared | variant.settings
        return derive(preset(str(settings.pop(PRESET, self.preset))).config(), settings)


def _puzzle_steps(config: Config) -> int:
    return config.training.steps * config.rollout.grad_steps * config.training.batch_size


@dataclass(frozen=True)
class Variant:
    """Settings that set runs apart."""

    number: int
    name: str
    settings: Changes


@dataclass(frozen=True)
class Cell:
    """One run: a variant with a seed."""

    variant: Variant
    seed: int
    run: Path
    config: Config

    def results(self, name: str = EVALUATION) -> dict[str, Any] | None:
        """What an evaluation found; None where there is none yet, or its file is damaged."""
        try:
            return compared(read_json(self.run / "evaluation" / name / "results.json"))
        except (OSError, ConfigError):
            return None

    def missing(self, ablation: Ablation) -> dict[str, str | None]:
        """The evaluations that it still needs."""
        return {name: read for name, read in ablation.evaluations().items() if self.results(name) is None}

    def trained(self) -> bool:
        """Whether the checkpoint that it would go on from is its last."""
        newest = next(readable(self.run), None)
        return newest is not None and step_of(newest) >= self.config.training.steps

    def progress(self) -> float:
        """The share of its steps that is trained, by the last line of metrics.jsonl."""
        lines = read_metrics(self.run)
        return lines[-1]["step"] / self.config.training.steps if lines else 0.0

    @property
    def log(self) -> Path:
        """The file with what the processes of this run have printed."""
        return self.run.with_name(f"{self.run.name}.log")


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Make the folder, and keep other commands out of it.

    Raises:
        ConfigError: another command works there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(folder / ".lock", timeout=0):
            yield
    except Timeout:
        raise ConfigError(f"another reason ablate works in {folder}; wait for it, or name another --out DIR") from None


def open_folder(folder: Path, asked: Ablation, sets: Mapping[str, str] | None = None) -> None:
    """Begin an ablation in a folder, or go on with the one that is there.

    `sets` are what `read_sets` returns; without them no set is compared.

    Raises:
        ConfigError: the folder holds another ablation, runs of other settings or sets, or something else.
    """
    known = refuse_other_ablation(folder, asked)
    refuse_changed(asked.cells(folder))
    refuse_other_sets(folder, known, sets or {})
    record = asked.model_dump(mode="json") | {"sets": known | dict(sets or {})}
    with written_beside(folder / SPEC) as part:
        part.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def cell_of(folder: Path, name: str) -> tuple[Ablation, Cell]:
    """The ablation that a folder holds, and its run of that name."""
    ablation = Ablation.model_validate(read_json(folder / SPEC))
    return ablation, next(cell for cell in ablation.cells(folder) if cell.run.name == name)


def refuse_other_ablation(folder: Path, asked: Ablation) -> dict[str, str]:
    """The sets that the ablation in a folder was begun with. Seeds and sets of `also_on` may come and go.

    Raises:
        ConfigError: the folder holds another ablation, or something else.
    """
    file = folder / SPEC
    if not file.exists():
        if folder.exists() and (not folder.is_dir() or any(path.name[0] != "." for path in folder.iterdir())):
            raise ConfigError(f"{folder} is there already and holds no ablation; name another --out DIR")
        return {}
    try:
        there = Ablation.model_validate(read_json(file))
    except ValidationError as error:
        raise ConfigError(f"{file} is no ablation ({error.errors()[0]['msg']}); name another --out DIR") from None
    free = {"seeds", "also_on", "sets", *(() if any(folder.glob("*/evaluation/*")) else ("evaluation",))}
    written, wanted = (each.model_dump(mode="json", exclude=free) for each in (there, asked))
    apart = [key for key in written if written[key] != wanted[key]]
    if list(there.varied) != list(asked.varied):  # their order numbers the variants
        apart.append("varied")
    if apart:
        raise ConfigError(
            f"{folder} holds another ablation: {apart[0]} is {getattr(there, apart[0])!r} there; repeat its own "
            "command (seeds and --also-on may differ), or name another --out DIR"
        )
    return there.sets


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


def refuse_alike(ablation: Ablation) -> None:
    """Raises ConfigError where two variants are one config, or a varied setting changes nothing in any of them."""
    variants = ablation.variants()
    configs = {variant.number: ablation.config(variant, ablation.first_seed) for variant in variants}
    seen: list[tuple[dict[str, object], Variant]] = []
    for variant in variants:
        settings = leaves(configs[variant.number].model_dump(mode="json", exclude={"name"}))
        twin = next((other for those, other in seen if those == settings), None)
        if twin is not None:
            raise ConfigError(f"variants {twin.name} and {variant.name} are one and the same config; leave one out")
        seen.append((settings, variant))
    for key in (key for key in ablation.varied if key != PRESET):
        compared = [variants[0], *(v for v in variants if v.settings[key] != variants[0].settings[key])]
        reasons = [_reason(key, configs[v.number]) for v in (compared if ablation.one_at_a_time else variants)]
        if all(reasons):
            raise ConfigError(f"{ablation.typed(key)} changes nothing in these trainings: {reasons[0]}; leave it out")


def _reason(key: str, config: Config) -> str | None:
    """Why a setting changes nothing; None where it does, or where it is not about training."""
    return unused(config).get(key)


def read_sets(ablation: Ablation) -> dict[str, str]:
    """SHA-256 of every split that the runs read, as it is on this machine now, by its folder and name.

    Raises:
        DatasetError: one is missing or damaged.
    """
    base = ablation.config(ablation.variants()[0], ablation.first_seed)
    split = derive(base, ablation.evaluation).evaluation.split
    own = [(directory, name) for directory in base.data.directories for name in splits_of(directory)]
    read = dict.fromkeys([*own, *((directory, split) for directory in ablation.also_on)])
    return {f"{directory} {name}": PuzzleData(directory, name).fingerprint for directory, name in read}


def refuse_other_sets(folder: Path, recorded: Mapping[str, str], now: Mapping[str, str]) -> None:
    """Raises ConfigError where a set is not the one that the ablation in a folder was begun with."""
    other = next((name for name, digest in recorded.items() if now.get(name, digest) != digest), None)
    if other is not None:
        directory, _, split = other.rpartition(" ")
        raise ConfigError(
            f"{folder} was begun with another set than the {split} split there now, of {directory}: runs of both are "
            "no ablation; put that set back, or name another --out DIR"
        )


def refuse_unreadable_runs(ablation: Ablation) -> None:
    """Raises ConfigError where a variant will not have the weights, the checkpoint or the split to evaluate."""
    for variant in ablation.variants():
        config = ablation.config(variant, ablation.first_seed)
        settings, monitor = derive(config, ablation.evaluation).evaluation, config.training.monitor
        own = config.data.directories
        if settings.weights == "ema" and config.ema.decay is None:
            raise ConfigError(f"evaluation.weights=ema: {variant.name} keeps no EMA (ema.decay=none); leave it out")
        watched = monitor.puzzles > 0 and any("validation" in splits_of(directory) for directory in own)
        if settings.checkpoint == "best" and not watched:
            raise ConfigError(
                f"evaluation.checkpoint=best: nothing chooses it for {variant.name}, with training.monitor.puzzles="
                f"{monitor.puzzles} and the splits {', '.join(splits_of(own[0]))}; type evaluation.checkpoint=newest"
            )
        for directory in [own[0], *ablation.also_on]:
            if settings.split not in (there := splits_of(directory)):
                raise ConfigError(f"evaluation.split={settings.split}: {directory} has {', '.join(there)}")
