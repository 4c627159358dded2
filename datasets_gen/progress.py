"""Progress bars of long work: tqdm on a terminal, plain lines in a file."""

from __future__ import annotations

import contextlib
import math
import sys
import time
from typing import Any

from tqdm import tqdm

EVERY = 30.0  # seconds between two lines of a log
LINE = "{desc}: {percentage:3.0f}% {n_fmt}/{total_fmt} [{elapsed}<{remaining}, {rate_fmt}{postfix}]"
ENDLESS = "{desc}: {n_fmt}{unit} [{elapsed}, {rate_fmt}{postfix}]"


class Progress(tqdm):
    """A tqdm bar on stderr; if this is not a terminal, a line every 30 s, and none for shorter work."""

    def __init__(self, *arguments: Any, **settings: Any):
        self.log = not sys.stderr.isatty()
        self._due, self._lines = time.monotonic() + EVERY, 0
        if self.log:
            settings["bar_format"] = LINE if arguments or settings.get("total") else ENDLESS
        super().__init__(*arguments, **{"dynamic_ncols": True, "smoothing": 0.05} | settings)

    def display(self, msg: str | None = None, pos: int | None = None) -> None:
        """Draw the bar, or write a line if it is time."""
        if not self.log:
            super().display(msg, pos)
        elif time.monotonic() >= self._due:
            self._due = time.monotonic() + EVERY
            self._line()

    def say(self, text: str) -> None:
        """Print a line on the output stream, on a terminal above the bar."""
        if not self.log:
            self.clear()
        print(text, flush=True)

    def close(self) -> None:
        """Leave the finished bar, or write a last line if there were others."""
        if self.log:
            if self._lines and not self.disable:
                self._line()
            self.delay = math.inf  # tqdm draws nothing more
        super().close()

    def _line(self) -> None:
        self._lines += 1
        with contextlib.suppress(OSError):  # its reader has exited, as `tee` does at Ctrl-C, or the disk is full
            print(self, file=sys.stderr, flush=True)
