"""Trained models → one HTML page in which they compute: graphs, weights and ONNX Runtime Web lie in it."""

from __future__ import annotations

import base64
import dataclasses
import gzip
import hashlib
import json
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from reason.files import read_json, written_beside
from reason.pretrained import FOLDER, card, pretrained_models
from reason.report.html import as_json, environment, part
from reason.report.palette import css
from reason.version import __version__

if TYPE_CHECKING:
    from reason.config.schema import Config

BESIDE = Path(__file__).parent / "built"  # in a wheel: what `make play` left there
FAMILIES = ("sudoku", "maze", "addition", "arc")  # that rules.js reads
TITLES = {"sudoku": "Sudoku", "maze": "Maze", "addition": "Addition"}
Model = dict[str, Any]


def kept_in() -> Path:
    """Where runtime and graphs are kept: in the package where it can be written, else in the user's cache."""
    if BESIDE.is_dir() or os.access(BESIDE.parent, os.W_OK):
        return BESIDE
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "reason" / "play"


def shipped(folder: Path, told: Callable[[str], None]) -> list[Model]:
    """The models of the package that the page has rules for; what `folder` lacks is exported, `told` their names.

    Raises:
        ConfigError: a package of the extra `onnx` is missing.
    """
    names = [name for name in pretrained_models() if card(name)["task"]["name"] in FAMILIES]
    return [_kept(name, folder, told) for name in sorted(names, key=_order)]


def _order(name: str) -> tuple[int, str]:
    return FAMILIES.index(card(name)["task"]["name"]), name


def _kept(name: str, folder: Path, told: Callable[[str], None]) -> Model:
    """A model of the package, from `folder` where it was exported from the same files by the same version."""
    path, digest = folder / f"{name}.json", hashlib.sha256(__version__.encode())
    for file in sorted((FOLDER / name).rglob("*")):
        if file.is_file():
            digest.update(file.read_bytes())
    if path.exists() and (found := read_json(path)).get("made_from") == digest.hexdigest():
        return dict(found)
    from reason.config.overrides import read_config  # torch, which a page of exported models does without

    told(name)
    made = exported(FOLDER / name, read_config(FOLDER / name / "config.json"), name)
    made |= {"summary": card(name)["summary"], "made_from": digest.hexdigest()}
    folder.mkdir(parents=True, exist_ok=True)
    with written_beside(path) as file:
        file.write_text(json.dumps(made), encoding="utf-8")
    return made


def exported(run: Path, config: Config, name: str) -> Model:
    """A trained run as the page wants it: its graphs, its puzzle's shape, characters and symmetries.

    Raises:
        ConfigError: it cannot be exported, see `export_onnx`.
    """
    from reason.interop.onnx import export_onnx, first_state
    from reason.solve import family_of_run

    puzzle = family_of_run(run)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "onnx"
        exports = export_onnx(run, folder, config)
        packed = {
            graph: _text(gzip.compress((folder / f"{graph}.onnx").read_bytes(), 9, mtime=0))
            for graph in ("start", "step")
        }
    rows, columns = puzzle.grid_shape
    family = puzzle.task["name"] if puzzle.task["name"] in FAMILIES else "plain"
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
        "fills": puzzle.fills,
        "groups": puzzle.structure.groups,
        "symbols": puzzle.structure.symbols,
        "symmetry": None if symmetry is None else dataclasses.asdict(symmetry),
        "first": {name: _text(z.tobytes()) for name, z in (first_state(run, config) or {}).items()} or None,
        "files": packed,
        **{key: exports[key] for key in ("any_size", "parameters", "trained_steps", "state", "drawn", "graphs")},
    }  # fmt: skip


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode()


def play_page(models: Sequence[Model], script: str, binary: bytes) -> str:
    """The page; `script` and `binary`: see `runtime`. Models of one title are told apart by their names."""
    own, seen = "reason.play", Counter(model["title"] for model in models)
    told_apart = [m | {"title": f"{m['title']} ({m['name']})"} if seen[m["title"]] > 1 else m for m in models]
    worker = "\n".join([script, part(own, "random.js", "worker.js")])
    return (
        environment(own)
        .get_template("play.html")
        .render(
            style=Markup(css()) + part("reason.report", "page.css") + part(own, "play.css"),
            script=part("reason.report", "board.js") + part(own, "random.js", "rules.js", "thinker.js", "play.js"),
            runtime=_text(binary),
            data=as_json({"models": told_apart, "worker": worker}),
        )
    )
