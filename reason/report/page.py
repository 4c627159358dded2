"""Results → one HTML page that needs no network: style, script, charts and numbers are part of the file."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence

from markupsafe import Markup

from reason.report.chart import Chart, svg
from reason.report.html import environment, part
from reason.report.palette import css
from reason.report.section import Results, Section, Table, headline


def image(chart: Chart) -> str:
    """Return the chart as the address of an <img>."""
    return f"data:image/svg+xml;base64,{b64encode(svg(chart).encode()).decode()}"


_ENVIRONMENT = environment("reason.report")
_ENVIRONMENT.filters["image"] = image


def page(results: Results, sections: Sequence[Section], charts: Mapping[str, Sequence[Chart]]) -> str:
    """Return the report of one evaluation; charts by the name of their plot."""
    boards = results.get("boards")
    return _ENVIRONMENT.get_template("report.html").render(
        results=results,
        headline=headline(results),
        sections=[
            {
                "title": section.title,
                "plots": [charts[name] for name in section.charts if name in charts],
                "tables": section.tables(results),
                "note": section.note(results),
                "precision": section.precision or results.get("precision"),
            }
            for section in sections
        ],
        provenance=provenance(results),
        boards=boards if boards and boards["puzzles"] else None,
        **_parts(),
    )


def comparison_page(title: str, tables: Sequence[Table], charts: Sequence[Chart], notes: Sequence[str]) -> str:
    """Return the page that compares several runs."""
    return _ENVIRONMENT.get_template("comparison.html").render(
        title=title, tables=tables, plot=charts, notes=notes, **_parts()
    )


def _parts() -> dict[str, Markup]:
    return {
        "style": Markup(css()) + part("reason.report", "page.css"),
        "script": part("reason.report", "board.js", "boards.js"),
    }


def provenance(results: Results) -> list[str]:
    """Return the provenance of the figures, in sentences."""
    r = results
    sentences = [
        f"Run {r['run']}, of preset {r['preset']}, has {r['parameters']:,} parameters. Its {r['weights']} weights "
        f"after optimizer step {r['checkpoint_step']:,} were evaluated; it was trained for {r['trained_steps']} steps.",
        f"The evaluation used {r['puzzles']:,} puzzles of the {r['split']} split of {r['dataset']} (SHA-256 "
        f"{r['fingerprint']}), {r['steps']} supervision steps each, in {r['precision']} on {r['device']}, by version "
        f"{r['version']}.",
    ]
    if r.get("unscored"):
        sentences.append(f"{r['unscored']:,} puzzles without a label were left out.")
    if changed := ", ".join(f"{key}={value}" for key, value in r.get("settings", {}).items()):
        sentences.append(f"Settings of the evaluation: {changed}.")
    return sentences
