"""More than one try."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from reason.report.figure import COLOURS
from reason.report.section import Results, Section, Table, share

WAYS = {  # of choosing among tries; the last needs the rules
    "majority": "majority",
    "q": "highest q",
    "residual": "least residual",
    "any": "any right",
    "verified": "verified by the rules",
}


def records(results: Results) -> list[dict[str, Any]]:
    """A line for every variation and number of tries."""
    return [{"varied": kind, **row} for kind, section in results["restarts"].items() for row in section["rows"]]


def tables(results: Results) -> list[Table]:
    """One row a variation and number of tries."""
    rows = [[row["varied"], str(row["tries"]), *(share(row[way]) for way in WAYS)] for row in records(results)]
    return [Table("more than one try: exact", ("varied", "tries", *WAYS.values()), rows)]


def plot(figure: Figure, results: Results) -> None:
    """Exact against the number of tries, a panel for every variation."""
    kinds = results["restarts"]
    panels = np.atleast_1d(figure.subplots(1, len(kinds), sharey=True))
    for axes, (kind, section) in zip(panels, kinds.items(), strict=True):
        for (key, label), colour in zip(WAYS.items(), COLOURS, strict=False):
            rows = [row for row in section["rows"] if row[key] is not None]
            style = "--" if key in ("any", "verified") else "-"
            exact = [row[key] for row in rows]
            axes.plot([row["tries"] for row in rows], exact, style, marker="o", ms=3, color=colour, label=label)
        axes.set(xscale="log", xlabel="tries", title=kind)
        axes.set_xticks([row["tries"] for row in section["rows"]], [str(row["tries"]) for row in section["rows"]])
        axes.minorticks_off()
        axes.grid(alpha=0.25)
    panels[0].set_ylabel("exact")
    panels[-1].legend(fontsize="x-small")


NOTE = """The first try is the plain pass. “Verified” takes the first answer that obeys the rules; the columns before it
use neither rules nor labels, save “any right”, the share that no choice can exceed."""

RESTARTS = Section("restarts", "More than one try", tables, {"restarts": plot}, {"restarts": records}, lambda _: NOTE)
