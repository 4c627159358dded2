"""Translates command lines of the original HRM and TRM code to those of this package.

Typed settings override the defaults of their config files. The result is a preset and the settings that differ from it.
"""

from __future__ import annotations

import math
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from datasets_gen.layout import Metadata, read_metadata, splits_of
from reason.config.overrides import changes_between, leaves, override
from reason.errors import ConfigError
from reason.presets import preset, presets

# Their setting: ours, of the same values, and the defaults of TRM and of HRM, from config/cfg_pretrain.yaml,
# config/arch/*.yaml and the models' classes of github.com/SamsungSAILMontreal/TinyRecursiveModels and sapientinc/HRM.
SAME = {
    "arch.H_cycles": ("model.h_cycles", "3", "2"),
    "arch.L_cycles": ("model.l_cycles", "6", "2"),
    "arch.L_layers": ("model.num_layers", "2", "4"),
    "arch.hidden_size": ("model.hidden_size", "512", "512"),
    "arch.num_heads": ("model.num_heads", "8", "8"),
    "arch.expansion": ("model.expansion", "4", "4"),
    "arch.rope_theta": ("model.rope_theta", "10000.0", "10000.0"),
    "arch.puzzle_emb_len": ("model.puzzle_emb_len", "16", "1"),
    "arch.halt_max_steps": ("rollout.supervision_steps", "16", "16"),
    "arch.halt_exploration_prob": ("rollout.halt_exploration_prob", "0.1", "0.1"),
    "global_batch_size": ("training.batch_size", "768", "768"),
    "lr": ("optimizer.lr", "1e-4", "1e-4"),
    "lr_min_ratio": ("optimizer.schedule.min_ratio", "1.0", "1.0"),
    "lr_warmup_steps": ("optimizer.schedule.warmup_steps", "2000", "2000"),
    "weight_decay": ("optimizer.weight_decay", "0.1", "0.1"),
    "puzzle_emb_lr": ("optimizer.puzzle_emb_lr", "1e-2", "1e-2"),
    "puzzle_emb_weight_decay": ("optimizer.puzzle_emb_weight_decay", "0.1", "0.1"),
    "ema_rate": ("ema.decay", "0.999", "0.999"),
    "seed": ("seed", "0", "0"),
}
VALUES = {  # their setting and value (lower case): ours
    ("arch.pos_encodings", "rope"): "model.positions=rotary",
    ("arch.pos_encodings", "learned"): "model.positions=learned",
    ("arch.pos_encodings", "none"): "model.positions=none",
    ("arch.mlp_t", "true"): "model.mixer=mlp",
    ("arch.mlp_t", "false"): "model.mixer=attention",
    ("arch.no_ACT_continue", "true"): "rollout.halting=bce loss.weights.q_continue=0",
    ("arch.no_ACT_continue", "false"): "rollout.halting=q-learning loss.weights.q_continue=0.5",
    ("arch.puzzle_emb_ndim", "0"): "model.puzzle_emb_len=0",
    ("arch.forward_dtype", "bfloat16"): "training.precision=bf16",
    ("arch.forward_dtype", "float32"): "training.precision=fp32",
    ("arch.loss.loss_type", "stablemax_cross_entropy"): "loss.likelihood=stablemax",
    ("arch.loss.loss_type", "softmax_cross_entropy"): "loss.likelihood=softmax",
    ("arch", "trm_singlez"): "model.states=1",
    ("ema", "false"): "ema.decay=none",
}
BOTH = {  # further defaults
    "arch.pos_encodings": "rope", "arch.mlp_t": "False", "arch.loss.loss_type": "stablemax_cross_entropy",
    "ema": "False", "epochs": "100000", "beta1": "0.9", "beta2": "0.95",
}  # fmt: skip
EQUAL = {"arch.puzzle_emb_ndim": "arch.hidden_size", "arch.H_layers": "arch.L_layers"}  # one setting here
DATA = "data/arc-aug-1000"
TRM, HRM = ("trm", "trm_singlez"), ("hrm", "hrm_v1")  # of arch=…
OF_TRM = {  # settings of HRM's code only, whose README has no arch=
    "data_paths", "data_paths_test", "evaluators", "ema", "ema_rate", "load_checkpoint", "freeze_weights",
    "min_eval_interval", "arch.mlp_t", "arch.puzzle_emb_len", "arch.no_ACT_continue",
}  # fmt: skip
READ = {
    "arch", "data", "run", "data_path", "data_paths", "run_name", "checkpoint_path", "epochs", "beta1", "beta2", "ema",
    "load_checkpoint",
}  # fmt: skip
LEFT = {  # without a counterpart, or not needed
    "data_paths_test", "evaluators", "freeze_weights", "min_eval_interval", "project_name", "eval_save_outputs",
    "eval_interval", "checkpoint_every_eval",
}  # fmt: skip
THEIRS = {*SAME, *READ, *LEFT} - {"seed", "data", "run"}
PUZZLES = 1000  # of their Sudoku and maze sets


def answer(words: Sequence[str]) -> str | None:
    """Translate a command line of the original code to one of this project; None for other command lines."""
    script = next((n for n, word in enumerate(words) if Path(word).name == "pretrain.py"), -1)
    before, words = words[: script + 1], words[script + 1 :]
    typed = {key.lstrip("+"): value for key, _, value in (word.partition("=") for word in words if "=" in word)}
    theirs = THEIRS & typed.keys() or any(key.startswith("arch.") for key in typed)
    named = [word for word in words if "=" not in word and not word.startswith("-")]
    if not (before or theirs) or not set(named) <= presets().keys():
        return None
    line, notes = spelled(typed, named[0] if named else None, bool(before))
    count = re.search(r"--nproc[-_]per[-_]node[= ](\w+)", " ".join(before))
    processes = count[1] if count else os.environ.get("LOCAL_WORLD_SIZE")
    if processes:
        line = line.replace("python train.py", f"torchrun --nproc-per-node {processes} train.py")
    remarks = f" ({'; '.join(notes)})" if notes else ""
    return f"these are settings of the original HRM and TRM code; type: {line}{remarks}"


def spelled(typed: dict[str, str], named: str | None = None, script: bool = False) -> tuple[str, list[str]]:
    """Return a command line of this package for settings of the original code, and remarks on the rest.

    named: a typed preset of ours, whose settings replace the authors' defaults. script: `pretrain.py` was typed. Epochs
    become optimizer steps as in their code: epochs · groups · mean examples of a puzzle / batch.

    Raises:
        ConfigError: the network is not supported, or a value is not a number.
    """
    hrms = "data_path" in typed or (script and not OF_TRM & typed.keys())
    arch = typed.get("arch", "hrm_v1" if hrms else "trm")
    if arch not in TRM + HRM:
        raise ConfigError(f"arch={arch} is not supported; choose from {', '.join(TRM + HRM)}")
    notes = []
    if not {"arch", "data_path", "data_paths"} & typed.keys() and named is None:
        notes.append(f"read as arch={arch}; the other code's default is arch={'trm' if hrms else 'hrm_v1'}")
    defaults = {key: of[1 + (arch in HRM)] for key, of in SAME.items()} | BOTH
    defaults |= {"arch.no_ACT_continue": str(arch in TRM)} | ({"arch.H_layers": "4"} if arch in HRM else {})
    theirs = typed if named else defaults | typed
    paths = next((typed[key] for key in ("data_paths", "data_path", "data") if key in typed), None)
    paths = paths or (str(preset(named).config().data.directory) if named else DATA)
    folders = [folder.strip(" '\"") for folder in paths.strip("[]").split(",")]
    sets = [read_metadata(folder, "train") for folder in folders if "train" in splits_of(folder)]
    ours = _settings(theirs)
    kind, puzzle = "hrm" if arch in HRM else "trm-att", puzzle_of_folder(sets, folders[0])
    mlp = (kind, puzzle, ours.get("model.mixer")) == ("trm-att", "sudoku", "mlp")
    chosen = named or ("trm-mlp-sudoku" if mlp else f"{kind}-{puzzle}")
    config = preset(chosen).config()

    if "epochs" in theirs:
        examples = sum(each.total_groups * each.mean_puzzle_examples for each in sets)
        if len(sets) < len(folders):
            examples, counted = PUZZLES, f"{PUZZLES:,} puzzles"
            if puzzle == "arc":  # 100,000 epochs, as the preset states
                examples, counted = config.drawn / 100_000, "only the 800 tasks of ARC-AGI-1"
            notes.append(f"{', '.join(folders)} does not exist: the steps are computed for {counted}")
        batch = max(1.0, _number(theirs, "global_batch_size", config.training.batch_size))
        ours["training.steps"] = str(max(1, int(_number(theirs, "epochs") * examples / batch)))
    if len(folders) > 1:
        notes.append("the sets give batches in turn")

    known = leaves(config.model_dump())
    native = {key: value for key, value in typed.items() if key in known and key not in SAME}  # settings of ours
    changed = changes_between(config, override(config, ours | native))
    shown = [f"{key}={value}" for key, value in (ours | native).items() if key in changed]
    data = [f"data={','.join(folders)}"] if named is None or {"data", "data_path", "data_paths"} & typed.keys() else []
    run = typed.get("run", typed.get("checkpoint_path", f"runs/{typed['run_name']}" if "run_name" in typed else None))
    line = [chosen, *data, *shown, *([f"run={run}"] if run else [])]
    begin = ""
    if typed.get("load_checkpoint", "null") != "null":
        begin = f"reason {shlex.join(['import-weights', typed['load_checkpoint'], 'run=runs/begun', *data])} && "
        line.append("init_from=runs/begun")
    if left := [
        f"{key}={value}"
        for key, value in theirs.items()
        if key not in {*SAME, *READ, *native}
        and (key, value.lower()) not in VALUES
        and value != theirs.get(EQUAL.get(key, ""))
    ]:
        notes.append(f"ignored: {', '.join(left)}")
    return f"{begin}python train.py {shlex.join(line)}", notes


def _settings(theirs: dict[str, str]) -> dict[str, str]:
    """Translate their typed settings to ours."""
    ours = {name: theirs[key] for key, (name, *_) in SAME.items() if key in theirs}
    for (key, value), words in VALUES.items():
        if theirs.get(key, "").lower() == value:
            ours |= dict(word.split("=") for word in words.split())
    if ours.get("model.mixer") == "mlp" and ours.get("model.positions", "rotary") == "rotary":
        ours["model.positions"] = "none"  # their layers with mlp_t do not use rope
    if ours.get("model.puzzle_emb_len") == "0" and theirs.get("arch.puzzle_emb_ndim") != "0":
        ours["model.puzzle_emb_len"] = "1"  # as many as the embedding needs
    if "lr_min_ratio" in theirs:
        cosine = _number(theirs, "lr_min_ratio") < 1
        ours["optimizer.schedule.kind"] = "cosine" if cosine else "constant"
        if not cosine:
            del ours["optimizer.schedule.min_ratio"]
    if {"beta1", "beta2"} & theirs.keys():
        ours["optimizer.betas"] = ",".join({**BOTH, **theirs}[key] for key in ("beta1", "beta2"))
    return ours


def _number(theirs: Mapping[str, str], key: str, default: float = 0) -> float:
    text = theirs.get(key, str(default))
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ConfigError(f"{key}={text} of the original code is not a number; type one")
    return value


def puzzle_of_folder(sets: Sequence[Metadata], folder: str) -> str:
    """Return the puzzle of a folder (sudoku, maze, arc), by the vocabulary and cells of its sets or by its name."""
    if sets and sets[0].vocab_size == 12:
        return "arc"
    if sets and (sets[0].vocab_size, sets[0].seq_len) in ((6, 900), (11, 81)):
        return "maze" if sets[0].vocab_size == 6 else "sudoku"
    name = Path(folder).name.lower()
    return "arc" if re.search("(?<![a-z])arc(?![a-z])", name) else "maze" if "maze" in name else "sudoku"
