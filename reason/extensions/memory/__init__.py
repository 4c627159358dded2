"""Memory of a training, estimated before any tensor is allocated: `reason memory`."""

from reason.plugins import COMMANDS, Command

COMMANDS["memory"] = Command("reason.extensions.memory.command:main", "estimate the memory of a training")
