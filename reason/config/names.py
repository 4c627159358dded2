"""The sections of a config, and settings of other codes and earlier versions; imports no model, as --help needs it."""

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

STEPS = "training.steps (optimizer steps: epochs × puzzles × N_accum / (batch_size × N_grad))"
LAYERS = "model.num_layers"

NAMES = {
    # HRM's and TRM's cfg_pretrain.yaml and config/arch/*.yaml
    "arch": "the preset, as in `python train.py trm-att-sudoku`",
    "data_paths": "data=DIR",
    "global_batch_size": "training.batch_size",
    "epochs": STEPS,
    "eval_interval": "training.monitor.every (optimizer steps)",
    "lr_min_ratio": "optimizer.schedule.min_ratio (with optimizer.schedule.kind=cosine)",
    "lr_warmup_steps": "optimizer.schedule.warmup_steps",
    "beta1": "optimizer.betas=[0.9,0.95]",
    "beta2": "optimizer.betas=[0.9,0.95]",
    "ema_rate": "ema.decay",
    "run_name": "run=DIR",
    "checkpoint_path": "run=DIR",
    "h_cycles": "model.h_cycles",
    "l_cycles": "model.l_cycles",
    "h_layers": LAYERS,
    "l_layers": LAYERS,
    "pos_encodings": "model.positions",
    "mlp_t": "model.mixer=mlp model.positions=none",
    "forward_dtype": "training.precision",
    "halt_max_steps": "rollout.supervision_steps",
    "no_act_continue": "rollout.halting=bce (or q-learning)",
    "loss_type": "loss.likelihood",
    # PyTorch, nanoGPT, Hugging Face
    "learning_rate": "optimizer.lr",
    "wd": "optimizer.weight_decay",
    "min_lr": "optimizer.schedule.min_ratio (a share of optimizer.lr)",
    "warmup_iters": "optimizer.schedule.warmup_steps",
    "max_iters": "training.steps",
    "max_steps": "training.steps (--max-steps N stops a run early)",
    "num_train_epochs": STEPS,
    "per_device_train_batch_size": "training.batch_size (of all devices together)",
    "num_hidden_layers": LAYERS,
    "n_layer": LAYERS,
    "num_attention_heads": "model.num_heads",
    "n_head": "model.num_heads",
    "n_embd": "model.hidden_size",
    "d_model": "model.hidden_size",
    "output_dir": "run=DIR",
    "dtype": "training.precision",
    "wandb": "training.tracker=wandb",
}

LEFT: dict[str, object] = {  # settings of earlier versions and of extensions, each with the value that it has without
    "model.tolerance": 1e-4,
    "model.kernel": 3,
    "model.puzzle_emb_ndim": None,
    "model.gradient_checkpointing": "auto",
    "model.gate": "none",
    "init_layers": "same",
    "rollout.gate_quantile": 0.5,
    "rollout.loops.distribution": "fixed",
    "rollout.loops.start": 0,
    "rollout.loops.mu": 2.0,
    "rollout.loops.sigma": 0.7,
    "rollout.loops.mean": 5.0,
    "rollout.loops.min": 1,
    "rollout.loops.max": 100,
    "loss.trace.method": "hutchinson",
    "loss.exit": {"first": False},
    "optimizer.a": 1.0,
    "optimizer.backend": "auto",
    "training.only": "all",
    "training.monitor.split": "validation",
}


def name_here(key: str) -> str | None:
    """What a setting of another code is called here: "arch.H_cycles" is model.h_cycles."""
    return NAMES.get(key.lstrip("+").rsplit(".", 1)[-1].replace("-", "_").lower())
