"""What `auto` comes to on this machine, once, before the first step; config.json and checkpoints record it."""

from __future__ import annotations

from typing import NamedTuple

import torch

import reason.settings.capabilities as can
from reason.config.describe import keys_of
from reason.config.overrides import Changes, derive, leaves
from reason.config.schema import Config
from reason.machine.estimate import (
    Work,
    available_memory,
    estimate_memory,
    readable_size,
    work_of,
    work_of_reading,
    worth_estimating,
)
from reason.models.base import Shape
from reason.nn.dtypes import Dtypes
from reason.settings.base import Mark
from reason.training.compiling import inductor_works
from reason.training.precision import dtypes, fuses

REPAID = 240.0  # seconds of eager training that compiling (half a minute to a minute) is worth from, at 1.2 × the speed
REPAID_READING = 90.0  # of eager evaluation, whose graphs are without gradient: 10 to 40 s, at 1.2 to 2 × the speed
SHORTEST = 50  # optimizer steps, or steps of batches, below which nothing is counted
CUDA_ITSELF = 600_000_000  # bytes, of its context


SPEEDS = {"cpu": (4e9, 2e-5), "cuda": (4e11, 1e-5)}  # a laptop, a GPU, roughly: bytes/s made, seconds a call


class Resolved(NamedTuple):
    """A config without `auto` where one was left to the machine, and why, a line for each."""

    config: Config
    reasons: list[str]


def choices(config: Config) -> Changes:
    """The settings that can be `auto`, as far as the config has them."""
    values = leaves(config.model_dump(mode="json"))
    return {key: values[key] for key in keys_of(Mark.AUTO) if key in values}


def resolve(config: Config, shapes: list[Shape], device: torch.device, processes: int = 1) -> Resolved:
    """Whether to checkpoint gradients and whether to compile, where the config leaves it open.

    model.gradient_checkpointing: where the estimate without exceeds the memory that is available on the device.
    training.compile: inductor where it works and training would take four minutes or more without, by the operations
    counted from shapes on a rough machine of the device's kind; the same config decides alike on all of them.
    model.fused: what a kernel of our own can compute, on a CPU that it is made for. Where it computes whole steps,
    nothing is left to compile. On a GPU it stays auto, so that a CPU may read the run with the kernel.
    """
    share = max(1, config.training.batch_size // processes)
    computed = dtypes(config.training.precision, device)
    changes: Changes = {}
    reasons = []
    if config.model.recomputation == "auto":
        plain = derive(config, {"model.gradient_checkpointing": False, "training.batch_size": share})
        size, available = _exceeding(plain, shapes, device, computed)
        changes["model.gradient_checkpointing"] = size is not None
        if size is not None:
            there = f"of {readable_size(available)} that are available"
            reasons.append(f"gradient checkpointing: training would hold {readable_size(size)} {there} on {device}")
    in_steps = config.model.fuses_steps and fuses(config.model, computed, device)
    left_open = config.model.fusing == "auto" and device.type == "cpu"
    if config.model.fuses_steps and left_open:
        changes["model.fused"] = in_steps
    if config.training.compile == "auto" and in_steps:
        changes["training.compile"] = "none"
    elif config.training.compile == "auto":
        pays = _takes_long(derive(config, changes | {"training.batch_size": share}), shapes, device, computed)
        works = pays and inductor_works(device)
        changes["training.compile"] = "inductor" if works else "none"
        if works:
            reasons.append("torch.compile: the first steps take half a minute or more, the rest less")
        elif pays:
            reasons.append("torch.compile makes no code here (it needs a C++ compiler): training is slower")
    config = derive(config, changes) if changes else config
    if left_open and not config.model.fuses_steps and config.training.compile != "none":
        config = derive(config, {"model.fused": fuses(config.model, computed, device)})
    return Resolved(config, reasons)


def resolve_reading(config: Config, shape: Shape, device: torch.device, puzzles: int, steps: int) -> Resolved:
    """evaluation.compile where it is auto: inductor where it works and reading would take a minute and a half without.

    Counted as for training; `puzzles` are those that this process reads, of every pass.
    """
    if config.evaluation.compile != "auto":
        return Resolved(config, [])
    computed = dtypes(config.training.precision, device)
    if config.model.fuses_steps and fuses(config.model, computed, device):
        return Resolved(derive(config, {"evaluation.compile": "none"}), [])
    rows = min(puzzles, config.evaluation.batch_size)
    taken = steps * -(-puzzles // rows)
    pays = device.type in SPEEDS and config.model.has(can.NETWORKS) and taken >= SHORTEST
    if pays:
        work = work_of_reading(config, shape, computed, device.type, rows)
        pays = taken * _seconds(work, device) >= REPAID_READING
    works = pays and inductor_works(device)
    reasons = ["torch.compile: half a minute before the first step, the rest faster"] if works else []
    return Resolved(derive(config, {"evaluation.compile": "inductor" if works else "none"}), reasons)


def _seconds(work: Work, device: torch.device) -> float:
    speed, launch = SPEEDS[device.type]
    return work.bytes / speed + work.calls * launch


def _exceeding(config: Config, shapes: list[Shape], device: torch.device, computed: Dtypes) -> tuple[int | None, int]:
    """(estimated bytes, available bytes) of the largest puzzles; None where they fit, or nothing is known."""
    available = available_memory(device)
    if available is None:
        return None, 0
    available -= CUDA_ITSELF if device.type == "cuda" else 0
    largest = max(shapes, key=lambda shape: shape.seq_len)
    if not worth_estimating(config, largest, available):
        return None, available
    size = estimate_memory(config, largest, computed, device.type).total
    return (size if size > available else None), max(0, available)


def _takes_long(config: Config, shapes: list[Shape], device: torch.device, computed: Dtypes) -> bool:
    """Would training take REPAID seconds or more in eager mode?"""
    if device.type not in SPEEDS or not config.model.has(can.NETWORKS) or config.training.steps < SHORTEST:
        return False
    each = [work_of(config, shape, computed, device.type) for shape in shapes]
    seconds = sum(_seconds(work, device) for work in each) / len(each)
    return config.training.steps * seconds >= REPAID
