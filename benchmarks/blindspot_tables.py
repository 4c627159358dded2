"""The blind-spot paper's tables 2, 3, 4, 5 and 12, Ouro's exits and caches, of evaluated runs, as Markdown.

python benchmarks/blindspot_tables.py runs/blindspot-small-*/evaluation/blind

Each argument is a folder that `python evaluate.py RUN name=blind evaluation.blind_spot=true [evaluation.caches=true]`
wrote. Runs whose configs differ in the seed alone make one row, mean ± standard deviation (n − 1) over the seeds.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

Results = dict[str, Any]
Column = tuple[Callable[[Results], float], str]  # what is read of an evaluation, and its format
UPDATE = ("a_rad", "scale_step", "b_perp", "angular", "b", "ratio")
SETTLED = 10  # table 12 averages over the loops from this one on


def by_config(folders: list[Path]) -> dict[str, list[Results]]:
    """Evaluations of one config, whatever its seed, under the preset's name; a second config of a preset adds a run's.

    Raises:
        ValueError: two evaluations of one run would count as two seeds.
    """
    groups: dict[str, list[Results]] = {}
    seen: set[str] = set()
    for folder in folders:
        config = json.loads((folder.parent.parent / "config.json").read_text())["config"]
        results = json.loads((folder / "results.json").read_text())
        key = json.dumps({name: config[name] for name in config if name not in ("seed", "device", "evaluation")})
        run = key + str(config["seed"])
        if run in seen:
            raise ValueError(f"{folder}: seed {config['seed']} of {results['preset']} was given before: give it once")
        seen.add(run)
        groups.setdefault(key, []).append(results)
    presets = [group[0]["preset"] for group in groups.values()]
    return {
        group[0]["preset"] + f" ({group[0]['run']})" * (presets.count(group[0]["preset"]) > 1): group
        for group in groups.values()
    }


def over_seeds(seeds: list[Results], column: Column) -> str:
    """The mean, and the standard deviation where there are several."""
    read, form = column
    values = [read(results) for results in seeds]
    mean = format(statistics.fmean(values), form)
    return mean if len(values) == 1 else f"{mean} ± {format(statistics.stdev(values), form.replace('+', ''))}"


def table(title: str, found: dict[str, list[Results]], columns: dict[str, Column]) -> None:
    """A row for every config."""
    print(f"\n{title}\n\n| run | seeds | {' | '.join(columns)} |\n|---|---|{'---|' * len(columns)}")
    for name, seeds in found.items():
        print(f"| {name} | {len(seeds)} | {' | '.join(over_seeds(seeds, column) for column in columns.values())} |")


def number(value: Any, *keys: str | int) -> float:
    """What stands at a place of the results; nan for null."""
    for key in keys:
        value = value[key]
    return math.nan if value is None else float(value)


def at(loop: str, *keys: str, form: str = ".3g") -> Column:
    """A number of the blind-spot probes after loop 1, or after the last trained one."""

    def read(results: Results) -> float:
        spot = results["blind_spot"]
        return number(spot["by_loop"][0 if loop == "1" else spot["loops"] - 1], *keys)

    return read, form


def settled(key: str) -> Column:
    """The mean over the loops from the tenth on that have a next one."""

    def read(results: Results) -> float:
        rows = results["blind_spot"]["by_loop"]
        return statistics.fmean(number(row, key) for row in rows if row["loop"] >= SETTLED and key in row)

    return read, ".3g"


def of(form: str, *keys: str | int) -> Column:
    """A number of the blind-spot probes by its place."""
    return lambda results: number(results["blind_spot"], *keys), form


def exact(loop: int) -> Column:
    """Exact accuracy at a depth."""
    return lambda results: float(results["exact_by_step"][loop - 1]), ".1%"


def main(folders: list[str]) -> None:
    """Print every table for which the evaluations hold the numbers."""
    found = by_config([Path(folder) for folder in folders])
    spots = {name: seeds for name, seeds in found.items() if all("blind_spot" in results for results in seeds)}
    norms = ("mean", "median", "p99", "max")
    table("Norms after the last trained loop (tables 2, 10)", spots, {n: at("K", "norm", n) for n in norms})
    table(
        "Radial part of the gradient of the readout (table 3), and of that of later ones (eq. 4)",
        spots,
        {
            "r_1": at("1", "r", form=".1e"),
            "r_K": at("K", "r", form=".1e"),
            "random": of(".1e", "random_r"),
            "g_K": at("K", "g", form=".1e"),
            "∂L_{K+1}/∂log s_K": at("K", "g_1", form=".1e"),
            "∂L_{K+4}/∂log s_K": at("K", "g_4", form=".1e"),
            "s_K": at("K", "scale"),
        },
    )
    table(
        "Clamped scale (table 4), and the sweep",
        spots,
        {
            "ΔCE rescale": of("+.4f", "clamp", "rescale", "delta_ce"),
            "norm ratio": of(".2f", "clamp", "rescale", "norm_ratio"),
            "ΔCE subtract": of("+.4f", "clamp", "subtract", "delta_ce"),
            "its ratio": of(".2f", "clamp", "subtract", "norm_ratio"),
            "CE at α = 0.1": of(".3g", "scale_sweep", 0, "ce"),
            "CE at α = 1": of(".3g", "scale_sweep", 10, "ce"),
            "CE at α = 10": of(".3g", "scale_sweep", 20, "ce"),
        },
    )
    table(
        "Depth (tables 5, 11)",
        spots,
        {
            **{f"exact K = {k}": exact(k) for k in (1, 2, 3, 4)},
            "CE(1)": at("1", "ce"),
            "CE(K)": at("K", "ce"),
            "CE gap": of(".3g", "ce_gap"),
        },
    )
    table("Residual update after the last trained loop", spots, {key: at("K", key) for key in UPDATE})
    table(f"Residual update, mean over loops k ≥ {SETTLED} (table 12)", spots, {key: settled(key) for key in UPDATE})
    for name, seeds in found.items():
        for results in seeds:
            exits_and_caches(name if len(seeds) == 1 else f"{name} ({results['run']})", results)


def exits_and_caches(name: str, results: Results) -> None:
    """Ouro's two tables, of one run."""
    if "exits" in results:
        exits = results["exits"]
        print(f"\n{name}: p(t) = {', '.join(format(p, '.3f') for p in exits['p'])}\n")
        print("| way | mean loops | exact | cell | CE |\n|---|---|---|---|---|")
        for kind, key in (("fixed", "loops"), ("gate", "quantile")):
            for row in exits[kind]:
                print(
                    f"| {kind} {key} {row[key]:g} | {row['mean_loops']:.2f} | {row['exact']:.1%} | "
                    f"{row['cell']:.2%} | {row['ce']:.4f} |"
                )
    if "caches" in results:
        print(f"\n{name}\n\n| cache | exact | CE | bytes a text |\n|---|---|---|---|")
        for row in results["caches"]:
            cache = f"{row['cache']}{', prompt kept' * row['keep_prompt']}"
            print(f"| {cache} | {row['exact']:.1%} | {row['ce']:.4f} | {row['bytes']:.0f} |")


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        sys.exit(__doc__)
    main(sys.argv[1:])
