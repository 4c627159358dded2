"""The figures of the papers for trained runs: spectra, phase portraits, trajectories, jumps, repulsion."""

from reason.plugins import COMMANDS, Command

COMMANDS["figures"] = Command(
    "reason.extensions.figures.command:main", "draw a paper's figure of a trained run: spectrum, portrait, jumps, …"
)
