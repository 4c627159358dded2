"""An augmented ARC puzzle is named by what was done to it, so that it can be undone."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

SEPARATOR = "|||"  # as in TRM: NAME|||t3|||0918273645; HRM wrote NAME_t3_0918273645
NAMED = re.compile(r"(?P<task>.*?)(\|\|\||_)t(?P<which>[0-7])(\|\|\||_)(?P<colours>\d{10})", re.ASCII | re.DOTALL)
INVERSE = (0, 3, 2, 1, 4, 5, 6, 7)


def dihedral(grid: np.ndarray, which: int) -> np.ndarray:
    """One of the eight symmetries of the square; 0-3 turn counterclockwise, 4-7 flip."""
    if which < 4:
        return np.rot90(grid, which)
    return (np.fliplr, np.flipud, np.transpose, lambda turned: np.fliplr(np.rot90(turned)))[which - 4](grid)


@dataclass(frozen=True)
class Augmentation:
    """A symmetry of the square and a permutation of the ten colours, black staying black."""

    which: int = 0
    colours: tuple[int, ...] = tuple(range(10))

    @classmethod
    def draw(cls, rng: np.random.Generator) -> Augmentation:
        """A random one."""
        return cls(int(rng.random() * 8), (0, *(int(colour) + 1 for colour in rng.random(9).argsort())))

    def name(self, task: str) -> str:
        """The identifier of the task under this augmentation; the task's own name where nothing is done."""
        if self == Augmentation():
            return task
        return SEPARATOR.join([task, f"t{self.which}", "".join(map(str, self.colours))])

    @classmethod
    def of(cls, identifier: str) -> tuple[str, Augmentation]:
        """The task and the augmentation that an identifier names: the identity where it names none."""
        found = NAMED.fullmatch(identifier)
        if found is None or len(set(found["colours"])) < 10:
            return identifier, cls()
        return found["task"], cls(int(found["which"]), tuple(map(int, found["colours"])))

    def apply(self, grid: np.ndarray) -> np.ndarray:
        """The grid (rows, columns) of colours, recoloured and moved."""
        return dihedral(np.array(self.colours)[grid], self.which)

    def undo(self, grid: np.ndarray) -> np.ndarray:
        """The grid that `apply` was given."""
        return np.argsort(self.colours)[dihedral(grid, INVERSE[self.which])]
