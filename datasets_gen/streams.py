"""Random streams: one for every split and task, so that no split and no process changes another's draws."""

from __future__ import annotations

import numpy as np

STREAMS = ("train", "test", "validation")  # made in this order: asking for a validation set changes no other


def stream(seed: int, *key: int) -> np.random.Generator:
    """The generator that (seed, key) names; numpy promises its raw bits for ever, so only `random` is used."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=key)))
