"""The sections of a config, and settings by their names in other codes; imports no model, as --help needs it."""

from __future__ import annotations

SECTIONS = {
    "data": "the puzzle set: its directory, the command that makes it, augmentation",
    "model": "recursive (HRM, TRM, CMM) or of an extension: sizes, mixer, cycles, gradient, noise",
    "rollout": "supervision steps, carry, halting, gradient accumulation, loops",
    "loss": "likelihood, the weight λ of every term, schedules of the weights",
    "balance": "AlgGradNorm: weights λ that follow gradient norms",
    "optimizer": "Adam-atan2, AdamW or Muon: learning rates, weight decay, clipping, schedule",
    "ema": "the exponential moving average of the weights",
    "training": "steps, batch size, precision, compilation, logs, checkpoints, monitor",
    "evaluation": "steps, split, weights read; studies beyond accuracy",
}

NAMES = {  # of PyTorch, nanoGPT and Hugging Face; `reason.extensions.original` answers for HRM's and TRM's code
    "learning_rate": "optimizer.lr",
    "wd": "optimizer.weight_decay",
    "min_lr": "optimizer.schedule.min_ratio",
    "warmup_iters": "optimizer.schedule.warmup_steps",
    "max_iters": "training.steps",
    "max_steps": "training.steps",
    "per_device_train_batch_size": "training.batch_size",
    "num_hidden_layers": "model.num_layers",
    "n_layer": "model.num_layers",
    "num_attention_heads": "model.num_heads",
    "n_head": "model.num_heads",
    "n_embd": "model.hidden_size",
    "d_model": "model.hidden_size",
    "dtype": "training.precision",
}
