"""The presets of STARS, Ouro and the readout blind spot, and a looped transformer on 6×6 Sudoku."""

from __future__ import annotations

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


SETS["addition-4"] = (
    {
        "data.directory": "data/addition-4",
        "data.generate": GenerateConfig(name="addition", digits=4, train=100_000, test=5000),
    },
    lambda: _sums(4),
)
SETS["addition-3-causal"] = (
    {
        "data.directory": "data/addition-3-causal",
        "data.generate": GenerateConfig(name="addition", digits=3, train=20_000, test=1000),
    },
    lambda: _sums(3),
)


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
