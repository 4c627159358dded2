"""Progress bars of long work: tqdm on a terminal, plain lines in a file."""

from __future__ import annotations

import contextlib
import math
import sys
import time
from typing import Any, TextIO

from tqdm import tqdm

EVERY = 30.0  # seconds between two lines of a log
LINE = "{desc}: {percentage:3.0f}% {n_fmt}/{total_fmt} [{elapsed}<{remaining}, {rate_fmt}{postfix}]"
ENDLESS = "{desc}: {n_fmt}{unit} [{elapsed}, {rate_fmt}{postfix}]"


class Lossy:
    """A stream that may fail: its reader leaves, as `tee` does at Ctrl-C, or its disk is full. The work goes on."""

    def __init__(self, stream: TextIO):
        self._stream = stream

    def write(self, text: str) -> None:
        """Write, if that can be done."""
        with contextlib.suppress(OSError):
            self._stream.write(text)

    def flush(self) -> None:
        """Flush, if that can be done."""
        with contextlib.suppress(OSError):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class Progress(tqdm):
    """A tqdm bar on the error stream; where that is no terminal, a line every 30 s, and nothing of shorter work."""

    def __init__(self, *arguments: Any, **settings: Any):
        self.log = not sys.stderr.isatty()
        self._due, self._lines = time.monotonic() + EVERY, 0
        if self.log:
            settings["bar_format"] = LINE if arguments or settings.get("total") else ENDLESS
        given: dict[str, Any] = {"file": Lossy(sys.stderr), "dynamic_ncols": True, "smoothing": 0.05} | settings
        super().__init__(*arguments, **given)

    def display(self, msg: str | None = None, pos: int | None = None) -> None:
        """Draw the bar, or write the line that is due."""
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
        """Leave the finished bar, or write the last line of work that has written some."""
        if self.log:
            if self._lines and not self.disable:
                self._line()
            self.delay = math.inf  # tqdm draws nothing more
        super().close()

    def _line(self) -> None:
        self._lines += 1
        self.fp.write(f"{self}\n")
        self.fp.flush()
