"""What sharing keys and values between loops costs and saves."""

from __future__ import annotations

from collections.abc import Callable

from matplotlib.axes import Axes

from reason.report.chart import Chart
from reason.report.palette import BLUE, ORANGE
from reason.report.section import Results, Section, Table, number, share


def _ways(results: Results) -> list[str]:
    return [f"{row['cache']}{', prompt kept' * row['keep_prompt']}" for row in results["caches"]]


def tables(results: Results) -> list[Table]:
    """A row for each way of sharing."""
    rows = [
        [way, share(row["exact"]), number(row["ce"], ".4f"), f"{row['bytes']:,.0f}", f"{row['prompt_bytes']:,.0f}"]
        for way, row in zip(_ways(results), results["caches"], strict=True)
    ]
    columns = ("keys and values", "exact", "CE (nats)", "bytes a text", "of a prompt")
    return [Table("greedy decoding with shared caches", columns, rows)]


def charts(results: Results) -> list[Chart]:
    """Exact beside memory."""
    ways, rows = _ways(results), results["caches"]

    def drawing(key: str, colour: str) -> Callable[[Axes], None]:
        def draw(axes: Axes) -> None:
            axes.barh(ways[::-1], [row[key] for row in rows][::-1], color=colour)
            axes.set_xlim(0, 1.02) if key == "exact" else None

        return draw

    exact = ", ".join(f"{way} {share(row['exact'])}" for way, row in zip(ways, rows, strict=True))
    memory = ", ".join(f"{way} {row['bytes']:,.0f}" for way, row in zip(ways, rows, strict=True))
    return [Chart("exact", exact, drawing("exact", BLUE)), Chart("bytes a text", memory, drawing("bytes", ORANGE))]


NOTE = """Each token is the likeliest after all loops. “per-loop” computes what reading the whole text anew would; the
others let all loops look at one set of keys and values. CE is of the right token in the model's own history."""

CACHES = Section(
    "caches",
    "Shared caches",
    tables,
    {"caches": charts},
    {"caches": lambda results: results["caches"]},
    lambda _: NOTE,
)
