"""Other measures than exact accuracy for comparing runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple


class Measure(NamedTuple):
    """A list by step in results.json; less is better."""

    name: str
    form: str  # of its numbers as text


MEASURES: dict[str, Measure] = {}  # by the key of the list; extensions add theirs in settings.py
EXACT = Measure("exact", ".1%")  # of what has no entry in MEASURES; more is better


def shared_measures(evaluations: Sequence[Any]) -> list[str]:
    """Return the keys of the measures that all evaluations have."""
    return [key for key in MEASURES if evaluations and all(key in results for results in evaluations)]
