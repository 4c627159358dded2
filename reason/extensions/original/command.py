"""reason import-weights: converts an HRM or TRM checkpoint to a run."""

from __future__ import annotations

import pickle
import shlex
import sys
import warnings
from pathlib import Path
from typing import Any, cast

import torch
import yaml
from safetensors.torch import load_file
from torch import Tensor

from datasets_gen.layout import read_metadata, splits_of
from datasets_gen.typed import Parser, quoted, typed
from reason.config.overrides import as_typed, changes_between, override, split_arguments
from reason.config.schema import Config
from reason.data.puzzles import shape_of
from reason.errors import ConfigError
from reason.extensions.original.weights import (
    OUR_SETTINGS,
    from_original,
    inferred,
    load_original,
    refuse_contradiction,
)
from reason.extensions.original.words import puzzle_of_folder
from reason.files import read_text
from reason.models import RecursiveModel, build_model
from reason.presets import preset
from reason.runs.directory import create_run, next_run, refuse_existing
from reason.training.checkpoint import save_checkpoint

DESCRIPTION = """Make a run from a checkpoint of the original HRM or TRM code, or of a fork (CGAR, EqR).

  reason import-weights step_65100 run=runs/trm data=data/sudoku-extreme
  reason import-weights model.safetensors run=runs/hrm data=data/maze model.num_heads=8 model.l_cycles=2
  reason import-weights weights.pt run=runs/bare cells=81
  python evaluate.py runs/trm

Reads a torch state_dict, by itself or under a name in a file ("ema" before "model" before "state_dict" before another
name), or .safetensors; of a whole state of training only the tensors; no code of the file runs. The config comes
from the shapes, from all_config.yaml or config.json in the same folder (or `config` in the file), and from what you
type. Any other setting has the authors' default, and the command prints it. The precision is that of the file: float32
if its initial states are float32."""

_TYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
SETTINGS = 1_000_000  # maximum bytes of all_config.yaml


def main(argv: list[str]) -> int:
    """Read the checkpoint, infer its config and write the run; returns the exit status."""
    parser = Parser(prog="reason import-weights", description=DESCRIPTION)
    parser.add_argument("words", nargs="+", metavar="FILE | run=DIR | data=DIR | cells=N | section.key=value")
    words, pairs = split_arguments(parser.parse_args(argv).words)
    if len(words) != 1:
        raise ConfigError(f"one weights file is needed, got {' '.join(words) or 'none'}")
    file = Path(words[0])
    directory, run_name, cells = (pairs.pop(key, None) for key in ("data", "run", "cells"))
    if run_name:
        refuse_existing(Path(run_name))
    weights, stated, taken = read_weights(file)
    metadata = read_metadata(directory, next(iter(splits_of(directory)), "test")) if directory else None
    config_of = dict(stated)
    stated |= {"seq_len": cells} if cells else {}
    stated |= {original: pairs[f"model.{ours}"] for original, ours in OUR_SETTINGS.items() if f"model.{ours}" in pairs}
    try:
        ours = from_original(weights)
        section, shape, assumed = inferred(ours, metadata.seq_len if metadata else None, stated)
        refuse_contradiction(config_of, section)
        config = override(_config(section, stated, directory, weights), pairs)
        learned = ours.get("puzzle_embedding.weight") if section["puzzle_emb_len"] else None
        if metadata:
            of_set = shape_of(metadata)
            if (of_set.seq_len, of_set.vocab_size) != (shape.seq_len, shape.vocab_size):
                raise ConfigError(
                    f"the weights are for {shape}, {directory} has {of_set}; type the set of their training: data=DIR"
                )
            shape = of_set
        if learned is not None and len(learned) != shape.num_puzzle_identifiers:  # as TRM's code does
            ours["puzzle_embedding.weight"] = learned.mean(0).repeat(shape.num_puzzle_identifiers, 1)
        model = cast(RecursiveModel, build_model(config.model, shape))
        load_original(model, ours)
    except ConfigError:
        raise
    except (KeyError, IndexError, ValueError, TypeError, OverflowError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise ConfigError(f"{file} is not of HRM or TRM, or its config states other settings ({reason})") from None
    run = Path(run_name) if run_name else next_run("imported")
    create_run(run, config, shape, metadata.task if metadata else {}, sys.argv)
    save_checkpoint(run, 0, model.state_dict(), None, {"imported_from": str(file)})
    kind = "HRM" if section["separate_networks"] else f"TRM ({section['mixer']})"
    states = ", a single z" if model.config.states == 1 else ""
    print(f"{run}: {kind}{states}, {model.parameter_count():,} parameters, {shape}; {config.training.precision}")
    if taken:
        print(f"weights from {taken}")
    count = shape.num_puzzle_identifiers
    if learned is not None and len(learned) != count:
        print(
            f"ignored: the embeddings of {len(learned):,} puzzle identifiers; each of the {count:,} of {directory} "
            "has their mean, so train on"
        )
    elif count > 1 and section["puzzle_emb_len"]:
        known = f"only their number agrees with {directory}" if directory else "evaluate on the set of its training"
        print(f"the checkpoint does not say which puzzles its {count} identifiers belong to; {known}")
    open_questions = [setting for name, setting in assumed.items() if f"model.{name}" not in pairs]
    if open_questions:
        print(f"assumed, since neither the file nor the command states it: {', '.join(open_questions)}")
    data, few = f"data={directory or 'DIR'}", "evaluation.limit=20 steps=16"
    evaluated = quoted(run) if directory else f"{quoted(run)} {data}"
    print(typed(f"next: python evaluate.py {evaluated} {few}, then without the limits"))
    puzzle = puzzle_of_folder([metadata] if metadata else [], directory or "")
    base = f"{'hrm' if section['separate_networks'] else 'trm-att'}-{puzzle}"
    sizes = {
        key: value for key, value in changes_between(preset(base).config(), config).items() if key.startswith("model.")
    }
    print(typed(f"train on: python train.py {shlex.join([base, data, f'init_from={run}', *as_typed(sizes)])}"))
    return 0


def _config(section: dict[str, Any], stated: dict[str, Any], directory: str | None, weights: dict[str, Tensor]) -> Any:
    """Build the tree of a config around the inferred model section."""
    tree = Config(name="imported").model_dump() | {"model": section}
    tree["data"]["directory"], tree["ema"]["decay"] = directory, None
    tree["rollout"]["supervision_steps"] = int(stated.get("halt_max_steps", 16))
    if section["separate_networks"]:
        tree["rollout"]["halting"], tree["loss"]["weights"]["q_continue"] = "q-learning", 0.5
    if "softmax" in str(stated.get("loss", stated.get("loss_type", ""))).replace("stablemax", ""):
        tree["loss"]["likelihood"] = "softmax"
    kept = [value.dtype for name, value in weights.items() if name.endswith(("H_init", "L_init"))]
    if _TYPES.get(str(stated.get("forward_dtype")), next(iter(kept), None)) == torch.float32:
        tree["training"]["precision"] = "fp32"
    return tree


def read_weights(file: Path) -> tuple[dict[str, Tensor], dict[str, Any], str]:
    """Return the tensors of a weights file by name, the authors' config in it or in its folder, and the source.

    Raises:
        ConfigError: the file is missing or not a plain set of tensors.
    """
    if not file.is_file():
        files = ", ".join(sorted(path.name for path in file.glob("*"))[:9]) or "it is empty"
        there = f"{file} is a folder; type a file of it: {files}" if file.is_dir() else f"no file {file}"
        raise ConfigError(f"no weights file is named: {there}")
    stated: dict[str, Any] = {}
    for sibling in (file.parent / "config.json", file.parent / "all_config.yaml"):  # JSON is YAML
        if sibling.is_file():
            try:
                stated |= _architecture(yaml.safe_load(read_text(sibling, SETTINGS)))
            except yaml.MarkedYAMLError as error:
                line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
                raise ConfigError(f"{sibling}{line}: {error.problem}; correct it, or remove it") from None
    try:
        with warnings.catch_warnings(action="ignore"):  # of the pickle protocol, before the refusal
            loaded = load_file(file) if file.suffix == ".safetensors" else _load(file)
    except Exception as error:  # a torn file makes torch and zipfile raise almost anything
        reason = (str(error) or type(error).__name__).splitlines()[0]
        if isinstance(error, pickle.UnpicklingError):  # torch's message advises to unpickle it anyway
            reason = "it contains more than names and values"
        raise ConfigError(
            f"{file} ({file.stat().st_size:,} bytes) cannot be read ({reason}); copy it again, a pointer by `git lfs "
            "pull`, or save the tensors: torch.save(model.state_dict(), FILE)"
        ) from None
    within: dict[Any, Any] = loaded if isinstance(loaded, dict) else {}  # perhaps {"model": state_dict, "config": …}
    if isinstance(ema := within.get("ema"), dict) and isinstance(ema.get("shadow"), dict):  # EqR's
        within = within | {"ema": ema["shadow"]}
    if _named_tensors(within):
        return within, stated, ""
    held = {str(key): of for key, of in within.items() if _named_tensors(of)}
    alone = list(held) if len(held) == 1 else []
    taken = next((key for key in ("ema", "model", "state_dict", *alone) if key in held), None)
    if taken is None:
        raise ConfigError(
            f"{file} contains {', '.join(map(repr, held)) or 'no state_dict, names to tensors'}; save only the weights "
            "of one model: torch.save(model.state_dict(), FILE)"
        )
    rest = [key for key in held if key != taken]
    chosen = f"{taken!r}, not from {', '.join(map(repr, rest))}" if rest else repr(taken)
    return held[taken], stated | _architecture(within.get("config")), chosen


class _Foreign:
    """Replaces objects of the authors' code, such as EqR's carry; it stores nothing and executes nothing."""

    def __init__(self, *state: Any) -> None:
        pass

    __setstate__ = __init__


def _load(file: Path) -> Any:
    """Load a file of torch.save by torch's loader of plain values; other objects become `_Foreign`."""
    try:
        return torch.load(file, "cpu", weights_only=True)
    except pickle.UnpicklingError:
        foreign = torch.serialization.get_unsafe_globals_in_checkpoint(file)
        with torch.serialization.safe_globals([(_Foreign, name) for name in foreign]):
            return torch.load(file, "cpu", weights_only=True)


def _named_tensors(value: Any) -> bool:
    pairs = value.items() if isinstance(value, dict) else ()
    return bool(pairs) and all(isinstance(name, str) and isinstance(of, Tensor) for name, of in pairs)


def _architecture(tree: Any) -> dict[str, Any]:
    """Return the authors' settings: the `arch` section of their all_config.yaml, or a config without sections."""
    arch = tree.get("arch", tree) if isinstance(tree, dict) else None
    if not isinstance(arch, dict):
        return {}
    loss = arch.get("loss")
    paths = tree.get("data_paths", tree.get("data_path"))
    named = {"data": ",".join(paths) if isinstance(paths, list) else paths} if paths else {}
    plain = named | {key: value for key, value in arch.items() if isinstance(value, str | int | float)}
    return plain | ({"loss_type": loss.get("loss_type", "")} if isinstance(loss, dict) else {})
