"""The config of a run of an earlier version, or of an installation with other extensions, as one of this version."""

from __future__ import annotations

from typing import Any

from reason.losses import TERMS

LEFT: dict[str, object] = {  # settings that left, and settings of extensions, each with the value of a run without it
    "model.tolerance": 1e-4,
    "model.kernel": 3,
    "model.puzzle_emb_ndim": None,
    "model.gradient_checkpointing": "auto",
    "model.gate": "none",
    "model.input_injection": False,
    "model.inter_loop_norm": False,
    "model.damping": False,
    "model.final_from": 4,
    "model.open_symbols": False,
    "model.open_cells": False,
    "model.noise_when": "training",
    "init_layers": "same",
    "model.init_layers": "same",
    "rollout.gate_quantile": 0.5,
    "rollout.loops.distribution": "fixed",
    "rollout.loops.start": 0,
    "rollout.loops.mu": 2.0,
    "rollout.loops.sigma": 0.7,
    "rollout.loops.mean": 5.0,
    "rollout.loops.min": 1,
    "rollout.loops.max": 100,
    "rollout.loops.random": {},
    "loss.jsrr.transposed": False,
    "loss.jsrr.convex": True,
    "loss.trace.method": "hutchinson",
    "loss.trace.probes": 1,
    "loss.trace.scope": "puzzle",
    "loss.trace.rows": None,
    "loss.trace": {},
    "loss.jsrr.rows": None,
    "loss.exit": {"first": False},
    "optimizer.a": 1.0,
    "optimizer.bias_correction": "inside",
    "optimizer.backend": "auto",
    "optimizer.schedule.end": None,
    "optimizer.schedule.after": None,
    "optimizer.schedule.unit": "step",
    "training.only": "all",
    "training.monitor.split": "validation",
    "evaluation.calibration": "auto",
    "evaluation.decimation": "auto",
    "evaluation.boards": 6,
    "evaluation.budget": "auto",
    "evaluation.drop": 0.005,
    "evaluation.perplexity": 1.01,
    "evaluation.map": "cycle",
    "evaluation.tolerance": 0.001,
    "evaluation.probed": 8,
    "evaluation.spectra": 2,
    "evaluation.policies": False,
    "evaluation.probes": False,
    "evaluation.caches": False,
    "evaluation.blind_spot": False,
    "evaluation.restarts": 1,
    "evaluation.vary": "all",
    "evaluation.sigma": 0.1,
}

RENAMED: dict[str, tuple[str, object]] = {  # settings that another one took in; its value, or ... for the same value
    "model.open_symbols": ("model.open_only", ...),
    "model.open_cells": ("model.open_only", ...),
    "loss.trace.rows": ("loss.rows", ...),
    "loss.jsrr.rows": ("loss.rows", ...),
    "optimizer.bias_correction": ("optimizer.kind", "adam-atan2-outside"),
}


def renewed(config: dict[str, Any]) -> dict[str, Any]:
    """The plain tree of a config, changed in place: without `LEFT` and terms of weight 0 that are not there, renamed.

    Another setting of a missing extension stays, and is refused as unknown.
    """
    for key, value in LEFT.items():
        section, leaf = _place(config, key)
        if leaf in section and section[leaf] == value:
            del section[leaf]
    for key, (new, value) in RENAMED.items():
        section, leaf = _place(config, key)
        if leaf in section:
            other, name = _place(config, new)
            old = section.pop(leaf)
            other[name] = old if value is ... else value
    loss = config.get("loss", {})
    for name in [name for name, weight in loss.get("weights", {}).items() if name not in TERMS and weight == 0]:
        del loss["weights"][name]
        loss.pop(name, None)
    return config


def _place(config: dict[str, Any], key: str) -> tuple[dict[str, Any], str]:
    """The section of a setting, empty where it is not there, and the setting's name in it."""
    *path, leaf = key.split(".")
    for part in path:
        config = config.get(part, {})
    return config, leaf
