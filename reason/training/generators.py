"""Seeds, and states of torch's default generators: exploration, random initial states and noise draw from these."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Mapping

import numpy as np
import torch
from torch import Tensor

from reason.training.world import World


def seeds(seed: int) -> tuple[int, int]:
    """Return the seeds of the initial weights and of the data order."""
    weights, data = (int(s) for s in np.random.SeedSequence(seed).generate_state(2, np.uint64) >> 1)
    return weights, data


def seed_this_process(seed: int, world: World) -> None:
    """Give each process a separate stream; rank 0 keeps the stream that initialized the weights."""
    if not world.first:
        torch.manual_seed(int(np.random.SeedSequence([seed, world.rank]).generate_state(1, np.uint64)[0] >> 1))


def random_state(device: torch.device) -> dict[str, Tensor]:
    """Return the states of the default generators, the CPU's and the device's."""
    others = {"cuda": lambda: torch.cuda.get_rng_state(device), "mps": torch.mps.get_rng_state}
    return {"cpu": torch.get_rng_state()} | {kind: get() for kind, get in others.items() if kind == device.type}


def restore_random_state(state: Mapping[str, Tensor], device: torch.device) -> None:
    """Restore the default generators to a state from `random_state`."""
    torch.set_rng_state(state["cpu"])
    if device.type == "cuda":
        torch.cuda.set_rng_state(state["cuda"], device)
    elif device.type == "mps":
        torch.mps.set_rng_state(state["mps"])


@contextlib.contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Seed the default generators within the block and restore them after it."""
    before = random_state(device)
    torch.manual_seed(seed)
    try:
        yield
    finally:
        restore_random_state(before, device)


def random_states(device: torch.device, world: World) -> list[dict[str, Tensor]]:
    """Return the `random_state` of every process."""
    every = {name: world.gather(state[None]) for name, state in random_state(device).items()}  # (processes, bytes)
    return [{name: states[rank] for name, states in every.items()} for rank in range(world.size)]


def restore_random_states(states: list[dict[str, Tensor]], device: torch.device, world: World) -> None:
    """Restore the state of this process; a new process keeps its initial state."""
    if len(states) != world.size:
        warnings.warn(
            f"saved by {len(states)} processes, going on with {world.size}: exploration and noise are drawn per "
            "process and differ from an unbroken run",
            stacklevel=2,
        )
    if world.rank < len(states):
        restore_random_state(states[world.rank], device)
