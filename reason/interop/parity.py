"""Parity of an imported model with a recording of the original code: states, logits, losses, gradients."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from reason.config.overrides import derive
from reason.config.schema import Config
from reason.interop.original import to_foreign
from reason.losses import evaluate_terms
from reason.losses.balance import weighted_sum
from reason.models.base import IGNORE, Batch
from reason.models.recursive import RecursiveModel
from reason.rollout import first_carry, supervise, unroll

Arrays = Mapping[str, np.ndarray]
LOSSES = {"lm": "train.lm_loss", "q_halt": "train.q_halt_loss", "q_continue": "train.q_continue_loss"}


_SEGMENT = re.compile(r"eval\.(z_H|z_L|logits|q_halt|q_continue)\.(\d+)")
LIMITS = {"eval": 1e-5, "train": 1e-5, "grad": 1e-4}  # beyond these it is another model


def deviations(model: RecursiveModel, config: Config, recorded: Arrays) -> dict[str, float]:
    """The deviation of every recorded array, by its name.

    `eval.NAME.SEGMENT`: the largest absolute difference after that supervision step from the initial state.
    `train.LOSS`: the absolute difference of the first training step's losses, halting without exploration;
    `train.halted`: how many rows halt in one of the two alone.
    `grad.NAME`: the norm of the difference relative to the norm of the recorded gradient.

    Without batch.labels nothing is trained; without batch.puzzle_identifiers they are 0. An array of another shape
    than ours deviates by infinity.
    """
    inputs = torch.from_numpy(recorded["batch.inputs"]).long()
    rows = np.zeros(len(inputs), np.int64)
    labels, identifiers = recorded.get("batch.labels"), recorded.get("batch.puzzle_identifiers", rows)
    unlabelled = torch.full_like(inputs, IGNORE)
    scored = unlabelled if labels is None else torch.from_numpy(labels).long()
    batch = Batch(inputs, scored, torch.from_numpy(identifiers).long())
    found = _forward(model, batch, recorded)
    return found if labels is None else found | _training(model, config, batch, recorded)


def _forward(model: RecursiveModel, batch: Batch, recorded: Arrays) -> dict[str, float]:
    segments = [int(named[2]) for name in recorded if (named := _SEGMENT.fullmatch(name))]
    found = {}
    with torch.no_grad():
        for segment, record in enumerate(unroll(model, batch, max(segments, default=-1) + 1)):
            seen = {"z_H": record.state.z_h, "z_L": record.state.z_l, **record.readout._asdict()}
            for name, value in seen.items():
                key = f"eval.{name}.{segment}"
                if key in recorded and value is not None:
                    found[key] = _largest(value.float().numpy(), recorded[key])
    return found


def _training(model: RecursiveModel, config: Config, batch: Batch, recorded: Arrays) -> dict[str, float]:
    if "train.loss" not in recorded:
        return {}
    rules = derive(config, {"rollout.halt_exploration_prob": 0.0}).rollout
    model.zero_grad()
    carry, seen = supervise(model, first_carry(model, batch), lambda: batch, rules, 0)
    terms = evaluate_terms(seen, config.loss, config.loss.present)
    total = weighted_sum(terms, dict(config.loss.weights))
    total.backward()
    losses = {"train.loss": total} | {LOSSES[name]: loss for name, loss in terms.items()}
    found = {key: abs(loss.item() - float(recorded[key])) for key, loss in losses.items() if key in recorded}
    if "train.halted" in recorded:
        found["train.halted"] = float((carry.halted.numpy() != recorded["train.halted"]).sum())
    names = dict(zip(model.state_dict(), to_foreign(model, prefix=""), strict=True))
    for ours, parameter in model.named_parameters():
        key = f"grad.{names[ours]}" if not ours.startswith("puzzle_embedding") else "grad.puzzle_emb.local_weights"
        if key in recorded and parameter.grad is not None:
            found[key] = _relative(_dense_rows(parameter.grad), recorded[key])
    model.zero_grad()
    return found


def _largest(ours: np.ndarray, theirs: np.ndarray) -> float:
    return float(np.abs(ours - theirs).max()) if ours.shape == theirs.shape else math.inf


def _relative(ours: np.ndarray, theirs: np.ndarray) -> float:
    if ours.shape != theirs.shape:
        return math.inf
    return float(np.linalg.norm(ours - theirs)) / max(float(np.linalg.norm(theirs)), 1e-30)


def _dense_rows(gradient: Tensor) -> np.ndarray:
    """A gradient as an array; a sparse one as the rows (B, D) that the batch touched, in the batch's order."""
    return (gradient._values() if gradient.is_sparse else gradient).numpy()
