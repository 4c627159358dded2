"""Presets of ARC: eight easy tasks for a CPU, and HRM and TRM at their authors' size."""

from __future__ import annotations

from pathlib import Path

from datasets_gen.extensions.arc.puzzles import Arc
from reason.config.overrides import Changes, derive
from reason.config.schema import Config
from reason.data import shape_of_puzzle
from reason.data.config import GenerateConfig
from reason.presets import add_papers, add_presets, of_recipe
from reason.presets.bases import SETS
from reason.presets.small import sudoku_6x6

EASY = "25ff71a9,3c9b0459,67a3c6ac,68b16354,74dd1130,ed36ccf7,0d3d703e,b1948b0a"
CHALLENGES = ("data/arc-agi_training_challenges.json", "data/arc-agi_evaluation_challenges.json")
ARC: Changes = {  # the two files must be there: `python -m datasets_gen import arc --help` says where they are from
    "data.directory": "data/arc",
    "data.generate": GenerateConfig(name="arc", sources=CHALLENGES, augmentations=1000),
}


def arc_few() -> Config:
    """TRM with attention on eight easy tasks of ARC-AGI-1 whose grids fit on 8×8: augmentations that vote, on a CPU.

    The tasks are flips, turns, a shift, a colour map. Training sees the demonstrations under 8 augmentations, each
    under an identifier of its own; the test input is asked under all of them. One H-cycle with all its gradients,
    positions by row and column, puzzle embeddings of one token (all ours). Measured (seed 0, 25 minutes of half a
    core): 13.6 % of the 81 augmented tests exact at step 4; pass@2 12.5 % there and 18.8 % at step 8 (8 tasks). With
    100 augmentations in as many steps nothing is learned (1.8 %, pass@2 0): an embedding is drawn too seldom.
    """
    return derive(
        sudoku_6x6(),
        {
            "data.directory": "data/arc-few",
            "data.generate": GenerateConfig(
                name="arc", sources=CHALLENGES[:1], split="test", tasks=EASY, size=8, augmentations=8
            ),
            "model.hidden_size": 64,
            "model.mixer": "attention",
            "model.positions": "rotary-2d",
            "model.num_heads": 2,
            "model.puzzle_emb_len": 1,
            "model.h_cycles": 1,
            "model.gradient": "all-cycles",
            "rollout.supervision_steps": 4,
            "optimizer.lr": 2e-3,
            "optimizer.puzzle_emb_lr": 1e-2,
            "optimizer.schedule.kind": "cosine",
            "optimizer.schedule.min_ratio": 0.05,
            "training.steps": 2000,
            "training.batch_size": 32,
            "training.monitor.every": None,
        },
    )


HERE = Path(__file__).parent
SETS["arc"] = (ARC, shape_of_puzzle(Arc()))
add_presets(HERE, [of_recipe(arc_few, shape_of_puzzle(Arc(8)))], "A few tasks of ARC")
add_papers(HERE, "arc")
