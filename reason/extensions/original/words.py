"""Command lines of the original HRM and TRM code, in the words of this package.

What is typed lies over the defaults of their config files; the whole is told as differences from the nearest preset.
"""

from __future__ import annotations

import os
import re
import shlex
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from datasets_gen.layout import Metadata, read_metadata, splits_of
from reason.config.overrides import changes_between, leaves, override
from reason.errors import ConfigError
from reason.presets import PRESETS, preset

# config/cfg_pretrain.yaml, of github.com/sapientinc/HRM and github.com/SamsungSAILMontreal/TinyRecursiveModels alike
TRAINING = {
    "global_batch_size": "768", "epochs": "100000", "lr": "1e-4", "lr_min_ratio": "1.0", "lr_warmup_steps": "2000",
    "beta1": "0.9", "beta2": "0.95", "weight_decay": "0.1", "puzzle_emb_weight_decay": "0.1", "puzzle_emb_lr": "1e-2",
    "seed": "0", "ema": "False", "ema_rate": "0.999",
}  # fmt: skip
DATA = "data/arc-aug-1000"
# config/arch/*.yaml and, where these are silent, the defaults of the models' classes
BOTH = {
    "arch.halt_exploration_prob": "0.1", "arch.halt_max_steps": "16", "arch.hidden_size": "512", "arch.num_heads": "8",
    "arch.expansion": "4", "arch.pos_encodings": "rope", "arch.rope_theta": "10000.0", "arch.rms_norm_eps": "1e-5",
    "arch.mlp_t": "False", "arch.loss.loss_type": "stablemax_cross_entropy",
}  # fmt: skip
TRM = BOTH | {
    "arch.H_cycles": "3", "arch.L_cycles": "6", "arch.L_layers": "2", "arch.puzzle_emb_len": "16",
    "arch.no_ACT_continue": "True",
}  # fmt: skip
HRM = BOTH | {
    "arch.H_cycles": "2", "arch.L_cycles": "2", "arch.H_layers": "4", "arch.L_layers": "4", "arch.puzzle_emb_len": "1",
    "arch.no_ACT_continue": "False",
}  # fmt: skip
ARCHITECTURES = {"trm": TRM, "trm_singlez": TRM, "hrm": HRM, "hrm_v1": HRM}
OF_TRM = {  # that only its code has; HRM's README types no arch=
    "data_paths", "data_paths_test", "evaluators", "ema", "ema_rate", "load_checkpoint", "freeze_weights",
    "min_eval_interval", "arch.mlp_t", "arch.puzzle_emb_len", "arch.no_ACT_continue",
}  # fmt: skip

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
    ("arch.no_ACT_continue", "true"): "rollout.halting=bce loss.weights.q_continue=0",
    ("arch.no_ACT_continue", "false"): "rollout.halting=q-learning loss.weights.q_continue=0.5",
    ("arch.forward_dtype", "bfloat16"): "training.precision=bf16",
    ("arch.forward_dtype", "float32"): "training.precision=fp32",
    ("arch.loss.loss_type", "stablemax_cross_entropy"): "loss.likelihood=stablemax",
    ("arch.loss.loss_type", "softmax_cross_entropy"): "loss.likelihood=softmax",
    ("arch", "trm_singlez"): "model.states=1",
    ("ema", "false"): "ema.decay=none",
}
ELSEWHERE = {"arch", "data", "run", "data_path", "data_paths", "run_name", "checkpoint_path", "checkpoint_every_eval",
             "epochs", "beta1", "beta2", "ema", "load_checkpoint"}  # fmt: skip
SILENT = {  # their defaults, which ask for nothing
    ("freeze_weights", "false"), ("min_eval_interval", "0"), ("eval_save_outputs", "[]"), ("data_paths_test", "[]"),
}  # fmt: skip
LEFT = {"evaluators", "project_name", "eval_save_outputs", "eval_interval", *(key for key, _ in SILENT)}
THEIRS = {*SAME, *ELSEWHERE, *LEFT} - {"seed", "data", "run"}
NUMBERS = {key for key, value in (TRAINING | HRM).items() if value[0].isdigit()} | {"eval_interval"}
PUZZLES = 1000  # of their Sudoku and maze sets


def answer(words: Sequence[str]) -> str | None:
    """What to type here for a command line of the original code; None for another one.

    Under torchrun the first process answers; the others wait for torchrun to end them, which it does when that fails.
    """
    script = next((n for n, word in enumerate(words) if Path(word).name == "pretrain.py"), -1)
    before, words = words[: script + 1], words[script + 1 :]
    typed = {key.lstrip("+"): value for key, _, value in (word.partition("=") for word in words if "=" in word)}
    theirs = THEIRS & typed.keys() or any(key.startswith("arch.") for key in typed)
    named = [word for word in words if "=" not in word and not word.startswith("-")]
    if not (before or theirs) or not set(named) <= PRESETS.keys():
        return None
    if int(os.environ.get("RANK", 0)):
        time.sleep(10)
        raise SystemExit(1)
    line, notes = spelled(typed, named[0] if named else None, bool(before))
    count = re.search(r"--nproc[-_]per[-_]node[= ](\w+)", " ".join(before))
    processes = count[1] if count else os.environ.get("LOCAL_WORLD_SIZE")
    if processes:
        line = line.replace("python train.py", f"torchrun --nproc-per-node {processes} train.py")
    said = f" ({'; '.join(notes)})" if notes else ""
    return f"these are settings of the original HRM and TRM code; type: {line}{said}"


def spelled(typed: dict[str, str], named: str | None = None, script: bool = False) -> tuple[str, list[str]]:
    """A command line of this package for settings of the original code, and what it does not say.

    named: a preset of ours that was typed: what it sets takes the place of the authors' defaults. script: `pretrain.py`
    was typed. Epochs become optimizer steps as in their code: epochs · groups · mean examples of a puzzle / batch.

    Raises:
        ConfigError: a network that is not here, or a value that is no number.
    """
    for key in sorted(NUMBERS & typed.keys()):
        if not re.fullmatch(r"\d*\.?\d+\.?(e[-+]?\d+)?", typed[key].lower()):
            default = f", such as its default {key}={(TRAINING | BOTH)[key]}" if key in TRAINING | BOTH else ""
            raise ConfigError(f"{key}={typed[key]} of the original code is no number; type one{default}")
    hrms = "data_path" in typed or (script and not OF_TRM & typed.keys())
    arch = typed.get("arch", "hrm_v1" if hrms else "trm")
    if arch not in ARCHITECTURES:
        raise ConfigError(f"arch={arch} of the original code is not here; of arch=…, {', '.join(ARCHITECTURES)} are")
    notes = []
    if not {"arch", "data_path", "data_paths"} & typed.keys() and named is None:
        notes.append(f"read as arch={arch}; the other code's default is arch={'trm' if hrms else 'hrm_v1'}")
    theirs = dict(typed) if named else TRAINING | ARCHITECTURES[arch] | typed
    paths = next((typed[key] for key in ("data_paths", "data_path", "data") if key in typed), None)
    paths = paths or (str(preset(named).config().data.directory) if named else DATA)
    folders = [folder.strip(" '\"") for folder in paths.strip("[]").split(",")]
    sets = [read_metadata(folder, "train") for folder in folders if "train" in splits_of(folder)]
    ours = _settings(theirs)
    kind = "hrm" if ARCHITECTURES[arch] is HRM else "trm-att"
    puzzle = puzzle_of_folder(sets, folders[0])
    mlp = (kind, puzzle, ours.get("model.mixer")) == ("trm-att", "sudoku", "mlp")
    chosen = named or ("trm-mlp-sudoku" if mlp else f"{kind}-{puzzle}")
    config = preset(chosen).config()
    known = leaves(config.model_dump())
    batch = max(1, float(theirs.get("global_batch_size", config.training.batch_size)))

    examples = sum(each.total_groups * each.mean_puzzle_examples for each in sets)
    if len(sets) < len(folders):
        examples, counted = PUZZLES, f"{PUZZLES:,} puzzles"
        if puzzle == "arc":  # 100,000 epochs, as the preset states
            examples, counted = config.drawn / 100_000, "the 800 tasks of ARC-AGI-1 alone"
        if "epochs" in theirs:
            notes.append(f"{', '.join(folders)} is not there: the steps are counted for {counted}")
    if "epochs" in theirs:
        ours["training.steps"] = str(max(1, int(float(theirs["epochs"]) * examples / batch)))
    if "eval_interval" in typed:
        if "validation" in splits_of(folders[0]):
            ours["training.monitor.every"] = str(max(1, int(float(typed["eval_interval"]) * examples / batch)))
        else:
            notes.append("eval_interval: training measures a validation split, and the set has none; see evaluate.py")
    if len(folders) > 1:
        notes.append("the sets give batches in turn")

    own = {key: value for key, value in typed.items() if key in known and key not in SAME}  # typed in our words
    changed = changes_between(config, override(config, ours | own))
    shown = [f"{key}={value}" for key, value in (ours | own).items() if key in changed]
    data = [f"data={','.join(folders)}"] if named is None or {"data", "data_path", "data_paths"} & typed.keys() else []
    run = typed.get("run", typed.get("checkpoint_path", f"runs/{typed['run_name']}" if "run_name" in typed else None))
    line = [chosen, *data, *shown, *([f"run={run}"] if run else [])]
    begin = ""
    if typed.get("load_checkpoint", "null") != "null":
        begin = f"reason {shlex.join(['import-weights', typed['load_checkpoint'], 'run=runs/begun', *data])} && "
        line.append("init_from=runs/begun")
    return f"{begin}python train.py {shlex.join(line)}", notes + _left(typed, theirs, own.keys())


def _settings(theirs: Mapping[str, str]) -> dict[str, str]:
    """Our settings, as they are typed, of theirs."""
    ours = {own: theirs[key] for key, own in SAME.items() if key in theirs}
    for (key, value), words in VALUES.items():
        if theirs.get(key, "").lower() == value:
            ours |= dict(word.split("=") for word in words.split())
    if ours.get("model.mixer") == "mlp" and ours.get("model.positions", "rotary") == "rotary":
        ours["model.positions"] = "none"  # their layers with mlp_t make no use of rope
    if theirs.get("arch.puzzle_emb_ndim") == "0":
        ours["model.puzzle_emb_len"] = "0"
    elif ours.get("model.puzzle_emb_len") == "0":
        ours["model.puzzle_emb_len"] = "1"  # as many as the embedding fills
    if "lr_min_ratio" in theirs:
        cosine = float(theirs["lr_min_ratio"]) < 1
        ours["optimizer.schedule.kind"] = "cosine" if cosine else "constant"
        if not cosine:
            del ours["optimizer.schedule.min_ratio"]
    if {"beta1", "beta2"} & theirs.keys():
        betas = (theirs.get(key, TRAINING[key]) for key in ("beta1", "beta2"))
        ours["optimizer.betas"] = ",".join(betas)
    return ours


def puzzle_of_folder(sets: Sequence[Metadata], folder: str) -> str:
    """Which of the puzzles of their presets: by the vocabulary and cells of the set, else by its name."""
    if sets and sets[0].vocab_size == 12:
        return "arc"
    if sets and (sets[0].vocab_size, sets[0].seq_len) in ((6, 900), (11, 81)):
        return "maze" if sets[0].vocab_size == 6 else "sudoku"
    name = Path(folder).name.lower()
    return "arc" if re.search("(?<![a-z])arc(?![a-z])", name) else "maze" if "maze" in name else "sudoku"


def _left(typed: Mapping[str, str], theirs: Mapping[str, str], own: Iterable[str]) -> list[str]:
    """What is to be said of typed settings that have no word of ours."""
    said, missing = [], []
    high, low = theirs.get("arch.H_layers"), theirs.get("arch.L_layers")
    if "arch.no_ACT_continue" in theirs and theirs["arch.no_ACT_continue"].lower() == "false" and high != low:
        missing.append(f"arch.H_layers={high} beside arch.L_layers={low}: both networks have as many layers here")
    for key, value in typed.items():
        if key in {*SAME, *ELSEWHERE, *own, "eval_interval"} or (key, value.lower()) in {*VALUES, *SILENT}:
            continue
        if key == "evaluators":
            said.append("evaluators: not needed, evaluate.py prints ARC's votes")
        elif key == "data_paths_test":
            said.append(f"data_paths_test: python evaluate.py RUN data={value.strip('[]')}")
        elif key == "arch.H_layers":
            said += [] if missing else ["arch.H_layers: TRM's code reads only arch.L_layers"]
        elif key == "arch.puzzle_emb_ndim" and value in ("0", theirs.get("arch.hidden_size", "512")):
            pass
        elif key != "arch.rms_norm_eps" or float(value) != float(BOTH[key]):
            missing.append(f"{key}={value}")
    return said + ([f"no counterpart: {', '.join(missing)}"] if missing else [])
