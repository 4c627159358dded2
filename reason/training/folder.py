"""The folder that a training writes to: whether it is still there, and how it is made anew where it is not."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

KEPT = ("config.json", "wandb-id")  # what no checkpoint holds


class RunFolder:
    """A run's folder as training found it. `state` is asked before every checkpoint."""

    def __init__(self, run: Path):
        self.run = run
        self._kept = {name: (run / name).read_bytes() for name in KEPT if (run / name).is_file()}
        self._identity = _identity(run)

    def state(self) -> Literal["there", "gone", "another's"]:
        """`gone`: the folder or its config.json was removed; `another's`: another run lies there now."""
        same = _identity(self.run) == self._identity
        whole = all((self.run / name).exists() for name in self._kept)
        if same:
            return "there" if whole else "gone"
        return "another's" if (self.run / "config.json").exists() else "gone"

    def remake(self) -> None:
        """Make the folder again, with what was kept of it; metrics and the checkpoint are then written as ever."""
        self.run.mkdir(parents=True, exist_ok=True)
        for name, content in self._kept.items():
            (self.run / name).write_bytes(content)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
