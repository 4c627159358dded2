"""reason import-weights: an HRM or TRM checkpoint → a run that evaluates."""

from __future__ import annotations

import json
import math
import pickle
import re
import sys
import warnings
from pathlib import Path
from typing import Any, TypeGuard, cast

import numpy as np
import torch
import yaml
from safetensors.torch import load_file
from torch import Tensor

from datasets_gen.layout import read_metadata, splits_of
from datasets_gen.typed import Parser, quoted, typed
from reason.config.overrides import override, split_arguments
from reason.config.schema import Config
from reason.errors import ConfigError
from reason.extensions.original.weights import OUR_SETTINGS, from_original, inferred, load_original, without_prefix
from reason.files import read_text
from reason.models import RecursiveModel, build_model
from reason.models.base import Shape
from reason.runs.directory import create_run, refuse_existing, reserve_run
from reason.training.checkpoint import save_checkpoint

DESCRIPTION = """Make a run from a checkpoint of the original HRM or TRM code.

  reason import-weights step_65100 run=runs/trm data=data/sudoku-extreme
  reason import-weights model.safetensors run=runs/hrm data=data/maze model.num_heads=8 model.l_cycles=2
  reason import-weights weights.pt run=runs/bare cells=81
  python evaluate.py runs/trm

Reads a torch state_dict (weights only, nothing is unpickled), .safetensors, or .npz with `param.*` arrays. Of a file
with weights and their average ("model" and "ema") it takes the average, and says so.
The config comes from the shapes, from all_config.yaml or config.json in the same folder (or `config` in the file), and
from what you type. Any other setting has the authors' default, and the command prints it. The precision is that of the
file: float32 if its initial states are float32."""


_NO_WEIGHTS = {"config", "batch", "eval", "train", "grad"}  # what else an .npz may hold
_HOLDERS = ("model", "state_dict", "model_state_dict")  # taken before others
_COMPARED = ("seq_len", "vocab_size", "num_puzzle_identifiers")
SETTINGS = 1_000_000  # bytes of all_config.yaml, at most


def main(argv: list[str]) -> int:
    """Read, infer, write the run; returns the exit status."""
    parser = Parser(prog="reason import-weights", description=DESCRIPTION)
    parser.add_argument("words", nargs="+", metavar="FILE | run=DIR | data=DIR | cells=N | section.key=value")
    words, pairs = split_arguments(parser.parse_args(argv).words)
    if len(words) != 1:
        raise ConfigError(f"one weights file is needed, got {' '.join(words) or 'none'}")
    file = Path(words[0])
    directory, run_name = pairs.pop("data", None), pairs.pop("run", None)
    if run_name:
        refuse_existing(Path(run_name))
    weights, stated, taken = read_weights(file)
    metadata = read_metadata(directory, next(iter(splits_of(directory)), "test")) if directory else None
    if cells := pairs.pop("cells", None):
        stated["seq_len"] = cells
    stated |= {original: pairs[f"model.{ours}"] for original, ours in OUR_SETTINGS.items() if f"model.{ours}" in pairs}
    stated = _numbers(stated)
    ours = from_original(weights)
    section, shape, assumed = inferred(ours, metadata.seq_len if metadata else None, stated)
    tree = Config(name="imported").model_dump() | {"model": section}
    tree["data"]["directory"] = directory
    tree["rollout"]["supervision_steps"] = stated.get("halt_max_steps", 16)
    if section["separate_networks"]:
        tree["rollout"]["halting"], tree["loss"]["weights"]["q_continue"] = "q-learning", 0.5
    if "softmax" in str(stated.get("loss", stated.get("loss_type", ""))).replace("stablemax", ""):
        tree["loss"]["likelihood"] = "softmax"
    tree["ema"]["decay"] = None
    if _computed_in(stated, weights) == torch.float32:
        tree["training"]["precision"] = "fp32"
    config = override(tree, pairs)
    if metadata and (found := Shape.model_construct(**{key: getattr(metadata, key) for key in _COMPARED})) != shape:
        raise ConfigError(
            f"the weights are for {shape}, {directory} has {found}; name the set of their training with data=DIR"
        )
    model = cast(RecursiveModel, build_model(config.model, shape))
    load_original(model, ours)
    run = Path(run_name) if run_name else reserve_run("imported")
    create_run(run, config, shape, metadata.task if metadata else {}, sys.argv)
    save_checkpoint(run, 0, model.state_dict(), None, {"imported_from": str(file)}, keep=1)
    kind = "HRM" if section["separate_networks"] else f"TRM ({section['mixer']})"
    states = ", a single z" if model.config.states == 1 else ""
    print(f"{run}: {kind}{states}, {model.parameter_count():,} parameters, {shape}; {config.training.precision}")
    if taken:
        print(f"weights taken from {taken}")
    if (count := shape.num_puzzle_identifiers) > 1 and section["puzzle_emb_len"]:
        known = f"the number alone agrees with {directory}" if directory else "evaluate on the set of its training"
        print(f"not known: which puzzles the {count} identifiers are, since a checkpoint has no names of them; {known}")
    open_questions = [setting for name, setting in assumed.items() if f"model.{name}" not in pairs]
    if open_questions:
        print(f"assumed, since neither the file nor you said: {', '.join(open_questions)}")
    print(typed(f"next: python evaluate.py {quoted(run)}" + ("" if directory else " data=DIR")))
    return 0


def read_weights(file: Path) -> tuple[dict[str, Tensor], dict[str, Any], str]:
    """Named tensors of a weights file, the authors' config if it is in the file or beside it, and what was taken.

    Raises:
        ConfigError: the file is missing or not a plain set of tensors.
    """
    if file.is_dir():
        files = [path for path in file.iterdir() if path.is_file()]
        largest = max(files, key=lambda path: path.stat().st_size, default=file / "FILE")
        raise ConfigError(f"{file} is a folder; name the weights file in it, perhaps {largest}")
    if not file.is_file():
        raise ConfigError(f"no weights file at {file}")
    try:
        stated: dict[str, Any] = {}
        for sibling in (file.parent / "config.json", file.parent / "all_config.yaml"):  # JSON is YAML
            stated |= _architecture(_settings(sibling)) if sibling.is_file() else {}
        if file.suffix == ".npz":
            with np.load(file, allow_pickle=False) as arrays:
                stated |= _architecture(json.loads(_text(arrays["config"]))) if "config" in arrays else {}
                bare = [name for name in arrays.files if name.partition(".")[0] not in _NO_WEIGHTS]
                names = [name for name in bare if name.startswith("param.")] or bare
                return {name.removeprefix("param."): torch.from_numpy(arrays[name]) for name in names}, stated, ""
        if file.suffix == ".safetensors":
            return load_file(file), stated, ""
        with warnings.catch_warnings(action="ignore"):  # of the pickle protocol, before the refusal
            loaded = torch.load(file, map_location="cpu", weights_only=True)
    except ConfigError:
        raise
    except pickle.UnpicklingError as error:
        raise ConfigError(_fault_of_pickle(file, str(error))) from None
    except Exception as error:  # a torn file makes numpy, torch and zipfile raise almost anything
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise ConfigError(
            f"{file} cannot be read as weights ({reason}); a torch state_dict, .safetensors or .npz is needed"
        ) from None
    if isinstance(loaded, dict):  # {"model": state_dict, "config": …}
        stated |= _architecture(loaded.get("config"))
    weights, taken = _state_dict(loaded, file)
    return weights, stated, taken


def _fault_of_pickle(file: Path, refusal: str) -> str:
    """What torch refused to unpickle, without torch's advice to do it anyhow."""
    held = re.search(r"GLOBAL (\S+)", refusal)
    with file.open("rb") as opened:
        if not held and opened.read(1) != pickle.PROTO:
            return f"{file} cannot be read as weights; a torch state_dict, .safetensors or .npz is needed"
    return (
        f"{file} holds {held[1] if held else 'a pickle that torch.save did not write'}, and only tensors and plain "
        "values are unpickled; where it can be loaded, save the tensors alone: torch.save(model.state_dict(), FILE)"
    )


def _state_dict(loaded: Any, file: Path) -> tuple[dict[str, Tensor], str]:
    """The named tensors of what torch.save wrote; in words, where they stood among other things."""
    if _named_tensors(loaded):
        return loaded, ""
    held = {str(key): of for key, of in loaded.items() if _named_tensors(of)} if isinstance(loaded, dict) else {}
    averages = [key for key in held if "ema" in re.split("[^a-z]+", key.lower())]
    plain = [key for key in held if key not in averages]
    plain = [key for key in _HOLDERS if key in plain][:1] or plain
    if len(plain) > 1 or len(averages) > 1:
        raise ConfigError(f"{file} holds several models: {', '.join(map(repr, held))}; save the weights of one alone")
    if not held:
        others = loaded.items() if isinstance(loaded, dict) else [("it", loaded)]
        wrong = next((f"{key!r} is {type(of).__name__}" for key, of in others if not isinstance(of, Tensor)), "empty")
        raise ConfigError(f"{file} is not a state_dict, names to tensors: {wrong}; save model.state_dict() alone")
    taken = [*plain, *averages]
    if len(taken) == 1:
        return held[taken[0]], repr(taken[0])
    # An average may lack what is not trained, as the initial states.
    weights = {without_prefix(name): value for key in taken for name, value in held[key].items()}
    return weights, f"{taken[1]!r}, and from {taken[0]!r} what it lacks"


def _named_tensors(value: Any) -> TypeGuard[dict[str, Tensor]]:
    pairs = value.items() if isinstance(value, dict) else ()
    return bool(pairs) and all(isinstance(name, str) and isinstance(of, Tensor) for name, of in pairs)


def _settings(file: Path) -> Any:
    """A small YAML file without aliases, a few lines of which can stand for more than memory holds."""
    text = read_text(file, SETTINGS)
    try:
        if any(isinstance(token, yaml.AliasToken) for token in yaml.scan(text, yaml.SafeLoader)):
            raise ConfigError(f"{file} has YAML aliases, which are not read; write the values out")
        return yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        reason = " ".join(str(error).split()) or "nested too deep"
        raise ConfigError(f"{file} is not YAML ({reason[:200]}); mend it, or move it away") from None


def _architecture(tree: Any) -> dict[str, Any]:
    """The authors' settings: the `arch` section of their all_config.yaml, or a config that is one by itself."""
    if not isinstance(tree, dict):
        return {}
    arch = tree.get("arch", tree if {"hidden_size", *OUR_SETTINGS} & tree.keys() else {})
    if not isinstance(arch, dict):
        return {}
    loss = arch.get("loss")
    plain = {key: value for key, value in arch.items() if isinstance(value, str | int | float)}
    return plain | ({"loss_type": loss.get("loss_type", "")} if isinstance(loss, dict) else {})


def _text(array: np.ndarray) -> str:
    """A string stored in an array: as characters, as bytes, or as UTF-8 bytes."""
    value = array.tobytes() if array.dtype == np.uint8 else array.reshape(-1)[0]
    return value.decode() if isinstance(value, bytes) else str(value)


def _numbers(stated: dict[str, Any]) -> dict[str, Any]:
    """The stated settings as numbers, counts as whole ones above 0 (a prefix may be 0)."""
    for key in ("seq_len", "num_puzzle_identifiers", "halt_max_steps", *OUR_SETTINGS):
        if key in stated:
            text, least = str(stated[key]), 0 if key == "puzzle_emb_len" else 1
            if not re.fullmatch("[0-9]{1,9}", text) or int(text) < least:
                raise ConfigError(f"{key}={text[:100]}: a whole number from {least} to 999999999 is needed")
            stated[key] = int(text)
    for key in ("rms_norm_eps", "rope_theta", "expansion"):
        try:
            stated |= {key: float(stated[key])} if key in stated else {}
            finite = math.isfinite(stated.get(key, 0.0))
        except (OverflowError, ValueError):
            finite = False
        if not finite:
            raise ConfigError(f"{key}={str(stated[key])[:100]}: a finite number is needed")
    return stated


def _computed_in(stated: dict[str, Any], weights: dict[str, Tensor]) -> torch.dtype:
    """The type of the authors' states: the stated one, or that of the initial states, else their default, bfloat16."""
    types = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
    if "forward_dtype" in stated:
        return types.get(str(stated["forward_dtype"]), torch.bfloat16)
    kept = [value.dtype for name, value in weights.items() if name.endswith(("H_init", "L_init"))]
    return kept[0] if kept else torch.bfloat16
