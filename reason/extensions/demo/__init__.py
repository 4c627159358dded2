"""The demo: trains on mazes in minutes, and solves larger ones with the same weights."""

from reason.plugins import COMMANDS, Command

COMMANDS["demo"] = Command(
    "reason.extensions.demo.command:main", "train on 10×10 mazes, then solve larger mazes with the same weights"
)
