"""Votes of augmented copies."""

from __future__ import annotations

from typing import Any

from reason.report.section import Results, Section, Table, share


def records(results: Results) -> list[dict[str, Any]]:
    """A line for each scored step."""
    return [
        {"step": row["step"]}
        | {f"pass_{k}": value for k, value in row["pass_at"].items()}
        | {"tasks": row["tasks"], "unanswered": row["unanswered"]}
        for row in results["votes"]
    ]


def tables(results: Results) -> list[Table]:
    """pass@K by step."""
    attempts = list(results["votes"][0]["pass_at"])
    rows = [
        [str(row["step"]), *(share(row["pass_at"][k]) for k in attempts), str(row["tasks"]), str(row["unanswered"])]
        for row in results["votes"]
    ]
    return [Table("votes", ("step", *(f"pass@{k}" for k in attempts), "tasks", "unanswered"), rows)]


NOTE = """Every copy's answer is turned back and has one vote; pass@K: the mean over tasks of the share of test inputs
whose output is among the K answers with most votes. Unanswered inputs count as wrong."""

VOTES = Section("votes", "Votes of augmented copies", tables, records={"votes": records}, note=lambda _: NOTE)
