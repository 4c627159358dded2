"""The presets of STARS, Ouro and the readout blind spot, and a looped transformer on 6×6 Sudoku."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from datasets_gen.puzzles import FAMILIES
from reason.config.overrides import derive
from reason.config.schema import Config
from reason.data import shape_of_puzzle
from reason.data.config import GenerateConfig
from reason.errors import ConfigError
from reason.models.base import Shape
from reason.plugins import installed
from reason.presets import add_papers, add_presets, of_recipe, small
from reason.presets.bases import SETS, SUDOKU_6

HERE = Path(__file__).parent


def _sums(digits: int) -> Shape:
    """The shape of causal sums, asked for when a preset needs it: they are another extension."""
    if "addition" not in FAMILIES:
        raise ConfigError(f"sums are of the extension addition; {installed()}")
    return shape_of_puzzle(FAMILIES["addition"](digits))


for name, digits, train, test in (("addition-4", 4, 100_000, 5000), ("addition-3-causal", 3, 20_000, 1000)):
    made = GenerateConfig(name="addition", digits=digits, train=train, test=test)
    SETS[name] = {"data.directory": f"data/{name}", "data.generate": made}, partial(_sums, digits)


def sudoku_6x6_looped() -> Config:
    """A looped transformer on 6×6 Sudoku, not causal, 8 loops with a loss at each.

    Data, width and optimizer are those of sudoku-6x6. One Llama layer, pre-sandwich, reads the puzzle again at every
    loop (all ours).
    """
    return derive(
        small.sudoku_6x6(),
        {
            "model.kind": "looped",
            "rollout.supervision_steps": 1,
            "rollout.carry": "fresh",
            "rollout.halting": "none",
            "loss.weights.q_halt": 0,
            "model.hidden_size": 128,
            "model.num_heads": 4,
            "model.expansion": 3,
            "model.block": "llama",
            "model.norm": "rmsnorm",
            "model.norm_placement": "pre-sandwich",
            "model.causal": False,
            "model.input_injection": True,
            "model.dropout": 0,
            "model.init_std": 0.06,
            "rollout.loops.count": 8,
            "rollout.loops.supervision": "per-loop",
            "optimizer.grad_clip": 1.0,
        },
    )


add_presets(HERE, [of_recipe(sudoku_6x6_looped, SUDOKU_6)], "Sudoku")
add_papers(HERE, "stars", "blindspot", "ouro")
