"""What sharing keys and values between loops costs and saves."""

from __future__ import annotations

from matplotlib.figure import Figure

from reason.report.figure import BLUE, ORANGE
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


def plot(figure: Figure, results: Results) -> None:
    """Exact beside memory."""
    left, right = figure.subplots(1, 2, sharey=True)
    ways = _ways(results)[::-1]
    left.barh(ways, [row["exact"] for row in results["caches"]][::-1], color=BLUE)
    left.set(xlabel="exact", xlim=(0, 1.02))
    right.barh(ways, [row["bytes"] for row in results["caches"]][::-1], color=ORANGE)
    right.set(xlabel="bytes a text")


NOTE = """Each token is the likeliest after all loops. “per-loop” computes what reading the whole text anew would; the
others let all loops look at one set of keys and values. CE is of the right token in the model's own history."""

CACHES = Section(
    "caches",
    "Shared caches",
    tables,
    {"caches": plot},
    {"caches": lambda results: results["caches"]},
    lambda _: NOTE,
)
