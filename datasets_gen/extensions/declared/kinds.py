"""Puzzles of random constraints, for networks that learn constraints rather than puzzles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from datasets_gen.extensions.declared.puzzle import Drawn

Some = Callable[[int, int], tuple[list[Any], np.ndarray]]  # from `fewest` to `most` random cells, and what they hold
EACH = 3  # constraints of a kind for each cell


def of_kinds(
    x: Any,
    rng: np.random.Generator,
    answer: np.ndarray,
    kinds: Sequence[Callable[[Some], Any]],
    count: int,
    wall: int | None = None,
) -> Drawn:
    """A puzzle whose clues are digits of `answer` (S,) and constraints of `count` of the kinds; walls are shown.

    A kind makes a constraint that the answer obeys of `some(fewest, most)` cells, or None of cells that allow none.
    """
    cells = [*x.flat]

    def some(fewest: int, most: int) -> tuple[list[Any], np.ndarray]:
        chosen = rng.choice(x.size, rng.integers(fewest, most + 1), replace=False)
        return [cells[i] for i in chosen], answer[chosen]

    chosen = [kinds[i] for i in rng.choice(len(kinds), count, replace=False)]
    drawn = [kind(some) for kind in chosen for _ in range(EACH * x.size)]
    walls = [cell == wall for cell, digit in zip(cells, answer, strict=True) if digit == wall]
    given = [cell == int(digit) for cell, digit in zip(cells, answer, strict=True) if digit != wall]
    optional = [*(each for each in drawn if each is not None), *given]
    return Drawn(answer.reshape(x.shape), shown=walls, optional=optional)
