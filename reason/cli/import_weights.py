"""reason import-weights: an HRM or TRM checkpoint → a run that evaluates."""

from __future__ import annotations

import argparse
import json
import pickle
import sys
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import torch
import yaml
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from datasets_gen.layout import Metadata, read_metadata, splits_of
from reason.config import Config, override_tree, split_arguments
from reason.errors import ConfigError
from reason.models.foreign import from_foreign, inferred, load_foreign
from reason.models.recursive import RecursiveConfig, RecursiveModel
from reason.parity import deviations
from reason.run import create_run, refuse_existing, reserve_run
from reason.training.checkpoint import save_checkpoint

DESCRIPTION = """Make a run from a checkpoint of the original HRM or TRM code.

  reason import-weights step_65100 run=runs/trm data=data/sudoku-extreme
  reason import-weights model.safetensors run=runs/hrm data=data/maze model.heads=8 model.l_cycles=2
  python evaluate.py runs/trm

Reads a torch state_dict (weights only, nothing is unpickled), .safetensors, or .npz with `param.*` arrays.
The config comes from the shapes, from all_config.yaml beside the file (or `config` in the .npz), and from
what you type; what none of these decides is the authors' default, and is named. Where an .npz also holds recordings
of the original code (batch.*, eval.*, train.*, grad.*), the imported model is held against them."""


UNREADABLE = (
    pickle.UnpicklingError, RuntimeError, ValueError, OSError, KeyError, EOFError, SafetensorError, BadZipFile,
    yaml.YAMLError,
)  # fmt: skip


def main(argv: list[str]) -> int:
    """Read, infer, write the run; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="reason import-weights", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("words", nargs="+", metavar="FILE | run=DIR | data=DIR | section.key=value")
    words, pairs = split_arguments(parser.parse_args(argv).words)
    if len(words) != 1:
        raise ConfigError(f"one weights file is needed, got {' '.join(words) or 'none'}")
    file = Path(words[0])
    directory, run_name = pairs.pop("data", None), pairs.pop("run", None)
    if run_name:
        refuse_existing(Path(run_name))
    weights, stated = read_weights(file)
    metadata = _metadata(directory) if directory else None
    ours = from_foreign(weights)
    section, shape, assumed = inferred(ours, metadata.seq_len if metadata else None, stated)
    tree = Config(name="imported").model_dump() | {"model": section}
    tree["data"]["directory"] = directory
    tree["rollout"]["supervision_steps"] = stated.get("halt_max_steps", 16)
    if section["separate_networks"]:
        tree["rollout"]["halting"], tree["loss"]["weights"]["q_continue"] = "q-learning", 0.5
    if "softmax" in str(stated.get("loss", {}).get("loss_type", "")):
        tree["loss"]["likelihood"] = "softmax"
    tree["ema"]["rate"] = None
    if stated.get("forward_dtype") == "float32":
        tree["training"]["precision"] = "fp32"
    config = override_tree(tree, pairs)
    if metadata and (metadata.seq_len, metadata.vocab_size) != (shape.cells, shape.vocabulary):
        raise ConfigError(
            f"the weights are for {shape}, {directory} has {metadata.seq_len} cells, {metadata.vocab_size} tokens"
        )
    assert isinstance(config.model, RecursiveConfig), "what is inferred from HRM or TRM weights"
    model = RecursiveModel(config.model, shape)
    load_foreign(model, ours)
    run = Path(run_name) if run_name else reserve_run("imported")
    create_run(run, config, shape, metadata.task if metadata else {}, sys.argv)
    save_checkpoint(run, 0, model.state_dict(), None, {"imported_from": str(file)}, keep=1)
    kind = "HRM" if section["separate_networks"] else f"TRM ({section['mixer']})"
    print(f"{run}: {kind}, {model.parameter_count():,} parameters, {shape}")
    open_questions = [setting for name, setting in assumed.items() if f"model.{name}" not in pairs]
    if open_questions:
        print(f"assumed, since neither the file nor you said: {', '.join(open_questions)}")
    if file.suffix == ".npz":
        _report_parity(model, config, file)
    print(f"next: python evaluate.py {run}" + ("" if directory else " data=DIR"))
    return 0


def _metadata(directory: str) -> Metadata:
    """dataset.json of whatever split the set has."""
    splits = splits_of(directory)
    return read_metadata(directory, splits[0] if splits else "test")


def _report_parity(model: RecursiveModel, config: Config, file: Path) -> None:
    """Where the file also holds recordings of the original code: the largest deviation of each kind."""
    with np.load(file, allow_pickle=False) as recorded:
        if not {"batch.inputs", "batch.labels", "batch.puzzle_identifiers"} <= set(recorded.files):
            return
        found = deviations(model, config, recorded)
    for kind, what in (
        ("eval", "states, logits, q: absolute"),
        ("train", "losses: absolute"),
        ("grad", "gradients: relative"),
    ):
        of_kind = {key: value for key, value in found.items() if key.startswith(f"{kind}.")}
        if of_kind:
            worst = max(of_kind, key=lambda key: of_kind[key])
            print(f"against the recording, {what} deviation at most {of_kind[worst]:.1e} ({worst}, of {len(of_kind)})")


def read_weights(file: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """A weights file as named tensors, and the authors' config where one lies in it or beside it.

    Raises:
        ConfigError: the file is missing or not a plain set of tensors.
    """
    if not file.is_file():
        raise ConfigError(f"no weights file at {file}")
    try:
        sibling = file.parent / "all_config.yaml"
        stated = _architecture(yaml.safe_load(sibling.read_text())) if sibling.is_file() else {}
        if file.suffix == ".npz":
            with np.load(file, allow_pickle=False) as arrays:
                stated |= json.loads(str(arrays["config"])) if "config" in arrays else {}
                names = [name for name in arrays.files if name.startswith("param.")]
                return {name.removeprefix("param."): torch.from_numpy(arrays[name]) for name in names}, stated
        if file.suffix == ".safetensors":
            return load_file(file), stated
        loaded = torch.load(file, map_location="cpu", weights_only=True)
    except UNREADABLE as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise ConfigError(
            f"{file} cannot be read as weights ({reason}); a torch state_dict, .safetensors or .npz is needed"
        ) from None
    if isinstance(loaded, dict) and isinstance(loaded.get("model"), dict):  # {"model": state_dict, …}
        loaded = loaded["model"]
    if not isinstance(loaded, dict) or not all(isinstance(value, Tensor) for value in loaded.values()):
        raise ConfigError(f"{file} is not a state_dict: names to tensors expected, got {type(loaded).__name__}")
    return loaded, stated


def _architecture(tree: Any) -> dict[str, Any]:
    """The `arch` section of the authors' all_config.yaml."""
    arch = tree.get("arch") if isinstance(tree, dict) else None
    return dict(arch) if isinstance(arch, dict) else {}
