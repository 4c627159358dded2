"""Operations and core-seconds of an answer at 16 steps, for docs/leaderboard.md.

    OMP_NUM_THREADS=1 python -m benchmarks.answer data/sudoku-referee sudoku trm-mlp-sudoku hrm-sudoku

Models of the package, or presets with random weights, in float32. Operations: 2 for each multiply-add of a product.
Core-seconds: time of the processor, by which other work on the machine hardly counts, of each puzzle of a batch.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

import reason
from reason.models import build_model
from reason.models.base import Batch
from reason.nn.dtypes import Dtypes
from reason.presets import preset
from reason.rollout import unroll

STEPS, TIMED, BATCHES = 16, 4, (1, 16)


def model_of(name: str, data: reason.Dataset) -> Any:
    """In float32, by the kernels where they can compute it."""
    if name in reason.pretrained_models():
        run = reason.load(name, training={"precision": "fp32"})
        run.accept(data)
        return run.model
    chosen = preset(name)
    return build_model(chosen.config().model, chosen.shape, *Dtypes(torch.float32)).eval()


def operations(model: Any, puzzle: Batch) -> int:
    """Of `STEPS` steps, all of which cost the same, by torch, whose products alone are counted."""
    model.fused_step = None
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counted:
        next(unroll(model, puzzle, 1)).readout  # noqa: B018
    return STEPS * int(counted.get_total_flops())


def core_seconds(model: Any, puzzles: Batch) -> float:
    """Of `STEPS` steps by the fastest of a few, for one puzzle of the batch."""
    seconds = []
    started = time.process_time()
    with torch.no_grad():
        for record in unroll(model, puzzles, TIMED):
            record.readout  # noqa: B018
            seconds.append(time.process_time() - started)
            started = time.process_time()
    return STEPS * min(seconds) / len(puzzles.inputs)


if __name__ == "__main__":
    data = reason.Dataset(sys.argv[1])
    for name in sys.argv[2:]:
        batches, model = [data.batch("test", size) for size in BATCHES], model_of(name, data)
        costs = [f"{core_seconds(model, batch):.2g} s in a batch of {len(batch.inputs)}" for batch in batches]
        print(name, f"{operations(model, batches[0]) / 1e9:,.0f} G", *costs)
