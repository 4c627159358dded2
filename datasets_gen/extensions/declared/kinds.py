"""Puzzles of random constraints, for networks that learn constraints rather than puzzles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from datasets_gen.extensions.declared.puzzle import Drawn

Some = Callable[[int, int], tuple[list[Any], np.ndarray]]  # (fewest, most) -> so many random cells and their values
EACH = 3  # constraints of a kind for each cell


def of_kinds(
    x: Any,
    rng: np.random.Generator,
    answer: np.ndarray,
    kinds: Sequence[Callable[[Some], Any]],
    count: int,
    wall: int | None = None,
) -> Drawn:
    """Return a puzzle whose clues are digits of `answer` (S,) and constraints of `count` kinds; walls are shown.

    A kind returns a constraint on `some(fewest, most)` cells that the answer satisfies, or None if there is none.
    """
    cells = [*x.flat]

    def some(fewest: int, most: int) -> tuple[list[Any], np.ndarray]:
        chosen = rng.choice(x.size, rng.integers(fewest, most + 1), replace=False)
        return [cells[i] for i in chosen], answer[chosen]

    chosen = [kinds[i] for i in rng.choice(len(kinds), count, replace=False)]
    drawn = [kind(some) for kind in chosen for _ in range(EACH * x.size)]
    walls = [cell == wall for cell, digit in zip(cells, answer, strict=True) if digit == wall]
    digits = [cell == int(digit) for cell, digit in zip(cells, answer, strict=True) if digit != wall]
    optional = [*(each for each in drawn if each is not None), *digits]
    return Drawn(answer.reshape(x.shape), shown=walls, optional=optional)
