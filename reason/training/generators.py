"""States of torch's default generators, which exploration, random initial states and noise draw from."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from reason.training.world import World


def random_state(device: torch.device) -> dict[str, Tensor]:
    """The states of the default generators, the CPU's and the device's: exploration, random initial states, noise."""
    state = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        state["cuda"] = torch.cuda.get_rng_state(device)
    elif device.type == "mps":
        state["mps"] = torch.mps.get_rng_state()
    return state


def restore_random_state(state: Mapping[str, Tensor], device: torch.device) -> None:
    """Put the default generators where `random_state` found them."""
    torch.set_rng_state(state["cpu"])
    if device.type == "cuda":
        torch.cuda.set_rng_state(state["cuda"], device)
    elif device.type == "mps":
        torch.mps.set_rng_state(state["mps"])


@contextlib.contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Within the block the default generators draw from the seed; after it, they go on where they were."""
    before = random_state(device)
    torch.manual_seed(seed)
    try:
        yield
    finally:
        restore_random_state(before, device)


def random_states(device: torch.device, world: World) -> list[dict[str, Tensor]]:
    """`random_state` of every process."""
    here = random_state(device)
    every = {name: world.gather(state[None]) for name, state in here.items()}  # (processes, bytes)
    return [{name: states[rank] for name, states in every.items()} for rank in range(world.size)]


def restore_random_states(states: Any, device: torch.device, world: World) -> None:
    """Each process goes on with its own; one that was not there when they were saved keeps the stream it began with."""
    every = states if isinstance(states, list) else [states]
    if len(every) != world.size:
        warnings.warn(
            f"saved by {len(every)} processes, going on with {world.size}: exploration and noise are drawn per process "
            "and differ from an unbroken run",
            stacklevel=2,
        )
    if world.rank < len(every):
        restore_random_state(every[world.rank], device)
