"""Writes trained models as one HTML page that contains graphs, weights and ONNX Runtime Web."""

from __future__ import annotations

import base64
import dataclasses
import gzip
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from datasets_gen.puzzles import Puzzle
from reason.plugins import extension
from reason.report.html import environment, part
from reason.report.palette import css

if TYPE_CHECKING:
    from reason.config.schema import Config

FAMILIES = ("sudoku", "maze", "addition")  # that rules.js implements
EXAMPLES = 12  # puzzles of a run's set on the page
TITLES = {"sudoku": "Sudoku", "maze": "Maze", "addition": "Addition"}
Model = dict[str, Any]  # JSON, but `files`: the bytes of both ONNX graphs


def exported(run: Path, config: Config, name: str) -> Model:
    """Return a trained run for the page: its graphs, and its puzzle's shape, characters and symmetries."""
    onnx = extension("export", "onnx")
    from reason.solve import family_of_run

    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "onnx"
        exports = onnx.export_onnx(run, folder, config)
        graphs = {graph: (folder / f"{graph}.onnx").read_bytes() for graph in ("start", "step")}
    puzzle = family_of_run(run, config)
    rows, columns = puzzle.grid_shape
    family = puzzle.task["name"] if puzzle.task["name"] in FAMILIES else "plain"
    examples = puzzles_of(config.data.directories, puzzle, exports["constraints"]) if family == "plain" else []
    size = "" if rows == 1 or exports["any_size"] else f" {rows}×{columns}"
    symmetry = puzzle.symmetry
    return {
        "name": name,
        "title": f"{TITLES[family]}{size}" if family in TITLES else f"{puzzle.task['name']}{size}",
        "family": family,
        "task": puzzle.task,
        "rows": rows,
        "columns": columns,
        "box": puzzle.box_shape,
        "characters": puzzle.characters[: puzzle.vocab_size],
        "glyphs": puzzle.glyphs[: puzzle.vocab_size].replace("_", " ").replace("§", " "),
        "fills": puzzle.colours,
        "groups": puzzle.structure.groups,
        "symbols": puzzle.structure.symbols,
        "symmetry": None if symmetry is None else dataclasses.asdict(symmetry),
        "files": graphs,
        **({"puzzles": examples, "constraints": exports["constraints"]} if examples else {}),
        **{key: exports[key] for key in ("any_size", "parameters", "trained_steps", "state", "drawn", "graphs")},
    }  # fmt: skip


def puzzles_of(sets: Sequence[str], puzzle: Puzzle, constraints: Mapping[str, list[int]]) -> list[dict[str, Any]]:
    """Return the first puzzles of a set: tokens, drawing, the only answer if there is one, and inputs of the graph."""
    import torch

    onnx = extension("export", "onnx")
    if (data := onnx.unseen_of(sets)) is None:
        return []
    batch = data.take(torch.arange(min(EXAMPLES, len(data))))
    drawn = [None] * len(data) if data.instances is None else data.instances
    return [
        {
            "tokens": tokens.tolist(),
            "drawing": puzzle.draw(tokens.numpy(), None, drawn[n]),
            "answer": None if puzzle.multiple_solutions else batch.labels[n].tolist(),
            "relations": {name: batch.relations[onnx.number_of(name)][n].flatten().tolist() for name in constraints},
        }
        for n, tokens in enumerate(batch.inputs)
    ]


def text_of(content: bytes) -> str:
    """Encode bytes for the JSON of the page (base64)."""
    return base64.b64encode(content).decode()


def play_page(models: Sequence[Model], script: str, binary: bytes) -> str:
    """Return the page; `script` and `binary`: see `runtime`. Models with one title are distinguished by their names."""
    package, seen = "reason.extensions.play", Counter(model["title"] for model in models)
    told_apart = [
        model
        | {"files": {graph: text_of(gzip.compress(content, 1, mtime=0)) for graph, content in model["files"].items()}}
        | ({"title": f"{model['title']} ({model['name']})"} if seen[model["title"]] > 1 else {})
        for model in models
    ]
    worker = "\n".join([script, part(package, "random.js", "worker.js")])
    return (
        environment(package)
        .get_template("play.html")
        .render(
            style=Markup(css()) + part("reason.report", "page.css") + part(package, "play.css"),
            script=part("reason.report", "board.js") + part(package, "random.js", "rules.js", "thinker.js", "play.js"),
            runtime=text_of(binary),
            data={"models": told_apart, "worker": worker},
        )
    )
