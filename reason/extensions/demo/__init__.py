"""The demo: mazes learned in minutes, and larger ones solved by the same weights."""

from reason.plugins import COMMANDS, Command

COMMANDS["demo"] = Command(
    "reason.extensions.demo.command:main", "train on 10×10 mazes, then solve larger mazes with the same weights"
)
