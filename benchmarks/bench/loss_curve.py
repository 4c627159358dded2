"""The first losses of a training, and the memory of its step, beside those of the authors' code."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from benchmarks.bench.original import original_step
from reason.errors import ConfigError
from reason.extensions.memory.estimate import LiveBytes
from reason.interop.original import to_original
from reason.models.base import Batch
from reason.models.recursive import RecursiveModel
from reason.training.device import own_float32
from reason.training.loop import Trainer

BESIDE = {  # what makes two trainings of one model have the same losses
    "rollout.halt_exploration_prob": 0.0,
    "optimizer.schedule.warmup_steps": 0,
    "training.compile": "none",
    "model.gradient_checkpointing": False,
}


def loss_curves(trainer: Trainer, directory: Path, steps: int) -> dict[str, Any]:
    """Losses of `steps` optimizer steps of both codes, from the same weights, on the same puzzles, in eager mode.

    `trainer` is one before its first step, of a config with BESIDE and without puzzle embeddings. `memory`: bytes of
    the tensors that one more step creates, at their peak. float32 products are torch's own in both.

    Raises:
        ConfigError: the model has puzzle embeddings, or `original_step` cannot be had.
    """
    model, config = cast(RecursiveModel, trainer.model), trainer.config  # original_step refuses others
    if model.puzzle_embedding is not None:
        raise ConfigError("--loss-curve: sign-SGD of puzzle embeddings is not compared; type model.puzzle_emb_len=0")
    before = trainer.samplers.state_dict()
    batches = [trainer.samplers.draw(index) for index in range(steps + 1)]
    trainer.samplers.load_state_dict(before)
    weights = {name: value.clone() for name, value in to_original(model, prefix="inner.").items()}
    drawn = iter(batches)

    def draw() -> Batch:
        return next(drawn)

    step = original_step(directory, config, model.shape, model.dtype, trainer.device, weights=weights, draw=draw)
    with own_float32(as_torch=True):
        theirs = [step().item() for _ in range(steps)]
        with LiveBytes() as their_bytes:
            step()
        ours: list[float] = []
        for _ in range(steps):
            trainer.optimizer_step()
            ours.append(trainer.meters.read()["loss"] or 0.0)
        with LiveBytes() as our_bytes:
            trainer.optimizer_step()
    furthest = max(abs(a - b) / abs(b) for a, b in zip(ours, theirs, strict=True))
    return {
        "losses": ours,
        "original_losses": theirs,
        "furthest": furthest,
        "memory": our_bytes.peak,
        "original_memory": their_bytes.peak,
    }
