"""A run in one file, from which a training goes on elsewhere."""

from reason.plugins import COMMANDS, Command

COMMANDS["pack"] = Command(
    "reason.extensions.pack.archive:main", "put a run into one file, from which --resume continues"
)
