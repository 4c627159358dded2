"""What a model makes of a recording of the original code in float32: states, logits, losses, gradients."""

from __future__ import annotations

import json
import re

import numpy as np
import torch

from reason.config.overrides import derive
from reason.extensions.original.weights import LAYERS, STACKS, WHOLE
from reason.losses import evaluate_terms, weighted_sum
from reason.models.base import Batch
from reason.rollout import first_carry, supervise, unroll
from reason.training.device import own_float32

LOSSES = {"lm": "train.lm_loss", "q_halt": "train.q_halt_loss", "q_continue": "train.q_continue_loss"}
_SEGMENT = re.compile(r"eval\.(z_H|z_L|logits|q_halt|q_continue)\.(\d+)")
LIMITS = {"eval": 1e-5, "train": 1e-5, "grad": 1e-4}  # allowed in any case
SPREAD = 16.0  # times the rounding of the type, beyond which it is another model: sums are taken in another order


def to_original(model, prefix="_orig_mod.model.inner."):
    """A model's weights and buffers under the names of the original code."""
    whole, stacks, layers = ({ours: name for name, ours in names.items()} for names in (WHOLE, STACKS, LAYERS))
    original = {}
    for name, value in model.state_dict().items():
        layer = re.fullmatch(r"(f_h|f_l)\.blocks\.(\d+)\.([\w.]+)\.weight", name)
        bare = whole[name] if layer is None else f"{stacks[layer[1]]}.layers.{layer[2]}.{layers[layer[3]]}.weight"
        original[prefix + bare] = value
    return original


def checkpoint_of(arrays, file):
    """A recording's weights and config as the authors save them."""
    weights = {k.removeprefix("param."): torch.from_numpy(v) for k, v in arrays.items() if k.startswith("param.")}
    torch.save({"model": weights, "config": json.loads(str(arrays["config"]))}, file)
    return file


def reproduced(model, config, recorded):
    """What a recording of the original code holds, computed anew on its batch, under the same names.

    `eval.NAME.SEGMENT`: states, logits and q after that supervision step from the initial state.
    `train.LOSS`: the losses of the first training step, halting without exploration; `train.halted`: who halts.
    `grad.NAME`: the gradients of that step.

    float32 products are those of torch by default, as in the recordings: the rounding of others grows with every step.
    """
    keys = ("inputs", "labels", "puzzle_identifiers")
    batch = Batch(*(torch.from_numpy(recorded[f"batch.{key}"]).long() for key in keys))
    with own_float32(as_torch=True):
        return _forward(model, batch) | _training(model, config, batch)


def deviations(ours, original):
    """How far the arrays of `ours` are from those of `original`.

    States and losses by the largest absolute difference, gradients by the norm of the difference over that of the
    original, `train.halted` by how many rows halt in one of the two alone.
    """
    return {key: _apart(key, ours[key], original[key]) for key in ours}


def limits(ours, exact):
    """The deviation of each array beyond which another model was recorded; `exact`: reproduced in float64.

    Rounding grows from step to step and some arrays are of a few numbers: a step has the widest distance of all arrays
    up to it, the losses that of the first step, a gradient that of all gradients.
    """
    distances, widest = deviations(ours, exact), dict[int, float]()
    for key, size in distances.items():
        if segment := _SEGMENT.fullmatch(key):
            widest[int(segment[2])] = max(widest.get(int(segment[2]), 0.0), size)
    gradient = max(size for key, size in distances.items() if key.startswith("grad."))
    allowed = {}
    for key in ours:
        segment, kind = _SEGMENT.fullmatch(key), key.split(".")[0]
        state = max(size for step, size in widest.items() if step <= (int(segment[2]) if segment else 0))
        allowed[key] = max(SPREAD * (gradient if kind == "grad" else state), LIMITS[kind])
    return allowed


def _forward(model, batch):
    found = {}
    with torch.no_grad():
        for segment, record in enumerate(unroll(model, batch, 4)):
            seen = {"z_H": record.state.z_h, "z_L": record.state.z_l, **record.readout._asdict()}
            for name, value in seen.items():
                if value is not None:
                    found[f"eval.{name}.{segment}"] = (value if value.dtype == torch.float64 else value.float()).numpy()
    return found


def _training(model, config, batch):
    rules = derive(config, {"rollout.halt_exploration_prob": 0.0}).rollout
    model.zero_grad()
    carry, seen = supervise(model, first_carry(model, batch), lambda: batch, rules)
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


def _apart(key, ours, original):
    assert ours.shape == original.shape
    if key == "train.halted":
        return float((ours != original).sum())
    if key.startswith("grad."):
        return float(np.linalg.norm(ours - original) / max(np.linalg.norm(original), 1e-30))
    return float(np.abs(ours - original).max())
