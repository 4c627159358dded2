"""Times of several things, measured in turns, and the peak of the machine's matrix products beside them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode
from tqdm import tqdm

from reason.config.overrides import derive
from reason.config.schema import Config
from reason.extensions.memory.estimate import blank_batch, fake_model, supervised
from reason.models.base import Shape
from reason.nn.dtypes import Dtypes
from reason.rollout import first_carry
from reason.training.device import own_float32

Clock = Callable[[], float]
PEAK = "gemm"  # the name of the machine's peak among the things that take turns


class Spread(NamedTuple):
    """Least, median and greatest of repeated measurements."""

    least: float
    median: float
    most: float

    @classmethod
    def of(cls, values: np.ndarray) -> Spread:
        """Of (rounds,) values."""
        return cls(float(values.min()), float(np.median(values)), float(values.max()))


class Turn(NamedTuple):
    """What is timed: a step of it, and whether float32 products are those that torch has by default."""

    step: Callable[[], object]
    torchs_own: bool = False
    once: bool = False  # in a turn, however many steps it has


def in_turns(
    turns: Mapping[str, Turn], rounds: int, steps: int, device: torch.device, clock: Clock = time.perf_counter
) -> dict[str, np.ndarray]:
    """Seconds of a step by name, (rounds,) each, after a warm-up: the turns follow one another in a round.

    Whatever else the machine does affects all of them, so that ratios of one round are comparable.
    """
    seconds: dict[str, list[float]] = {name: [] for name in turns}
    for turn in turns.values():
        _timed(turn, 1 if turn.once else 2, device, clock)
    for _ in tqdm(range(rounds), unit="round", desc="measuring", leave=False):
        for name, turn in turns.items():
            count = 1 if turn.once else steps
            seconds[name].append(_timed(turn, count, device, clock) / count)
    return {name: np.array(measured) for name, measured in seconds.items()}


def _timed(turn: Turn, steps: int, device: torch.device, clock: Clock) -> float:
    with own_float32(as_torch=turn.torchs_own):
        if device.type != "cpu":
            torch.accelerator.synchronize(device)
        started = clock()
        for _ in range(steps):
            turn.step()
        if device.type != "cpu":
            torch.accelerator.synchronize(device)
        return clock() - started


def gemm(device: torch.device, dtype: torch.dtype) -> tuple[Turn, int]:
    """A large square product of that type, and its FLOPs: what is called the machine's peak."""
    size = 8192 if device.type == "cuda" else 1536
    a, b = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
    return Turn(lambda: a @ b, once=True), 2 * size**3


def flops_of(config: Config, shape: Shape) -> int:
    """Of an optimizer step: 2 per multiply-add of its products, at the typical T; attention by plain products.

    What gradient checkpointing computes again is not counted, nor what a balancer measures.
    """
    if getattr(config.model, "gradient_checkpointing", False):
        config = derive(config, {"model.gradient_checkpointing": False})
    rows, rollout = partial(blank_batch, config.training.batch_size, shape), config.rollout
    with fake_model(config, shape, Dtypes(torch.float32), "cpu") as model:
        carry = first_carry(model, rows())
        with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
            supervised(model, carry, rows, config, 1, rollout.loops.typical)
    return rollout.grad_steps * counter.get_total_flops()
