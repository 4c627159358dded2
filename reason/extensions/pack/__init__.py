"""Packs a run into one file, by which a training continues on another machine."""

from reason.plugins import COMMANDS, Command

COMMANDS["pack"] = Command(
    "reason.extensions.pack.archive:main", "put a run into one file, from which --resume continues"
)
