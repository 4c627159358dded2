"""The blind-spot paper's tables 2, 3, 4, 5 and 12, Ouro's exits and caches, of evaluated runs, as Markdown.

python benchmarks/blindspot_tables.py runs/blindspot-small-*/evaluation/blind

Each argument is a folder that `python evaluate.py RUN name=blind evaluation.blind_spot=true [evaluation.caches=true]`
wrote.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

Row = dict[str, Any]


def table(title: str, found: dict[str, Row], columns: dict[str, Callable[[Row], str]]) -> None:
    print(f"\n{title}\n\n| run | {' | '.join(columns)} |\n|---|{'---|' * len(columns)}")
    for name, results in found.items():
        print(f"| {name} | {' | '.join(read(results) for read in columns.values())} |")


def at(loop: str, *keys: str, form: str = ".3g") -> Callable[[Row], str]:
    """A number of the blind-spot probes after loop 1, or after the last trained one."""

    def read(results: Row) -> str:
        spot = results["blind_spot"]
        value: Any = spot["by_loop"][0 if loop == "1" else spot["loops"] - 1]
        for key in keys:
            value = value[key]
        return format(value, form)

    return read


def clamped(mode: str, key: str, form: str) -> Callable[[Row], str]:
    return lambda results: format(results["blind_spot"]["clamp"][mode][key], form)


def sweep(index: int) -> Callable[[Row], str]:
    return lambda results: format(results["blind_spot"]["scale_sweep"][index]["ce"], ".3g")


def exact(loop: int) -> Callable[[Row], str]:
    return lambda results: format(results["exact_by_step"][loop - 1], ".1%")


def gap(results: Row) -> str:
    return format(results["blind_spot"]["ce_gap"], ".3g")


def main(folders: list[str]) -> None:
    found = {}
    for folder in map(Path, folders):
        results = json.loads((folder / "results.json").read_text())
        found[results["run"]] = results
    spots = {name: results for name, results in found.items() if "blind_spot" in results}
    norms = ("mean", "median", "p99", "max")
    table("Norms after the last trained loop (tables 2, 10)", spots, {n: at("K", "norm", n) for n in norms})
    table(
        "Radial part of the readout's gradient (table 3)",
        spots,
        {
            "r_1": at("1", "r", form=".1e"),
            "r_K": at("K", "r", form=".1e"),
            "random": lambda results: format(results["blind_spot"]["random_r"], ".1e"),
            "g_K": at("K", "g", form=".1e"),
        },
    )
    table(
        "Clamped scale (table 4), and the sweep",
        spots,
        {
            "ΔCE rescale": clamped("rescale", "delta_ce", "+.4f"),
            "norm ratio": clamped("rescale", "norm_ratio", ".2f"),
            "ΔCE subtract": clamped("subtract", "delta_ce", "+.4f"),
            "its ratio": clamped("subtract", "norm_ratio", ".2f"),
            "CE at α = 0.1": sweep(0),
            "CE at α = 1": sweep(10),
            "CE at α = 10": sweep(20),
        },
    )
    table(
        "Depth (tables 5, 11)",
        spots,
        {
            **{f"exact K = {k}": exact(k) for k in (1, 2, 3, 4)},
            "CE(1)": at("1", "ce"),
            "CE(4)": at("K", "ce"),
            "CE gap": gap,
        },
    )
    table(
        "Residual update after the last trained loop (table 12)",
        spots,
        {key: at("K", key) for key in ("a_rad", "scale_step", "b_perp", "angular", "b", "ratio")},
    )
    for name, results in found.items():
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
                name = f"{row['cache']}{', prompt kept' * row['keep_prompt']}"
                print(f"| {name} | {row['exact']:.1%} | {row['ce']:.4f} | {row['bytes']:.0f} |")


if __name__ == "__main__":
    main(sys.argv[1:])
