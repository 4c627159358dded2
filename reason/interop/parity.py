"""Parity of an imported model with a recording of the original code: states, logits, losses, gradients."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

import numpy as np
import torch

from reason.config.overrides import derive
from reason.config.schema import Config
from reason.interop.original import to_original
from reason.losses import evaluate_terms
from reason.losses.balance import weighted_sum
from reason.models.base import IGNORE, Batch
from reason.models.recursive import RecursiveModel
from reason.rollout import first_carry, supervise, unroll
from reason.training.device import own_float32

Arrays = Mapping[str, np.ndarray]
LOSSES = {"lm": "train.lm_loss", "q_halt": "train.q_halt_loss", "q_continue": "train.q_continue_loss"}
_SEGMENT = re.compile(r"eval\.(z_H|z_L|logits|q_halt|q_continue)\.(\d+)")
LIMITS = {"eval": 1e-5, "train": 1e-5, "grad": 1e-4}  # up to these it is the same model, where both are float32
SPREADS = {torch.float32: 16.0}  # times the rounding of the type, beyond which it is another model; of others:
SPREAD = 2.0  # a few bits leave little to chance, while float32 in another order of sums is up to 8 times as far
DROWNED = 0.1  # of a state that is rounding: steps after that say nothing about the model


def reproduced(model: RecursiveModel, config: Config, recorded: Arrays) -> dict[str, np.ndarray]:
    """What a recording of the original code holds, computed anew on its batch, under the same names.

    `eval.NAME.SEGMENT`: states, logits and q after that supervision step from the initial state.
    `train.LOSS`: the losses of the first training step, halting without exploration; `train.halted`: who halts.
    `grad.NAME`: the gradients of that step.

    Without batch.labels nothing is trained; without batch.puzzle_identifiers they are 0. float32 products are those of
    torch by default, as in the recordings: the rounding of others grows with every step.
    """
    inputs = torch.from_numpy(recorded["batch.inputs"]).long()
    rows = np.zeros(len(inputs), np.int64)
    labels, identifiers = recorded.get("batch.labels"), recorded.get("batch.puzzle_identifiers", rows)
    unlabelled = torch.full_like(inputs, IGNORE)
    scored = unlabelled if labels is None else torch.from_numpy(labels).long()
    batch = Batch(inputs, scored, torch.from_numpy(identifiers).long())
    with own_float32(as_torch=True):
        ours = _forward(model, batch, recorded)
        if labels is not None and "train.loss" in recorded:
            ours |= _training(model, config, batch)
    return ours


def deviations(ours: Arrays, original: Arrays, relative: bool = False) -> dict[str, float]:
    """How far the arrays of `ours` are from those of `original`, for every name that both have.

    States and losses by the largest absolute difference, or, if `relative`, as gradients in any case, by the norm of
    the difference over that of the original (of a state the largest that it has at any step). `train.halted` by how
    many rows halt in one of the two alone. An array of another shape deviates by infinity.
    """
    shared = [key for key in ours if key in original]
    names = {key: f"eval.{found[1]}" if (found := _SEGMENT.fullmatch(key)) else key for key in shared}  # of all steps
    sizes = dict.fromkeys(names.values(), 1e-30)
    for key, name in names.items():
        sizes[name] = max(sizes[name], float(np.linalg.norm(original[key])))
    return {
        key: _apart(key, ours[key], original[key], sizes[name] if relative or key.startswith("grad.") else None)
        for key, name in names.items()
    }


def limits(ours: Arrays, wider: Arrays, dtype: torch.dtype) -> dict[str, float]:
    """The deviation of each array beyond which another model was recorded; `wider`: reproduced in a wider type.

    A recording is its own rounding away from exact sums, and the same sums in another order, by another library or on
    another processor, round differently: 16 times (float32; of narrower types twice) the distance of `wider` from
    `ours` is allowed. Rounding grows from step to step and some arrays are of a few numbers: a step has the widest
    distance of all arrays up to it, the losses that of the first step, a gradient that of all gradients. Steps after
    one where rounding is a tenth of a state have no limit. In float32 distances are absolute but for gradients, and
    LIMITS are allowed in any case.
    """
    single = dtype == torch.float32
    spread = deviations(ours, wider, relative=not single)
    widest: dict[int, float] = {}
    for key, size in spread.items():
        if segment := _SEGMENT.fullmatch(key):
            widest[int(segment[2])] = max(widest.get(int(segment[2]), 0.0), size)
    gradient = max((size for key, size in spread.items() if key.startswith("grad.")), default=0.0)
    allowed = {}
    for key in ours:
        segment, kind = _SEGMENT.fullmatch(key), key.split(".")[0]
        last = int(segment[2]) if segment else 0
        state = max((size for step, size in widest.items() if step <= last), default=0.0)
        drowned = any(size > DROWNED for step, size in widest.items() if step < last)
        rounding = SPREADS.get(dtype, SPREAD) * (gradient if kind == "grad" else state)
        allowed[key] = math.inf if drowned else max(rounding, LIMITS[kind] if single else 0.0)
    return allowed


def _forward(model: RecursiveModel, batch: Batch, recorded: Arrays) -> dict[str, np.ndarray]:
    segments = [int(named[2]) for name in recorded if (named := _SEGMENT.fullmatch(name))]
    found = {}
    with torch.no_grad():
        for segment, record in enumerate(unroll(model, batch, max(segments, default=0) + 1)):
            seen = {"z_H": record.state.z_h, "z_L": record.state.z_l, **record.readout._asdict()}
            for name, value in seen.items():
                if value is not None:
                    found[f"eval.{name}.{segment}"] = (value if value.dtype == torch.float64 else value.float()).numpy()
    return found


def _training(model: RecursiveModel, config: Config, batch: Batch) -> dict[str, np.ndarray]:
    rules = derive(config, {"rollout.halt_exploration_prob": 0.0}).rollout
    model.zero_grad()
    carry, seen = supervise(model, first_carry(model, batch), lambda: batch, rules, 0)
    terms = evaluate_terms(seen, config.loss, config.loss.present)
    total = weighted_sum(terms, dict(config.loss.weights))
    total.backward()
    losses = {"train.loss": total} | {LOSSES[name]: loss for name, loss in terms.items()}
    found = {key: loss.detach().numpy() for key, loss in losses.items()} | {"train.halted": carry.halted.numpy()}
    names = dict(zip(model.state_dict(), to_original(model, prefix=""), strict=True))
    for ours, parameter in model.named_parameters():
        key = f"grad.{names[ours]}" if not ours.startswith("puzzle_embedding") else "grad.puzzle_emb.local_weights"
        if parameter.grad is not None:
            touched = parameter.grad.is_sparse  # the rows (B, D) alone, in the batch's order
            found[key] = (parameter.grad._values() if touched else parameter.grad).numpy()
    model.zero_grad()
    return found


def _apart(key: str, ours: np.ndarray, original: np.ndarray, size: float | None) -> float:
    """The distance of two arrays, in units of `size` where it is given."""
    if ours.shape != original.shape:
        return math.inf
    if key == "train.halted":
        return float((ours != original).sum())
    return float(np.abs(ours - original).max()) if size is None else float(np.linalg.norm(ours - original)) / size
