"""The sections of a config, a line each: what `--help` lists without importing a model."""

from __future__ import annotations

SECTIONS = {
    "data": "the puzzle set: its directory, the command that makes it, augmentation",
    "model": "recursive (HRM, TRM, CMM) or looped: sizes, mixer, cycles, gradient, noise, exit gate",
    "rollout": "supervision steps, carry, halting, gradient accumulation, random loops",
    "loss": "likelihood, the weight λ of every term, schedules of the weights",
    "balance": "AlgGradNorm: weights λ that follow gradient norms",
    "optimizer": "Adam-atan2, AdamW or Muon: learning rates, weight decay, clipping, schedule",
    "ema": "the exponential moving average of the weights",
    "training": "steps, batch size, precision, compilation, logs, checkpoints, monitor",
    "evaluation": "steps, split, weights read; policies, restarts, probes, blind spot, caches",
}
