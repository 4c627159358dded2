"""Standard streams that a command was started without, as `>&-` or a service leaves them."""

from __future__ import annotations

import os
import sys


def open_missing_streams() -> None:
    """Put os.devnull in place of every standard stream that is closed, so that commands may print and read.

    It takes the lowest free number, which is the stream's own: no file that is opened later is printed into.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            stream = open(os.devnull, mode, encoding="utf-8")  # noqa: SIM115
            os.set_inheritable(stream.fileno(), True)
            setattr(sys, name, stream)
