"""Command lines of the original HRM and TRM code, in the words of this package."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

SAME = {  # their setting: ours, of the same values
    "arch.H_cycles": "model.h_cycles",
    "arch.L_cycles": "model.l_cycles",
    "arch.L_layers": "model.num_layers",
    "arch.hidden_size": "model.hidden_size",
    "arch.num_heads": "model.num_heads",
    "arch.expansion": "model.expansion",
    "arch.rope_theta": "model.rope_theta",
    "arch.puzzle_emb_len": "model.puzzle_emb_len",
    "arch.halt_max_steps": "rollout.supervision_steps",
    "arch.halt_exploration_prob": "rollout.halt_exploration_prob",
    "global_batch_size": "training.batch_size",
    "lr": "optimizer.lr",
    "lr_min_ratio": "optimizer.schedule.min_ratio",
    "lr_warmup_steps": "optimizer.schedule.warmup_steps",
    "weight_decay": "optimizer.weight_decay",
    "puzzle_emb_lr": "optimizer.puzzle_emb_lr",
    "puzzle_emb_weight_decay": "optimizer.puzzle_emb_weight_decay",
    "ema_rate": "ema.decay",
    "seed": "seed",
}
VALUES = {  # their setting and value, the latter in small letters: ours
    ("arch.pos_encodings", "rope"): "model.positions=rotary",
    ("arch.pos_encodings", "learned"): "model.positions=learned",
    ("arch.pos_encodings", "none"): "model.positions=none",
    ("arch.mlp_t", "true"): "model.mixer=mlp",
    ("arch.mlp_t", "false"): "model.mixer=attention",
    ("arch.no_ACT_continue", "true"): "rollout.halting=bce",
    ("arch.no_ACT_continue", "false"): "rollout.halting=q-learning loss.weights.q_continue=0.5",
    ("arch.forward_dtype", "bfloat16"): "training.precision=bf16",
    ("arch.forward_dtype", "float32"): "training.precision=fp32",
    ("arch.loss.loss_type", "stablemax_cross_entropy"): "loss.likelihood=stablemax",
    ("arch.loss.loss_type", "softmax_cross_entropy"): "loss.likelihood=softmax",
    ("arch.puzzle_emb_ndim", "0"): "model.puzzle_emb_len=0",
    ("arch", "trm_singlez"): "model.states=1",
    ("ema", "false"): "ema.decay=none",
}
NAMED = {"arch", "data_path", "data_paths", "run_name", "epochs", "eval_interval", "beta1", "beta2", "ema"}
LEFT = {
    "evaluators", "project_name", "checkpoint_every_eval", "load_checkpoint", "freeze_weights", "checkpoint_path",
    "data_paths_test", "eval_save_outputs", "min_eval_interval",
}  # fmt: skip
ARCHITECTURES = {"trm", "hrm", "hrm_v1"}  # arch=…, of those that are presets here
THEIRS = {*SAME, *NAMED, *LEFT} - {"seed"}
GROUPS = 1000  # base puzzles of their Sudoku and maze sets
BATCH, DATA = 768, "data/sudoku-extreme"  # their defaults


def is_theirs(words: Sequence[str]) -> bool:
    """Are there settings of the original code among these words?"""
    keys = {word.partition("=")[0].lstrip("+") for word in words if "=" in word}
    return bool(keys & THEIRS) or any(key.startswith("arch.") for key in keys)


def answer(words: Sequence[str]) -> str | None:
    """What to type here for a command line of the original code; None for another one."""
    if not is_theirs(words):
        return None
    line, left = spelled(words)
    rest = f" ({', '.join(left)}: no counterpart)" if left else ""
    return f"these are settings of the original HRM and TRM code; type: {line}{rest}"


def spelled(words: Sequence[str]) -> tuple[str, list[str]]:
    """A command line of this package for the original code's, and what of theirs has no counterpart.

    Epochs become optimizer steps as in their code, of sets with 1,000 base puzzles: epochs · 1,000 / batch.
    """
    theirs = {key.lstrip("+"): value for key, _, value in (word.partition("=") for word in words if "=" in word)}
    presets = [word for word in words if "=" not in word and not word.startswith("-")]
    data = next((theirs[key] for key in ("data_paths", "data_path", "data") if key in theirs), DATA).strip("[]'\"")
    maze, hrm = "maze" in data, "hrm" in theirs.get("arch", "")
    kind = "hrm" if hrm else "trm-mlp" if theirs.get("arch.mlp_t", "").lower() == "true" else "trm-att"
    found = [*(presets or [f"{kind}-{'maze' if maze else 'sudoku'}"]), f"data={data}"]
    batch = int(theirs.get("global_batch_size", BATCH))
    left = []
    for key, value in theirs.items():
        if (ours := VALUES.get((key, value.lower()))) is not None:
            found += ours.split()
        elif key in SAME:
            found.append(f"{SAME[key]}={value}")
            found += ["optimizer.schedule.kind=cosine"] if key == "lr_min_ratio" and float(value) < 1 else []
        elif key in ("epochs", "eval_interval"):
            steps = max(1, int(float(value) * GROUPS / batch))
            found.append(f"{'training.steps' if key == 'epochs' else 'training.monitor.every'}={steps}")
        elif key == "run_name":
            found.append(f"run=runs/{value}")
        elif key not in {*NAMED, "arch.H_layers", "data", "run"} or (key == "arch" and value not in ARCHITECTURES):
            left.append(f"{key}={value}")
    if {"beta1", "beta2"} & theirs.keys():
        found.append(f"optimizer.betas=[{theirs.get('beta1', 0.9)},{theirs.get('beta2', 0.95)}]")
    return f"python train.py {shlex.join(found)}", left
