"""Scaling over processes: the speed of whole optimizer steps, the bytes that they exchange, the gradients' way.

    torchrun [--nnodes 2 …] --nproc-per-node N -m benchmarks.nodes PRESET DATA KEY=VALUE … [--rounds 5] [--steps 4]

Prints one line of JSON. Two trainers of the same model take turns: gradients averaged by `World.average_gradients`, and
by DistributedDataParallel around the loss. `seconds` and `processor_seconds` are of a step, median over rounds, of the
slowest process; `bytes` are those of the tensors that a process gives away in a step, at each of its collectives,
`interface_bytes` what the network interfaces (all that this network namespace has) sent; `exchange_seconds` is the
least time of averaging alone. `equal`: have both trainers the same weights, to the bit?
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import json
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from reason.config.overrides import override, split_arguments
from reason.losses import evaluate_terms, weighted_sum
from reason.presets import preset
from reason.rollout import supervise
from reason.runs.build import build_trainer
from reason.runs.sets import load_training_set
from reason.training.device import pick_device
from reason.training.distributed import World, device_of_process, joined
from reason.training.loop import Trainer


class Loss(nn.Module):
    """The model with a forward pass that DistributedDataParallel can wrap: whatever computes a loss."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model

    def forward(self, compute: Any) -> Tensor:
        return compute()


class ByDdp(Trainer):
    """The optimizer step without balancing, with PyTorch's own exchange of gradients."""

    def prepare(self) -> None:
        self.wrapped = DistributedDataParallel(Loss(self.model), find_unused_parameters=True, broadcast_buffers=False)

    def optimizer_step(self) -> Tensor:
        rollout, weights = self.config.rollout, self.balancer.weights(self.step)
        for number in range(rollout.grad_steps):

            def compute() -> Tensor:
                self.carry, unroll = supervise(self.model, self.carry, self._draw, rollout, self.index)
                return weighted_sum(evaluate_terms(unroll, self.config.loss, weights), weights) / rollout.grad_steps

            last = number == rollout.grad_steps - 1
            with contextlib.nullcontext() if last else self.wrapped.no_sync():
                self.wrapped(compute).backward()
            self.index += 1
        norm = self.optimizers.step(self.step)
        self.step += 1
        return norm


@contextlib.contextmanager
def counted() -> Iterator[Counter[str]]:
    """Bytes of tensors given to collectives within the block."""
    bytes_: Counter[str] = Counter()
    originals = {name: getattr(dist, name) for name in ("all_reduce", "all_gather")}

    def counting(name: str) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            tensor = arguments[-1] if name == "all_gather" else arguments[0]
            bytes_[name] += tensor.numel() * tensor.element_size()
            return originals[name](*arguments, **named)

        return call

    for name in originals:
        setattr(dist, name, counting(name))
    try:
        yield bytes_
    finally:
        for name, original in originals.items():
            setattr(dist, name, original)


def sent() -> int:
    """Bytes that all network interfaces have sent."""
    lines = Path("/proc/net/dev").read_text().splitlines()[2:]
    return sum(int(line.split(":")[1].split()[8]) for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="+")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=4)
    options = parser.parse_intermixed_args()
    (name, data), pairs = split_arguments(options.words, {})
    config = override(preset(name).config(), pairs | {"data.directory": data})
    device = pick_device(device_of_process(config.device))
    with joined(device) as world, tempfile.TemporaryDirectory() as folder:
        own = build_trainer(config, Path(folder), load_training_set(config, device), world)
        trainers: dict[str, Trainer] = {"own": own}
        if world.size > 1:
            trainers["ddp"] = ddp = copy_as_ddp(config, Path(folder), device, world)
            ddp.prepare()
        result = measure(trainers, world, options.rounds, options.steps) | {"batch_size": config.training.batch_size}
        if world.first:
            print(json.dumps(result))


def copy_as_ddp(config: Any, folder: Path, device: torch.device, world: World) -> ByDdp:
    trainer = build_trainer(copy.deepcopy(config), folder, load_training_set(config, device), world)
    trainer.__class__ = ByDdp
    assert isinstance(trainer, ByDdp)
    return trainer


def measure(trainers: dict[str, Trainer], world: World, rounds: int, steps: int) -> dict[str, Any]:
    wall: dict[str, list[float]] = {name: [] for name in trainers}
    processor: dict[str, list[float]] = {name: [] for name in trainers}
    result: dict[str, Any] = {"processes": world.size, "parameters": trainers["own"].model.parameter_count()}
    for round_ in range(rounds + 1):
        for name, trainer in trainers.items():
            world.any(False)  # all begin together
            began, worked = time.perf_counter(), time.process_time()
            for _ in range(steps):
                world.any(False)
                trainer.optimizer_step()
            if round_:  # the first warms up
                wall[name].append((time.perf_counter() - began) / steps)
                processor[name].append((time.process_time() - worked) / steps)
    for name in trainers:
        result[name] = {
            "seconds": max(world.collect([statistics.median(wall[name])])),
            "least_seconds": max(world.collect([min(wall[name])])),
            "processor_seconds": max(world.collect([statistics.median(processor[name])])),
        }
    if world.size > 1:
        pairs = zip(*(trainer.model.parameters() for trainer in trainers.values()), strict=True)
        result["equal"] = all(torch.equal(*pair) for pair in pairs)
        world.any(False)
        before = sent()
        with counted() as given:
            world.any(False)
            trainers["own"].optimizer_step()
        world.any(False)
        result |= {"bytes": dict(given), "interface_bytes": sent() - before}
        gradients = [torch.zeros_like(p) for p in trainers["own"].model.parameters()]
        parameters = [nn.Parameter(g) for g in gradients if g.is_floating_point()]
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient
        for key, call in (
            ("exchange_seconds", lambda: world.average_gradients(parameters)),
            ("decision_seconds", lambda: world.any(False)),
        ):
            times = []
            for _ in range(20):
                world.any(False)
                began = time.perf_counter()
                call()
                times.append(time.perf_counter() - began)
            result[key] = min(times)
    return result


if __name__ == "__main__":
    main()
