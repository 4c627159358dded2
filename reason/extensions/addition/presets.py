"""Presets of sums with blank answers, and the shapes of sums."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from datasets_gen.extensions.addition.puzzles import Addition
from reason.presets import MADE, add_papers


def _sums(options: Mapping[str, Any]) -> Addition:
    reverse, causal = (not options.get(name, False) for name in ("no_reverse", "blank_answer"))
    return Addition(options["digits"], reverse=reverse, zero_pad=options.get("zero_pad", False), causal=causal)


MADE["addition"] = _sums
add_papers(Path(__file__).parent, "addition")
