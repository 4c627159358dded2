"""Exports a run to a folder with its weights and a model card; it loads like a run, without training state.

NAME/config.json, checkpoints/step-NNNNNN/   as in a run; weights.safetensors holds the averaged weights
     card.json                               what it solves, its data, seed and command, accuracy by step and n
     README.md                               the same as text

`hf upload` puts such a folder on the Hugging Face hub; its name is then hf:OWNER/NAME.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from datasets_gen.layout import read_metadata, splits_of
from datasets_gen.typed import quoted
from reason.config.describe import has_mark, refuse_unreadable
from reason.config.overrides import Changes, as_typed, changes_between, derive, differing, read_config
from reason.config.schema import Config
from reason.errors import ConfigError
from reason.extensions.export.card import write_card
from reason.models.mixing import fits_any_set
from reason.presets import presets
from reason.pretrained import pretrained_models
from reason.runs.directory import chosen_checkpoint, create_run, read_record, read_shape, which_weights
from reason.runs.evaluation import evaluate_run
from reason.runs.folders import new_path
from reason.runs.results import is_number
from reason.runs.sets import names_presets_own_set
from reason.settings.base import Mark
from reason.training.checkpoint import load_weights, save_checkpoint, saved_state, step_of
from reason.training.log import read_metrics
from reason.version import __version__

CHOICE = ("evaluation.checkpoint", "evaluation.weights")  # settings that select the exported weights
KEPT = ("split", "puzzles", "steps", "precision", "exact_by_step", "cell_by_step", "valid_by_step")
STORED = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


def export_run(run: Path, out: Path, config: Config, stored: str, sets: list[str]) -> dict[str, Any]:
    """Write the folder `out` atomically; returns the card.

    stored: the type of the weights in the file. The exported weights are evaluated on the test split of every set, with
    the settings of `config`. sets: by default those that the run was trained on.

    Raises:
        ConfigError, DatasetError: there is no checkpoint, `out` exists already, or a set does not exist.
    """
    trained_with, record = read_config(run / "config.json"), read_record(run)
    changes = changes_between(trained_with, config)
    refuse_unreadable(changes)
    sets = sets or config.data.directories
    if not sets:
        raise ConfigError(f"{run} has no data set; type data=DIR")
    portable = _portable(trained_with)
    command = _command(portable, record.get("command", []))
    files = [Path(file).name for file in record.get("imports", [])]
    if portable.training.precision in ("bf16", "fp16"):  # slow on machines without this type
        portable = derive(portable, {"training.precision": "auto"})
    with new_path(out, "type another folder, or remove it") as model:
        checkpoint = chosen_checkpoint(run, config.evaluation.checkpoint)
        which = which_weights(checkpoint, config.evaluation.weights)
        weights = {
            name: tensor.to(STORED[stored]) if tensor.is_floating_point() else tensor
            for name, tensor in load_weights(checkpoint, which).items()
        }
        create_run(model, portable, read_shape(run), record["task"], command, record["training_set"], files)
        state = {"step": step_of(checkpoint), "exported": which}
        if saved_state(checkpoint).get("config"):
            state["config"] = portable.model_dump(mode="json")
        save_checkpoint(model, step_of(checkpoint), weights, None, state)
        read, evaluations = zip(*(_results(model, out.name, directory, changes) for directory in sets), strict=True)
        card = _card(run, out.name, stored, step_of(checkpoint), portable, command) | {
            "weights": which,
            "parameters": read[0]["parameters"],
            "bytes": sum(path.stat().st_size for path in model.rglob("*.safetensors")),
            "evaluations": evaluations,
        }
        write_card(model, card)
    return card


def _portable(config: Config) -> Config:
    """Return the config with the paths of sets in data/, and of the initial run in runs/."""
    names = [path if not Path(path).is_absolute() else f"data/{Path(path).name}" for path in config.data.directories]
    if not names_presets_own_set(config):
        config = derive(config, {"data.generate": {}})
    begun = config.init_from
    if begun is not None and begun not in pretrained_models():
        begun = f"runs/{Path(begun).name}"
    return derive(config, {"data.directory": ",".join(names) or None, "init_from": begun})


def _command(config: Config, typed: Sequence[str]) -> list[str]:
    """Return the command line of train.py for this config: its preset and the settings that differ.

    typed: the run's command, which names a user's preset. Empty for imported weights, which were not trained.
    """
    chosen = presets(config.name).get(config.name)
    if chosen is None:
        preset = next((word for word in typed if ".py:" in word), None)
        file, _, called = (preset or "").rpartition(":")
        return [] if preset is None else ["train.py", f"{Path(file).name}:{called}"]
    trees = [chosen.config().model_dump(mode="json"), config.model_dump(mode="json")]
    changes = {key: values[1] for key, values in differing(trees).items() if not has_mark(key, Mark.OUTSIDE)}
    if not names_presets_own_set(config):
        changes = {"data.directory": config.data.directory} | changes
    words = [word.replace("data.directory=", "data=") for word in as_typed(changes)]
    return ["train.py", config.name, *words]


def _results(model: Path, name: str, directory: str, changes: Changes) -> tuple[dict[str, Any], dict[str, Any]]:
    """Evaluate a set and remove the evaluation's folder; returns results.json and the set's entry in the card."""
    asked = {key: value for key, value in changes.items() if key not in CHOICE} | {"data.directory": directory}
    results, folder = evaluate_run(model, derive(read_config(model / "config.json"), asked), "card")
    shutil.rmtree(folder.parent)
    named = Path(directory).resolve().name
    typed = as_typed({key: value for key, value in asked.items() if key not in ("evaluation.steps", "data.directory")})
    words = shlex.join([f"data=data/{named}", f"steps={results['steps']}", *typed])
    entry = {"set": named, "made_by": made_by(directory, results["split"])}
    entry |= {key: results[key] for key in KEPT if key in results}
    return results, entry | {"command": f"python evaluate.py {quoted(name)} {words}"}


def made_by(directory: str, split: str) -> str | None:
    """Return the command that made a set, as dataset.json has it."""
    return read_metadata(directory, split).provenance.get("command") if split in splits_of(directory) else None


def _card(run: Path, name: str, stored: str, step: int, portable: Config, command: list[str]) -> dict[str, Any]:
    """Return a card's entries on the training up to the step of its weights; `portable`: its config."""
    record, trained_with, shape = read_record(run), read_config(run / "config.json"), read_shape(run)
    seconds = [line["seconds"] for line in read_metrics(run) if is_number(line.get("seconds")) and line["step"] <= step]
    made: list[str | None]
    if names_presets_own_set(trained_with):
        made = [f"python -m datasets_gen {shlex.join(words)}" for words in trained_with.data.commands]
    else:
        made = [made_by(directory, "train") for directory in trained_with.data.directories]
    return {
        "name": name,
        "summary": chosen.summary if (chosen := presets(portable.name).get(portable.name)) else "",
        "preset": portable.name,
        "task": record["task"],
        "cells": shape.seq_len,
        "tokens": shape.vocab_size,
        "seed": portable.seed,
        "step": step,
        "trained_steps": portable.rollout.trained_steps,
        "stored": stored,
        "seconds": seconds[-1] if seconds else None,
        "command": shlex.join(("python", *command)) if command else None,
        "data": [
            {"set": Path(directory).name, "made_by": words}
            for directory, words in dict(zip(portable.data.directories, made, strict=True)).items()
        ],
        "sha256": record["training_set"],
        **({"rules": " data=FILE.py"} if fits_any_set(portable.model) else {}),
        "version": __version__,
        "torch": record.get("torch"),
    }
