"""What an ablation is refused for before it trains: variants that do not differ, sets that have changed."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from reason.config.inert import inert
from reason.config.overrides import leaves
from reason.config.schema import Config
from reason.errors import ConfigError
from reason.runs.ablation import PRESET, Ablation, Cell, Variant
from reason.runs.build import fingerprints_of, load_monitor_sets, load_training_set
from reason.runs.directory import read_record
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
    why = inert(config).get(key)
    return None if isinstance(why, Elsewhere) else why


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
