"""A training step of the authors' HRM or TRM code, from a checkout of the user's, beside this project's own.

Nothing of that code is part of this project: it is imported from where it lies.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import torch
from torch import Tensor

from reason.config.schema import Config
from reason.errors import ConfigError
from reason.models import RecursiveConfig
from reason.models.base import Batch, Shape
from reason.training.optim import build_optimizer

TRM = ("models.recursive_reasoning.trm", "TinyRecursiveReasoningModel_ACTV1")
HRM = ("models.hrm.hrm_act_v1", "HierarchicalReasoningModel_ACTV1")
POSITIONS = {"rotary": "rope", "learned": "learned", "none": "none"}


def original_step(
    directory: Path,
    config: Config,
    shape: Shape,
    dtype: torch.dtype,
    device: torch.device,
    compiled: bool = False,
) -> Callable[[], Tensor]:
    """A function that takes one optimizer step of their model, at this config's sizes, and returns its loss.

    Batch, forward pass with their halting, their StableMax loss, backward pass, an update by this project's optimizer
    (theirs needs CUDA) and no average of the weights, which they keep in a second place. `compiled`: torch.compile of
    their loss head, as their pretrain.py does. Weights and puzzles are random.

    Raises:
        ConfigError: no such code lies there, it cannot be imported, or it has no model like this config's.
    """
    model = cast(RecursiveConfig, config.model)
    if "q_halt" not in model.heads or model.mixer not in ("attention", "mlp"):
        raise ConfigError("--original: the authors' code has models with attention or an MLP mixer; name such a preset")
    if model.positions not in POSITIONS or config.rollout.grad_steps > 1:
        raise ConfigError("--original: the authors' code has no positions by row and column, and rollout.grad_steps=1")
    module, name = HRM if model.separate_networks else TRM
    if not (directory / f"{module.replace('.', '/')}.py").is_file():
        wanted = "HRM" if model.separate_networks else "TRM"
        raise ConfigError(
            f"--original {directory}: no {module.replace('.', '/')}.py; name a checkout of the {wanted} code"
        )
    sizes = {
        "batch_size": config.training.batch_size,
        "seq_len": shape.seq_len,
        "vocab_size": shape.vocab_size,
        "num_puzzle_identifiers": shape.num_puzzle_identifiers,
        "puzzle_emb_ndim": model.hidden_size * min(1, model.puzzle_emb_len),
        "H_cycles": model.h_cycles,
        "L_cycles": model.l_cycles,
        "H_layers": model.num_layers,
        "L_layers": model.num_layers,
        "hidden_size": model.hidden_size,
        "expansion": model.expansion,
        "num_heads": model.num_heads,
        "pos_encodings": POSITIONS[model.positions],
        "rope_theta": model.rope_theta,
        "halt_max_steps": config.rollout.supervision_steps,
        "halt_exploration_prob": config.rollout.halt_exploration_prob,
        "forward_dtype": str(dtype).removeprefix("torch."),
    }
    if not model.separate_networks:
        of_halting = config.rollout.halting != "q-learning"
        sizes |= {
            "mlp_t": model.mixer == "mlp", "puzzle_emb_len": model.puzzle_emb_len, "no_ACT_continue": of_halting
        }  # fmt: skip
    with _importable(directory, lasting=compiled), torch.device(device):
        try:
            theirs = getattr(importlib.import_module(module), name)(sizes)
            head = importlib.import_module("models.losses").ACTLossHead(theirs, "stablemax_cross_entropy")
        except ImportError as error:
            raise ConfigError(f"--original {directory}: {error}; install what that code imports") from None
    head.train()
    optimizer = build_optimizer(list(head.parameters()), config.optimizer)
    stepped = torch.compile(head, dynamic=False) if compiled else head
    draw = _puzzles(config.training.batch_size, shape, device)
    blank = torch.ones(config.training.batch_size, shape.seq_len, dtype=torch.int64, device=device)
    with torch.device(device):
        carry = head.initial_carry(_theirs(Batch(blank, blank, blank[:, 0] * 0)))

    def step() -> Tensor:
        nonlocal carry
        with torch.device(device):
            carry, loss, *_ = stepped(carry=carry, batch=_theirs(draw()), return_keys=[])
        loss = loss / config.training.batch_size
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        for buffer in head.buffers():
            buffer.grad = None  # the puzzle embeddings', whose sign-SGD is not taken
        return loss.detach()

    return step


def _puzzles(rows: int, shape: Shape, device: torch.device) -> Callable[[], Batch]:
    generator = torch.Generator(device).manual_seed(0)

    def draw() -> Batch:
        tokens = torch.randint(1, shape.vocab_size, (rows, shape.seq_len), generator=generator, device=device)
        return Batch(tokens, tokens, torch.zeros(rows, dtype=torch.int64, device=device))

    return draw


def _theirs(batch: Batch) -> dict[str, Tensor]:
    return {"inputs": batch.inputs.int(), "labels": batch.labels, "puzzle_identifiers": batch.identifiers.int()}


@contextlib.contextmanager
def _importable(directory: Path, lasting: bool) -> Iterator[None]:
    """Within the block `models` is theirs; `lasting`: after it, too, as torch.compile imports it by name later."""
    sys.path.insert(0, str(directory.resolve()))
    try:
        yield
    finally:
        if not lasting:
            _forget(directory)


def _forget(directory: Path) -> None:
    sys.path.remove(str(directory.resolve()))
    for name in [name for name in sys.modules if name == "models" or name.startswith("models.")]:
        del sys.modules[name]
