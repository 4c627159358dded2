"""What evaluate.py reads of a model beyond accuracy: exits, caches, the readout blind spot."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import torch

import reason.config.capabilities as can
from reason.config.schema import Config
from reason.data import PuzzleData
from reason.evaluation.blindspot import blind_spot
from reason.evaluation.caches import cache_table
from reason.evaluation.exits import exits
from reason.models import LoopedModel
from reason.models.base import Reasoner
from reason.report.figures import draw_blind_spot, draw_exits

BLIND_SPOT_PUZZLES = 128  # as many as are probed, all loops of them held in float64


def refuse_caches(config: Config) -> None:
    """Raises ConfigError where caches are asked of a model that does not generate."""
    if config.evaluation.caches:
        config.refuse_unmet([can.Need("evaluation.caches=true", can.CACHES, "evaluation.caches=false")])


def further(model: Reasoner, data: PuzzleData, config: Config) -> dict[str, Any]:
    """Exits where the model has a gate, and what the evaluation section asks for, by name; numbers may be infinite."""
    settings, loops = config.evaluation, config.rollout.trained_steps
    found: dict[str, Any] = {}
    if config.model.has(can.EXIT_GATE):
        found["exits"] = exits(model, data, loops, settings.batch_size, settings.limit, config.loss.likelihood)
    if settings.caches:
        found["caches"] = cache_table(cast(LoopedModel, model), data, loops, settings.batch_size, settings.limit)
    if settings.blind_spot:
        few = torch.arange(min(len(data), settings.limit or BLIND_SPOT_PUZZLES, BLIND_SPOT_PUZZLES), device=data.device)
        found["blind_spot"] = blind_spot(model, data.take(few), loops, config.loss.likelihood)
    return found


def draw_further(results: Mapping[str, Any], folder: Path) -> None:
    """The figures of what `further` found."""
    if "exits" in results:
        draw_exits(results["exits"], folder)
    if "blind_spot" in results:
        draw_blind_spot(results["blind_spot"], folder)
