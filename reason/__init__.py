"""Tiny recursive reasoners: HRM, TRM, CMM and looped transformers.

Every model is a discrete dynamical system z ← F(z, x̂) with a readout, trained by deep supervision.

    import reason
    run = reason.train("sudoku-4x4", run="runs/first", training={"steps": 200})
    for s in run.steps(reason.Dataset("data/sudoku-4x4").batch("test"), 16):
        print(s.step, s.exact.float().mean().item())
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING

from reason.version import __version__ as __version__

if TYPE_CHECKING:
    from reason.api import Dataset, Run, load, resume, train
    from reason.pretrained import pretrained_models

_HOMES = dict.fromkeys(("Dataset", "Run", "load", "resume", "train"), "reason.api") | {
    "pretrained_models": "reason.pretrained"
}

# Threads of OpenMP spin while they wait, which takes the cores from other processes and then waits for them: on two
# cores at a load of ten, training took 2.0 and evaluation 3.1 × as long (docs/log/performance.md). OpenMP reads the
# variable when torch is imported; a value of the user's stays.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

__all__ = ["Dataset", "Run", "load", "pretrained_models", "resume", "train"]


def __getattr__(name: str) -> object:
    """Return a name of the library, imported at its first use: the commands do without torch until they need it."""
    if name not in _HOMES:
        raise AttributeError(f"module 'reason' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
