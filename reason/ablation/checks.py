"""What an ablation is refused for before it trains: variants that do not differ, sets that have changed."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from datasets_gen.layout import Metadata, read_metadata, splits_of
from reason.ablation.study import PRESET, Ablation, Cell, Variant
from reason.config.describe import unused
from reason.config.overrides import leaves, override
from reason.config.schema import Config
from reason.data import task_of
from reason.data.puzzles import PuzzleData, shape_of
from reason.errors import ConfigError
from reason.machine.memory import fake_model
from reason.nn.dtypes import Dtypes
from reason.runs.directory import read_record
from reason.runs.sets import fingerprints_of, load_monitor_sets, load_training_set
from reason.settings.base import Elsewhere


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
            values = ",".join(ablation.varied[key])
            raise ConfigError(f"{key}={values} changes nothing in these trainings: {reasons[0]}; leave it out")


def _reason(key: str, config: Config) -> str | None:
    """Why a setting changes nothing; None where it does, or where it is not about training."""
    why = unused(config).get(key)
    return None if isinstance(why, Elsewhere) else why


def refuse_alike_on_sets(ablation: Ablation) -> None:
    """Raises ConfigError where what is varied changes nothing on these sets: augmentation, or a width that is rounded.

    Raises:
        DatasetError: a dataset.json is missing or wrong.
    """
    configs = [ablation.config(variant, ablation.first_seed) for variant in ablation.variants()]
    sets = [read_metadata(directory, "train") for directory in configs[0].data.directories]
    if "data.augment" in ablation.varied:
        symmetries = [None if (puzzle := task_of(each)) is None else puzzle.symmetry for each in sets]
        if not any(symmetry is not None and symmetry.keeps_label for symmetry in symmetries):
            raise ConfigError(
                f"data.augment={','.join(ablation.varied['data.augment'])} changes nothing in these trainings: the set "
                "has no symmetry that keeps its labels; leave it out"
            )
    if list(ablation.varied) == ["model.expansion"]:
        sizes = set()
        for config in configs:
            with fake_model(config, shape_of(sets[0]), Dtypes(torch.float32, None), "cpu") as model:
                sizes.add(model.parameter_count())
        if len(sizes) == 1:
            raise ConfigError(
                f"model.expansion={','.join(ablation.varied['model.expansion'])} changes nothing in these trainings: "
                "gated MLPs raise their inner width to a multiple of 256, here to the same one; vary it further"
            )


def refuse_other_sets(cells: Iterable[Cell]) -> None:
    """Raises ConfigError where runs were begun with different sets, or with another set than is there now.

    Splits that only some of the variants read, to choose their best checkpoints, are compared among those.
    """
    begun = [cell for cell in cells if (cell.run / "config.json").exists()]
    if not begun:
        return
    data = load_training_set(begun[0].config, torch.device("cpu"))
    first = {
        split: (f"the {split} split there now, of {data.directory}", digest)
        for split, digest in fingerprints_of([*data.parts, *load_monitor_sets(begun[0].config, data)]).items()
    }
    for cell in begun:
        for split, digest in read_record(cell.run)["training_set"].items():
            where, known = first.setdefault(split, (f"the {split} split of {cell.run}", digest))
            if digest != known:
                raise ConfigError(
                    f"{cell.run} was begun with another set than {where}: runs of both are no ablation; put its set "
                    "back, or name another --out DIR"
                )


def refuse_other_readings(ablation: Ablation, cells: list[Cell]) -> None:
    """Raises ConfigError where a run was evaluated on other puzzles than the remaining ones would be.

    Evaluations of versions that recorded no fingerprint are taken as they are.
    """
    own, split = cells[0].config.data.directories[0], override(cells[0].config, ablation.evaluation).evaluation.split
    for name, directory in zip(ablation.evaluations(), [own, *ablation.also_on], strict=True):
        known = [(cell.run, r["fingerprint"]) for cell in cells if (r := cell.results(name)) and r["fingerprint"]]
        if not known or len(known) == len(cells):
            continue
        now = PuzzleData(directory, split).fingerprint
        for run, digest in known:
            if digest != now:
                raise ConfigError(
                    f"{run} was evaluated on another set than the {split} split there now, of {directory}: figures of "
                    f"both are no ablation; put that set back, or remove {run / 'evaluation' / name} to evaluate again"
                )


def refuse_unreadable_sets(ablation: Ablation) -> None:
    """Raises ConfigError where a variant could not be evaluated once it is trained, as far as metadata says.

    Raises:
        DatasetError: a dataset.json is missing or wrong.
    """
    for variant in ablation.variants():
        config = ablation.config(variant, ablation.first_seed)
        settings, monitor = override(config, ablation.evaluation).evaluation, config.training.monitor
        own = config.data.directories
        if settings.weights == "ema" and config.ema.decay is None:
            raise ConfigError(f"evaluation.weights=ema: {variant.name} keeps no EMA (ema.decay=none); leave it out")
        watched = monitor.puzzles > 0 and any(monitor.split in splits_of(directory) for directory in own)
        if settings.checkpoint == "best" and not watched:
            raise ConfigError(
                f"evaluation.checkpoint=best: nothing chooses it for {variant.name}, with training.monitor.puzzles="
                f"{monitor.puzzles} and the splits {', '.join(splits_of(own[0]))}; type evaluation.checkpoint=newest"
            )
        trained = [read_metadata(directory, "train") for directory in own]
        for directory in [own[0], *ablation.also_on]:
            if settings.split not in (there := splits_of(directory)):
                raise ConfigError(f"evaluation.split={settings.split}: {directory} has {', '.join(there)}")
            read = read_metadata(directory, settings.split)
            if read.total_groups == 0:
                raise ConfigError(f"the {settings.split} split of {directory} is empty; name another evaluation.split")
            _refuse_other_puzzles(config, trained, read, directory, variant)


def _refuse_other_puzzles(
    config: Config, trained: list[Metadata], read: Metadata, directory: str, variant: Variant
) -> None:
    """Raises ConfigError where a set is of another family than the trained ones, or of a size that no variant reads."""
    for key in ("name", "causal"):
        was, now = trained[0].task.get(key), read.task.get(key)
        if trained[0].task and read.task and was != now:
            raise ConfigError(
                f"{directory} holds puzzles of {key} {now}, the runs are trained on {key} {was}: name a set of their "
                "kind with --also-on"
            )
    shapes, shape = [shape_of(metadata) for metadata in trained], shape_of(read)
    if shape in shapes:
        return
    with fake_model(config, shapes[0], Dtypes(torch.float32, None), "cpu") as model:
        for other in shapes[1:]:
            if model.reads(other):
                model.add_shape(other)
        if not model.reads(shape):
            raise ConfigError(
                f"{directory} has {shape}, {variant.name} is built for {shapes[0]}: name a set of its shape, or a "
                "preset that reads any size"
            )
