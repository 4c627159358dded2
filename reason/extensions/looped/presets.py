"""The presets of STARS, Ouro and the readout blind spot, and a looped transformer on 6×6 Sudoku."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from datasets_gen.plugins import extensions
from reason.presets import MADE, add_papers


def _text(options: Mapping[str, Any]) -> Any:
    """Return a text set of that size; a shape does not contain the words of the vocabulary."""
    from datasets_gen.extensions.text.puzzles import Text

    return Text(options["window"], "words", "\n".join(map(str, range(options["vocabulary"] - 3))))


if "text" in extensions():
    MADE["text"] = _text
add_papers(Path(__file__).parent, "stars", "blindspot", "ouro")
