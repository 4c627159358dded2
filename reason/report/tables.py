"""Results as tables: for the terminal and as CSV."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from io import StringIO
from typing import Any

from rich.console import Console
from rich.table import Table
from scipy.stats import binomtest

Results = Mapping[str, Any]


def wilson_interval(share: float, count: int) -> tuple[float, float]:
    """The 95 % Wilson interval of a share seen among `count` puzzles."""
    interval = binomtest(round(share * count), count).proportion_ci(0.95, method="wilson")
    return float(interval.low), float(interval.high)


def headline(results: Results) -> str:
    """'exact 94.2 % [92.6, 95.5] of 1000 puzzles at step 8 (trained), …' in one line."""
    exact, trained = results["exact_by_step"], min(results["trained_steps"], results["steps"])
    low, high = wilson_interval(exact[trained - 1], results["puzzles"])
    return (
        f"exact {exact[trained - 1]:.1%} (95 % interval {low:.1%} to {high:.1%}) at step {trained}, {exact[0]:.1%} at "
        f"step 1, {exact[-1]:.1%} at step {results['steps']}; {results['puzzles']} puzzles ({results['split']})"
    )


def shown_steps(results: Results, at_most: int = 20) -> list[int]:
    """Steps worth a table row: all of them when few, else 1, powers of two, the trained and the last one."""
    steps, trained = results["steps"], results["trained_steps"]
    if steps <= at_most:
        return list(range(1, steps + 1))
    return sorted({1, *(2**k for k in range(1, 20) if 2**k < steps), min(trained, steps), steps})


def share(value: float | None) -> str:
    """A share as per cent; '–' for none."""
    return "–" if value is None else f"{value:.1%}"


def interval(value: float, count: int) -> str:
    """The Wilson interval of a share in words."""
    low, high = wilson_interval(value, count)
    return f"{low:.1%} – {high:.1%}"


def step_rows(results: Results) -> list[list[str]]:
    """step, exact, interval, valid, cells, says halt, remark: the rows worth showing."""
    nothing = [None] * results["steps"]
    valid, halted = (results.get(f"{key}_by_step") or nothing for key in ("valid", "halted"))
    return [
        [
            str(step),
            share(results["exact_by_step"][step - 1]),
            interval(results["exact_by_step"][step - 1], results["puzzles"]),
            share(valid[step - 1]),
            share(results["cell_by_step"][step - 1]),
            share(halted[step - 1]),
            "← trained to here" if step == results["trained_steps"] else "",
        ]
        for step in shown_steps(results)
    ]


STEP_COLUMNS = ("step", "exact", "95 % interval", "rules hold", "cells", "says halt", "")


def table(results: Results) -> Table:
    """Accuracy by supervision step for the terminal."""
    return _view("accuracy by supervision step", STEP_COLUMNS, step_rows(results), left=(6,))


def difficulty_rows(results: Results) -> list[list[str]]:
    """bin, puzzles, exact at step 1, at the trained step and at the last one with its interval."""
    trained = min(results["trained_steps"], results["steps"])
    return [
        [
            row["bin"],
            str(row["puzzles"]),
            share(row["exact_by_step"][0]),
            share(row["exact_by_step"][trained - 1]),
            share(row["exact_by_step"][-1]),
            interval(row["exact_by_step"][-1], row["puzzles"]),
        ]
        for row in results["difficulty"]["bins"]
    ]


def difficulty_columns(results: Results) -> tuple[str, ...]:
    """What difficulty_rows holds."""
    trained = min(results["trained_steps"], results["steps"])
    return (
        results["difficulty"]["by"], "puzzles", "exact at step 1", f"at {trained}", f"at {results['steps']}",
        "95 % interval",
    )  # fmt: skip


POLICY_COLUMNS = ("policy", "threshold", "exact", "95 % interval", "rules hold", "mean steps", "p95", "seconds", "gain")


def policy_rows(results: Results) -> list[list[str]]:
    """One row a policy."""
    return [
        [
            row["name"],
            "never" if row["threshold"] is None else f"{row['threshold']:.4g}",
            share(row["exact"]),
            interval(row["exact"], results["policies"]["puzzles"]),
            share(row["valid"]),
            f"{row['mean_steps']:.2f}",
            f"{row['p95_steps']:.0f}",
            f"{row['seconds']:.2f}",
            f"{row['speedup']:.2f} ×",
        ]
        for row in results["policies"]["rows"]
    ]


RESTART_COLUMNS = ("varied", "tries", "majority", "highest q", "least residual", "any right", "verified by the rules")


def restart_rows(results: Results) -> list[list[str]]:
    """One row a variation and number of tries; `verified` last, since it needs the rules."""
    return [
        [kind, str(row["tries"])] + [share(row[key]) for key in ("majority", "q", "residual", "any", "verified")]
        for kind, section in results["restarts"].items()
        for row in section["rows"]
    ]


def end_rows(results: Results) -> list[list[str]]:
    """How the probed trajectories end: solved or failed, the end's name, how many."""
    counts: dict[tuple[str, str], int] = {}
    for puzzle in results["dynamics"]["puzzles"]:
        key = ("solved" if puzzle["solved"] else "failed", puzzle["end"])
        counts[key] = counts.get(key, 0) + 1
    return [[state, end, str(count)] for (state, end), count in sorted(counts.items(), reverse=True)]


def print_tables(results: Results, console: Console) -> None:
    """Every section that was asked for."""
    console.print(table(results))
    if results.get("difficulty"):
        console.print(_view("by difficulty", difficulty_columns(results), difficulty_rows(results)))
    if results.get("policies"):
        title = f"stopping policies, calibrated on {results['policies']['calibrated_on']}"
        console.print(_view(title, POLICY_COLUMNS, policy_rows(results)))
    if results.get("restarts"):
        console.print(_view("more than one try: exact", RESTART_COLUMNS, restart_rows(results)))
    if results.get("dynamics"):
        console.print(_view("how the probed trajectories end", ("puzzle", "end", "count"), end_rows(results), (0, 1)))


def _view(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], left: Sequence[int] = (0,)) -> Table:
    view = Table(title=title, title_justify="left")
    for index, column in enumerate(columns):
        view.add_column(column, justify="left" if index in left else "right")
    for row in rows:
        view.add_row(*row)
    return view


def csv_files(results: Results) -> dict[str, str]:
    """{file name without its end: text}: shares in [0, 1], empty where there is none."""
    files = {"accuracy_by_step": _csv(_step_records(results))}
    if results.get("difficulty"):
        files["difficulty"] = _csv(_difficulty_records(results))
    if results.get("policies"):
        files["policies"] = _csv(results["policies"]["rows"])
    if results.get("restarts"):
        records = [{"varied": kind, **row} for kind, part in results["restarts"].items() for row in part["rows"]]
        files["restarts"] = _csv(records)
    if results.get("dynamics"):
        files["dynamics"] = _csv(_dynamics_records(results))
    return files


def _step_records(results: Results) -> list[dict[str, Any]]:
    records = []
    for index, exact in enumerate(results["exact_by_step"]):
        low, high = wilson_interval(exact, results["puzzles"])
        record = {"step": index + 1, "exact": exact, "exact_low": low, "exact_high": high}
        record["cell"] = results["cell_by_step"][index]
        for key in ("halted", "valid", "loss", "residual"):
            if results.get(f"{key}_by_step"):
                record[key] = results[f"{key}_by_step"][index]
        for key in ("auc", "ece"):
            if results.get("halting"):
                record[key] = results["halting"][f"{key}_by_step"][index]
        records.append(record)
    return records


def _difficulty_records(results: Results) -> list[dict[str, Any]]:
    records = []
    for row in results["difficulty"]["bins"]:
        for index, exact in enumerate(row["exact_by_step"]):
            low, high = wilson_interval(exact, row["puzzles"])
            record = {"bin": row["bin"], "puzzles": row["puzzles"], "step": index + 1, "exact": exact}
            valid = row["valid_by_step"]
            records.append(record | {"exact_low": low, "exact_high": high, "valid": valid and valid[index]})
    return records


def _dynamics_records(results: Results) -> list[dict[str, Any]]:
    return [
        {
            "example": puzzle["example"],
            "solved": int(puzzle["solved"]),
            "end": puzzle["end"],
            "step": step,
            "residual": puzzle["residual"][step - 1] if step else None,
            "norm": puzzle["norm"][step],
            "plane_1": puzzle["plane"][step][0],
            "plane_2": puzzle["plane"][step][1],
        }
        for puzzle in results["dynamics"]["puzzles"]
        for step in range(len(puzzle["norm"]))
    ]


def _csv(records: Sequence[Mapping[str, Any]]) -> str:
    out = StringIO()
    writer = csv.DictWriter(out, list(records[0]) if records else [], lineterminator="\n")
    writer.writeheader()
    for record in records:
        writer.writerow({key: f"{value:.6g}" if isinstance(value, float) else value for key, value in record.items()})
    return out.getvalue()
