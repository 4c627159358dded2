"""The package's models for the page: graphs/NAME.json has the ONNX graphs without weights, which are in the package.

python -m reason.extensions.play.shipped      export the graphs again (make graphs): needs the extra `onnx`, and minutes
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file

from reason.extensions.play.page import FAMILIES, Model, exported, text_of
from reason.files import published, read_json
from reason.pretrained import FOLDER, card, pretrained_models

GRAPHS = Path(__file__).parent / "graphs"
SMALL = 64  # bytes; shorter weights stay in the graph
Hole = tuple[int, str, bool]  # position of a weight in the rest, name, whether it is transposed


def shown() -> list[str]:
    """Return the models of the package for whose puzzles the page has rules."""
    families = {name: card(name)["task"]["name"] for name in pretrained_models()}
    return sorted((name for name in families if families[name] in FAMILIES), key=lambda n: FAMILIES.index(families[n]))


def shipped(name: str) -> Model:
    """Return a model of the package for the page."""
    model, weights = read_json(GRAPHS / f"{name}.json"), load_file(weights_of(name))
    files = {
        graph: filled(gzip.decompress(base64.b64decode(kept["rest"])), kept["holes"], weights)
        for graph, kept in model["files"].items()
    }
    return dict(model) | {"summary": card(name)["summary"], "files": files}


def weights_of(name: str) -> Path:
    """Return the file of a model's weights."""
    (path,) = (FOLDER / name).glob("checkpoints/*/weights.safetensors")
    return path


def made_from(name: str) -> str:
    """Return the SHA-256 of the files that a model's graphs depend on."""
    files = FOLDER / name / "config.json", weights_of(name)
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


def cut(graph: bytes, weights: Mapping[str, np.ndarray]) -> tuple[bytes, list[Hole]]:
    """Remove the weights from an ONNX file; return the rest, and the position of each weight."""
    positions = {}
    for name, array in weights.items():
        for transposed in (True, False):
            piece = _bytes(array, transposed)
            if len(piece) >= SMALL and (at := graph.find(piece)) >= 0:
                positions[at] = at + len(piece), name, transposed
    rest, holes, last = b"", [], 0
    for at, (end, name, transposed) in sorted(positions.items()):
        rest += graph[last:at]
        holes.append((len(rest), name, transposed))
        last = end
    return rest + graph[last:], holes


def filled(rest: bytes, holes: Sequence[Hole], weights: Mapping[str, np.ndarray]) -> bytes:
    """Invert `cut`: put the weights back into the rest of an ONNX file."""
    parts, last = [], 0
    for at, name, transposed in holes:
        parts += [rest[last:at], _bytes(weights[name], transposed)]
        last = at
    return b"".join([*parts, rest[last:]])


def _bytes(array: np.ndarray, transposed: bool) -> bytes:
    """Return a weight as stored in the graphs."""
    return (array.T if transposed else array).astype("<f4").tobytes()


def described(name: str) -> dict[str, Any]:
    """Export a model and return the content of graphs/NAME.json."""
    from reason.config.overrides import read_config  # torch, which the page does not need

    model = exported(FOLDER / name, read_config(FOLDER / name / "config.json"), name)
    weights, files = load_file(weights_of(name)), {}
    for graph, content in model["files"].items():
        rest, holes = cut(content, weights)
        assert filled(rest, holes, weights) == content
        files[graph] = {"rest": text_of(gzip.compress(rest, 9, mtime=0)), "holes": holes}
    return model | {"files": files, "made_from": made_from(name)}


if __name__ == "__main__":
    for each in shown():
        with published(GRAPHS / f"{each}.json", replace=True) as file:
            file.write_text(json.dumps(described(each)) + "\n", encoding="utf-8")
