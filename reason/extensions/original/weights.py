"""HRM's and TRM's checkpoints: weight names, and the config implied by weight shapes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import torch
from pydantic import ValidationError
from torch import Tensor

from reason.errors import ConfigError, first_fault
from reason.models.base import Shape
from reason.models.recursive import RecursiveModel
from reason.nn.mlp import inner_width

# The original names → ours: whole names first, then the parts of a layer's name.
_WHOLE = {
    "embed_tokens.embedding_weight": "tokens.weight",
    "embed_pos.embedding_weight": "positions.weight",
    "puzzle_emb.weights": "puzzle_embedding.weight",
    "lm_head.weight": "head.weight",
    "q_head.weight": "q_head.weight",
    "q_head.bias": "q_head.bias",
    "H_init": "initial_h",
    "L_init": "initial_l",
}
_DIMENSIONS = {name: 1 if name.endswith(("bias", "init")) else 2 for name in _WHOLE}
_STACKS = {"H_level": "f_h", "L_level": "f_l"}
_LAYERS = {
    "self_attn.qkv_proj": "attention.qkv",
    "self_attn.o_proj": "attention.out",
    "mlp_t.gate_up_proj": "mixer.gate_up",
    "mlp_t.down_proj": "mixer.down",
    "mlp.gate_up_proj": "mlp.gate_up",
    "mlp.down_proj": "mlp.down",
}
_LAYER_NAME = re.compile(r"(H_level|L_level)\.layers\.([0-9]{1,9})\.([\w.]+)\.weight")
_OUR_LAYER_NAME = re.compile(r"(f_h|f_l)\.blocks\.(\d+)\.([\w.]+)\.weight")
OUR_SETTINGS = {name: name.lower() for name in ("num_heads", "H_cycles", "L_cycles", "puzzle_emb_len")}
_WHOLE_NUMBERS = (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8)
RMS_EPS = 1e-5
_NEEDED = {"tokens.weight", "head.weight", "q_head.weight", "q_head.bias", "initial_l", "f_l.blocks.0.mlp.down.weight"}
_TRANSIENT = {f"puzzle_emb.local_{part}" for part in ("weights", "ids")} | {
    f"rotary_emb.{part}_cached" for part in ("cos", "sin")
}
_PREFIX = re.compile(r"^((_orig_mod|module|param|model|inner)\.)+")


def from_original(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The original state_dict (with whatever prefixes of wrappers) under our names, in float32.

    Raises:
        ConfigError: a name that neither model has, or one that stands twice.
    """
    ours = {}
    for name, value in weights.items():
        bare = without_prefix(name)
        layer = _LAYER_NAME.fullmatch(bare)
        if bare in _DIMENSIONS or layer is not None:
            _refuse_dimensions(name, value, _DIMENSIONS.get(bare, 2))
        if bare in _WHOLE:
            own = _WHOLE[bare]
        elif layer is not None and layer[3] in _LAYERS:
            own = f"{_STACKS[layer[1]]}.blocks.{layer[2]}.{_LAYERS[layer[3]]}.weight"
        elif bare in _TRANSIENT:
            continue
        else:
            raise ConfigError(f"weight {name} belongs to neither HRM nor TRM; is this one of their checkpoints?")
        if own in ours:
            raise ConfigError(f"weight {name} is there twice, under two prefixes; save one model alone")
        ours[own] = value.float()
    missing = sorted(_NEEDED - ours.keys())
    if missing:
        raise ConfigError(f"no HRM or TRM without {', '.join(missing)} (our names); is this one of their checkpoints?")
    return ours


def without_prefix(name: str) -> str:
    """A weight's name without the prefixes of the modules around the model, in whatever order they stand."""
    return _PREFIX.sub("", name)


def _refuse_dimensions(name: str, value: Tensor, dimensions: int) -> None:
    """Raises ConfigError for a weight that is no table of finite real numbers of so many dimensions."""
    real = value.is_floating_point() or value.dtype in _WHOLE_NUMBERS
    if value.ndim != dimensions or not value.numel() or not real:
        shape, kind = list(value.shape), str(value.dtype).removeprefix("torch.")
        raise ConfigError(
            f"weight {name} is {kind} of shape {shape}; {dimensions} dimensions of real numbers are needed"
        )
    if not value.float().isfinite().all():
        raise ConfigError(f"weight {name} holds a number that is infinite or NaN; copy the file again")


def to_original(model: RecursiveModel, prefix: str = "_orig_mod.model.inner.") -> dict[str, Tensor]:
    """A model's weights and buffers under the names of the original code."""
    whole, stacks, layers = ({ours: name for name, ours in names.items()} for names in (_WHOLE, _STACKS, _LAYERS))
    original = {}
    for name, value in model.state_dict().items():
        layer = _OUR_LAYER_NAME.fullmatch(name)
        bare = whole[name] if layer is None else f"{stacks[layer[1]]}.layers.{layer[2]}.{layers[layer[3]]}.weight"
        original[prefix + bare] = value
    return original


def inferred(
    weights: Mapping[str, Tensor], cells: int | None, stated: Mapping[str, Any]
) -> tuple[dict[str, Any], Shape, dict[str, str]]:
    """The model section and shape that weights (our names) imply; `stated` is the authors' own config, if at hand.

    Returns the section as a tree, the shape, and the settings that neither shapes nor `stated` decide and
    that are therefore the authors' defaults, by our name.

    Raises:
        ConfigError: the number of cells is decided nowhere, or what is stated cannot be.
    """
    hrm = any(name.startswith("f_h.") for name in weights)
    vocabulary, width = weights["tokens.weight"].shape
    mixer = "mlp" if "f_l.blocks.0.mixer.down.weight" in weights else "attention"
    positions = "learned" if "positions.weight" in weights else "none" if mixer == "mlp" else "rotary"
    if mixer == "attention" and positions == "rotary" and stated.get("pos_encodings") == "none":
        positions = "none"
    length = None
    if mixer == "mlp":
        length = weights["f_l.blocks.0.mixer.down.weight"].shape[0]
    elif positions == "learned":
        length = weights["positions.weight"].shape[0]
    assumed: dict[str, str] = {}

    def known(key: str, default: Any) -> Any:
        if key not in stated:
            assumed[OUR_SETTINGS[key]] = f"{key}={default}"
        return stated.get(key, default)

    cells = cells or stated.get("seq_len")
    learned = weights["puzzle_embedding.weight"].shape[1] if "puzzle_embedding.weight" in weights else 0
    slots = -(-learned // width)  # that the learned numbers fill
    if learned == 0:
        prefix = 0
    elif length is not None and cells is not None:
        prefix = length - cells
    elif hrm and "puzzle_emb_len" not in stated:
        prefix = slots
    elif positions == "learned" and "puzzle_emb_len" not in stated:
        raise ConfigError(
            f"the weights have {length} learned positions and do not tell how many of them are cells; type cells=81, "
            "model.puzzle_emb_len=16 or data=DIR"
        )
    else:
        prefix = known("puzzle_emb_len", 16) or slots
    if cells is None:
        if length is None:
            raise ConfigError("the weights do not tell how many cells a puzzle has; type cells=81, or data=DIR")
        cells = length - prefix
    if cells < 1 or prefix < 0:
        raise ConfigError(
            f"the weights are for {length} positions, a prefix of {prefix} and {cells} cells: that cannot be; type "
            "cells=N, model.puzzle_emb_len=P, or data=DIR"
        )
    if float(stated.get("rms_norm_eps", RMS_EPS)) != RMS_EPS:
        raise ConfigError(f"the checkpoint states rms_norm_eps={stated['rms_norm_eps']}; only {RMS_EPS:g} is supported")
    if slots > prefix:
        raise ConfigError(
            f"puzzle embeddings of {learned} numbers fill {slots} tokens of {width}, and the prefix has {prefix}; type "
            f"model.puzzle_emb_len={slots}"
        )
    low, high = _depth(weights, "f_l"), _depth(weights, "f_h") if hrm else 0
    if hrm and low != high:
        raise ConfigError(f"F_L has {low} layers and F_H {high}; only networks of one depth are supported")
    section = {
        "kind": "recursive",
        "hidden_size": width,
        "num_layers": low,
        "separate_networks": hrm,
        "mixer": mixer,
        "num_heads": known("num_heads", 8) if mixer == "attention" else 8,
        "expansion": _expansion(weights, stated.get("expansion")),
        "positions": positions,
        "rope_theta": float(stated.get("rope_theta", 10_000.0)),
        "puzzle_emb_len": prefix,
        "puzzle_emb_ndim": learned if learned not in (0, width) else None,
        "h_cycles": known("H_cycles", 2 if hrm else 3),
        "l_cycles": known("L_cycles", 2 if hrm else 6),
        "states": 2 if "initial_h" in weights else 1,
        "gradient": "last-call" if hrm else "last-cycle",
    }
    identifiers = len(weights["puzzle_embedding.weight"]) if prefix else stated.get("num_puzzle_identifiers", 1)
    try:
        shape = Shape(seq_len=cells, vocab_size=vocabulary, num_puzzle_identifiers=identifiers)
    except ValidationError as error:
        where, what, value = first_fault(error)
        raise ConfigError(f"{where} {value}: {what}") from None
    return section, shape, assumed


def _depth(weights: Mapping[str, Tensor], stack: str) -> int:
    numbers = {int(name.split(".")[2]) for name in weights if name.startswith(f"{stack}.")}
    missing = next((n for n in range(len(numbers)) if n not in numbers), None)
    if missing is not None:
        raise ConfigError(f"the weights have layer {max(numbers)} of {stack} and no layer {missing}; copy them again")
    return len(numbers)


def _expansion(weights: Mapping[str, Tensor], stated: float | None) -> float:
    """An expansion that gives every gate's inner width: the stated one, the authors' 4, or the smallest that fits."""
    of_gates = re.compile(r"f_l\.blocks\.0\..*down\.weight")
    gates = [tuple(weight.shape) for name, weight in weights.items() if of_gates.fullmatch(name)]
    eighths = [n / 8 for n in range(1, 129)]
    for candidate in (stated, 4.0, *eighths):
        if candidate is not None and all(inner_width(width, candidate) == inner for width, inner in gates):
            return float(candidate)
    raise ConfigError(f"no expansion gives gates of {', '.join(f'{inner} for {width}' for width, inner in gates)}")


def load_original(model: RecursiveModel, weights: Mapping[str, Tensor]) -> None:
    """Load weights (our names) into the model.

    Raises:
        ConfigError: a weight is missing, unexpected or of another shape.
    """
    weights = dict(weights)
    if model.config.states == 1:
        weights.setdefault("initial_h", weights["initial_l"])
    if model.config.puzzle_emb_len == 0:
        weights.pop("puzzle_embedding.weight", None)
    try:
        model.load_state_dict({name: torch.as_tensor(value) for name, value in weights.items()})
    except RuntimeError as error:
        reason = str(error).splitlines()[1].strip() if "\n" in str(error) else str(error)
        raise ConfigError(
            f"the weights do not fit the config inferred from them: {reason}; state it: model.KEY=VALUE"
        ) from None
