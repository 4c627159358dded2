"""Results → one HTML page that needs no network: its style, its script and its numbers lie in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from markupsafe import Markup

from reason.report.chart import Chart, svg
from reason.report.html import as_json, environment, part
from reason.report.palette import css
from reason.report.section import Results, Section, Table, headline, interval, share

_ENVIRONMENT = environment("reason.report")


class Drawing(NamedTuple):
    """A chart on the page."""

    title: str
    svg: Markup
    small: bool


def drawn(charts: Sequence[Chart], name: str) -> list[Drawing]:
    """The charts of a plot, with ids that no other plot of the page has."""
    return [Drawing(chart.title, Markup(svg(chart, f"{name}-{i}")), chart.small) for i, chart in enumerate(charts)]


def page(results: Results, sections: Sequence[Section], drawings: Mapping[str, Sequence[Drawing]]) -> str:
    """The report of one evaluation; drawings by the name of their plot."""
    return _ENVIRONMENT.get_template("report.html").render(
        results=results,
        headline=headline(results),
        cards=cards(results),
        sections=[
            {
                "title": section.title,
                "drawings": [drawings[name] for name in section.charts if name in drawings],
                "tables": section.tables(results),
                "note": section.note(results),
                "precision": section.precision or results.get("precision"),
            }
            for section in sections
        ],
        provenance=provenance(results),
        boards=as_json(viewed(results["boards"])) if results.get("boards") and results["boards"]["puzzles"] else None,
        **_parts(),
    )


def comparison_page(title: str, tables: Sequence[Table], drawings: Sequence[Drawing], notes: Sequence[str]) -> str:
    """The page of several runs beside each other."""
    return _ENVIRONMENT.get_template("comparison.html").render(
        title=title, tables=tables, drawings=drawings, notes=notes, **_parts()
    )


def _parts() -> dict[str, Markup]:
    return {
        "style": Markup(css()) + part("reason.report", "page.css"),
        "script": part("reason.report", "board.js", "boards.js"),
    }


def cards(results: Results) -> list[tuple[str, str, str]]:
    """(what, figure, remark): the few numbers that a reader wants first."""
    trained, steps, count = min(results["trained_steps"], results["steps"]), results["steps"], results["puzzles"]
    exact = results["exact_by_step"]
    found = [(f"exact at step {trained}", share(exact[trained - 1]), interval(exact[trained - 1], count))]
    if steps != trained:
        found.append((f"exact at step {steps}", share(exact[-1]), interval(exact[-1], count)))
    if trained != 1:
        found.append(("exact at step 1", share(exact[0]), interval(exact[0], count)))
    valid = (results.get("valid_by_step") or exact)[-1]
    if valid != exact[-1]:
        found.append((f"rules hold at step {steps}", share(valid), interval(valid, count)))
    found.append((f"cells at step {steps}", share(results["cell_by_step"][-1]), f"{count:,} puzzles"))
    return found


def provenance(results: Results) -> list[str]:
    """Where the figures come from, in sentences."""
    r = results
    model = f"Run {r['run']}, of preset {r['preset']}, has {r['parameters']:,} parameters"
    left_out = f" {r['unscored']:,} puzzles without a label were left out." if r.get("unscored") else ""
    said = [
        f"{model}. These are its {r['weights']} weights after optimizer step {r['checkpoint_step']:,}; training took "
        f"{r['trained_steps']} supervision steps a puzzle.",
        f"They were read on {r['puzzles']:,} puzzles of the {r['split']} split of {r['dataset']} (SHA-256 "
        f"{r['fingerprint']}), {r['steps']} supervision steps each, in {r['precision']} on {r['device']}, by version "
        f"{r['version']}.{left_out}",
    ]
    changed = ", ".join(f"{key}={value}" for key, value in r.get("settings", {}).items())
    return [*said, f"Settings of the evaluation: {changed}."] if changed else said


def viewed(boards: Mapping[str, Any]) -> dict[str, Any]:
    """Boards for the viewer: of every step only the cells that change, [cell, token, cell, token, …]."""
    puzzles = []
    for puzzle in boards["puzzles"]:
        before, changes = puzzle["question"], []
        for answer in puzzle["answers"]:
            pairs = [(i, new) for i, (old, new) in enumerate(zip(before, answer, strict=True)) if old != new]
            changes.append([number for pair in pairs for number in pair])
            before = answer
        puzzles.append({key: puzzle[key] for key in puzzle if key != "answers"} | {"changes": changes})
    return {**boards, "puzzles": puzzles}
