"""Reads HRM's and TRM's checkpoints: weight names, and the config implied by weight shapes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from reason.errors import ConfigError
from reason.models.base import Shape
from reason.models.recursive import RecursiveModel
from reason.nn.mlp import inner_width

# The original names → ours: whole names first, then the parts of a layer's name.
WHOLE = {
    "embed_tokens.embedding_weight": "tokens.weight",
    "embed_pos.embedding_weight": "positions.weight",
    "puzzle_emb.weights": "puzzle_embedding.weight",
    "lm_head.weight": "head.weight",
    "q_head.weight": "q_head.weight",
    "q_head.bias": "q_head.bias",
    "H_init": "initial_h",
    "L_init": "initial_l",
}
STACKS = {"H_level": "f_h", "L_level": "f_l"}
LAYERS = {
    "self_attn.qkv_proj": "attention.qkv",
    "self_attn.o_proj": "attention.out",
    "mlp_t.gate_up_proj": "mixer.gate_up",
    "mlp_t.down_proj": "mixer.down",
    "mlp.gate_up_proj": "mlp.gate_up",
    "mlp.down_proj": "mlp.down",
}
_LAYER_NAME = re.compile(r"(H_level|L_level)\.layers\.([0-9]{1,9})\.([\w.]+)\.weight")
_TRANSIENT = re.compile(r"puzzle_emb\.local_(weights|ids)|rotary_emb\.(cos|sin)_cached")
_PREFIX = re.compile(r"^((_orig_mod|module|model|inner)\.)+")  # of the modules around the model
OUR_SETTINGS = {name: name.lower() for name in ("num_heads", "H_cycles", "L_cycles", "puzzle_emb_len")}
RMS_EPS = 1e-5


def from_original(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the original state_dict (with any prefixes of wrappers) under our names, in float32.

    Raises:
        ConfigError: neither model has a name, or a number is not finite.
    """
    ours = {}
    for name, value in weights.items():
        bare = _PREFIX.sub("", name)
        layer = _LAYER_NAME.fullmatch(bare)
        if _TRANSIENT.fullmatch(bare):
            continue
        if bare in WHOLE:
            name_here = WHOLE[bare]
        elif layer is not None and layer[3] in LAYERS:
            name_here = f"{STACKS[layer[1]]}.blocks.{layer[2]}.{LAYERS[layer[3]]}.weight"
        else:
            raise ConfigError(f"weight {name} belongs to neither HRM nor TRM; is this one of their checkpoints?")
        ours[name_here] = value.float()
        if not ours[name_here].isfinite().all():
            raise ConfigError(f"weight {name} contains infinity or NaN; copy the file again")
    return ours


def inferred(
    weights: Mapping[str, Tensor], cells: int | None, stated: Mapping[str, Any]
) -> tuple[dict[str, Any], Shape, dict[str, str]]:
    """Return the model section and shape that weights (our names) imply; `stated` is the authors' config, if known.

    Returns the section as a tree, the shape, and the settings that neither shapes nor `stated` determine, with the
    authors' defaults, by our name.

    Raises:
        ConfigError: the number of cells is unknown, or a stated value is not supported.
        KeyError, IndexError, ValueError: a weight or a setting differs from those of their checkpoints.
    """
    assumed: dict[str, str] = {}

    def known(key: str, default: int) -> int:
        if key not in stated:
            assumed[OUR_SETTINGS[key]] = f"{key}={default}"
        return int(stated.get(key, default))

    hrm = any(name.startswith("f_h.") for name in weights)
    vocabulary, width = weights["tokens.weight"].shape
    mixer = "mlp" if "f_l.blocks.0.mixer.down.weight" in weights else "attention"
    if (asked := stated.get("pos_encodings", "rope")) not in ("rope", "learned", "none"):
        raise ConfigError(f"the checkpoint has pos_encodings={asked}; supported: rope, learned, none")
    positions = "rotary" if mixer == "attention" and asked != "none" else "none"
    length = None  # positions of prefix and cells, if a weight has them
    if mixer == "mlp":
        length = weights["f_l.blocks.0.mixer.down.weight"].shape[0]
    if "positions.weight" in weights:
        positions, length = "learned", weights["positions.weight"].shape[0]
    cells = cells or (int(stated["seq_len"]) if "seq_len" in stated else None)
    learned = weights["puzzle_embedding.weight"].shape[1] if "puzzle_embedding.weight" in weights else 0
    if learned not in (0, width):
        raise ConfigError(f"the checkpoint has puzzle_emb_ndim={learned}; supported: {width}, the hidden_size, and 0")
    if learned and length and cells:
        prefix = length - cells
    else:  # 0 means as many as the embedding needs: one
        prefix = (int(stated.get("puzzle_emb_len", 1)) if hrm else known("puzzle_emb_len", 16)) or 1 if learned else 0
    open_question = positions == "learned" and not hrm and "puzzle_emb_len" not in stated  # any prefix is possible
    cells = cells or (0 if open_question and learned else (length or 0) - prefix)
    if cells < 1 or prefix < (learned > 0):
        raise ConfigError(
            f"the weights are for {length or 'any number of'} positions of prefix and cells, and the number of "
            f"cells is unknown, or the set has more; type data={stated.get('data', 'DIR')}, the set of their "
            "training, or cells=81 model.puzzle_emb_len=16"
        )
    if float(stated.get("rms_norm_eps", RMS_EPS)) != RMS_EPS:
        raise ConfigError(f"the checkpoint states rms_norm_eps={stated['rms_norm_eps']}; only {RMS_EPS:g} is supported")
    drawn = "initial_l" not in weights  # EqR: initial states are random, and a call adds a fraction of the update
    if drawn and "lambda_" not in stated:
        assumed["dt"] = "lambda_=0.95"
    section = {
        "kind": "recursive",
        "hidden_size": width,
        "num_layers": len({name.split(".")[2] for name in weights if name.startswith("f_l.")}),
        "separate_networks": hrm,
        "mixer": mixer,
        "num_heads": known("num_heads", 8) if mixer == "attention" else 8,
        "expansion": _expansion(weights, stated.get("expansion")),
        "positions": positions,
        "rope_theta": float(stated.get("rope_theta", 10_000.0)),
        "puzzle_emb_len": prefix,
        "h_cycles": known("H_cycles", 2 if hrm else 3),
        "l_cycles": known("L_cycles", 2 if hrm else 6),
        "states": 2 if drawn or "initial_h" in weights else 1,
        "initial": "random" if drawn else "buffer",
        "dt": float(stated.get("lambda_", 0.95 if drawn else 1)),
        "gradient": "last-call" if hrm else "last-cycle",
    }
    identifiers = len(weights["puzzle_embedding.weight"]) if prefix else stated.get("num_puzzle_identifiers", 1)
    return section, Shape(seq_len=cells, vocab_size=vocabulary, num_puzzle_identifiers=identifiers), assumed


def _expansion(weights: Mapping[str, Tensor], stated: Any) -> float:
    """Return an expansion that gives all inner widths: the stated one, the authors' 4, or the smallest possible one."""
    gate_name = re.compile(r"f_l\.blocks\.0\..*down\.weight")
    gates = {name: tuple(weight.shape) for name, weight in weights.items() if gate_name.fullmatch(name)}
    for candidate in (float(stated or 4), 4.0, *(n / 8 for n in range(1, 129))):
        if all(inner_width(width, candidate) == inner for width, inner in gates.values()):
            return candidate
    raise ConfigError(f"no expansion gives gates of shapes {gates}, (width, inner width); are they transposed?")


def original_name(name: str) -> str:
    """Return the authors' name of one of our weights."""
    whole = {ours: theirs for theirs, ours in WHOLE.items()}
    if name in whole:
        return whole[name]
    for theirs, ours in (STACKS | LAYERS).items():
        name = re.sub(rf"(^|\.){re.escape(ours)}\.", rf"\1{theirs}.", name)
    return name.replace(".blocks.", ".layers.")


def refuse_contradiction(stated: Mapping[str, Any], section: Mapping[str, Any]) -> None:
    """Raise ConfigError if the config of a checkpoint states other sizes than those of its weights."""
    has = {"hidden_size": section["hidden_size"], "L_layers": section["num_layers"], "expansion": section["expansion"]}
    faults = [
        f"{key}={stated[key]}, the weights have {of}" for key, of in has.items() if float(stated.get(key, of)) != of
    ]
    if faults:
        raise ConfigError(
            f"the config with the weights states {'; '.join(faults)}; replace it by the config of this checkpoint "
            "(all_config.yaml), or remove it"
        )


def load_original(model: RecursiveModel, weights: Mapping[str, Tensor]) -> None:
    """Load weights (our names) into the model; RuntimeError if one is missing, unexpected or has another shape."""
    weights = dict(weights)
    if model.config.initial == "random":
        weights |= {name: torch.zeros(model.config.hidden_size) for name in ("initial_h", "initial_l")}
    if model.config.states == 1:
        weights.setdefault("initial_h", weights["initial_l"])
    if model.config.puzzle_emb_len == 0:
        weights.pop("puzzle_embedding.weight", None)
    model.load_state_dict({name: torch.as_tensor(value) for name, value in weights.items()})
