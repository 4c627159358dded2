"""Random numbers of an evaluation: every puzzle has its own, whatever stands beside it in a batch."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from datasets_gen.structure import GridSymmetry
from reason.data import Moved, draw_symmetries


class PuzzleStreams:
    """A stream of random numbers for each of B puzzles: of a seed, a purpose and the puzzle's number in its split.

    So neither the size of a batch, nor the number of processes, nor what else is evaluated changes what a puzzle gets.
    """

    def __init__(self, numbers: Tensor, seed: int, *purpose: int):
        self._keys = [(seed, *purpose, number) for number in numbers.tolist()]
        self._streams = [np.random.default_rng(key) for key in self._keys]

    def normal(self, z: Tensor) -> Tensor:
        """N(0, 1) in z's shape (B, …), type and device."""
        drawn = np.stack([stream.standard_normal(z.shape[1:], np.float32) for stream in self._streams])
        return torch.from_numpy(drawn).to(z)

    def batch_seed(self) -> int:
        """A seed for what is drawn for all of them at once, of the first of them; no stream goes on by it."""
        return int(np.random.default_rng(self._keys[0]).integers(2**62))

    def symmetries(self, symmetry: GridSymmetry, attempt: int, device: torch.device) -> Moved:
        """A random symmetry for each puzzle's try number `attempt`, 0 for the first."""
        generator = torch.Generator()
        rows = [
            draw_symmetries(1, symmetry, generator.manual_seed(int(stream.integers(2**32))), attempt)
            for stream in self._streams
        ]
        names, sources = zip(*rows, strict=True)
        return Moved(*(None if part[0] is None else torch.cat(part).to(device) for part in (names, sources)))
