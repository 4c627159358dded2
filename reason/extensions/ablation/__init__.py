"""Trains variants of a preset with several seeds each, on one machine or by SLURM, and compares them."""

from reason.plugins import COMMANDS, Command

COMMANDS["ablate"] = Command(
    "reason.extensions.ablation.command:main", "train and compare variants of a preset, with several seeds each"
)
