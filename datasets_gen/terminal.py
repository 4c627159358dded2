"""Ctrl-C (SIGINT) during imports and while worker processes start."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

INTERRUPTED = "interrupted: nothing was written"


@contextlib.contextmanager
def ending_at_once(word: str = INTERRUPTED) -> Iterator[None]:
    """SIGINT ends the process with a word and exit code 130, without an exception: for imports.

    An extension module that is being imported loses a KeyboardInterrupt, or turns it into an ImportError.
    """

    def end(*_: Any) -> None:
        os.write(2, f"{word}\n".encode())
        os._exit(130)

    with _handling(end):
        yield


@contextlib.contextmanager
def held_back() -> Iterator[None]:
    """SIGINT is delivered after the block; processes that the block starts do not receive it."""
    held: list[int] = []
    with _handling(lambda number, _: held.append(number)) as replaced:
        mask = None
        if replaced and hasattr(signal, "pthread_sigmask"):  # children inherit a blocked signal, not a handler
            mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            yield
        finally:
            if mask is not None:
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    if held:
        raise KeyboardInterrupt


@contextlib.contextmanager
def _handling(handler: Any) -> Iterator[bool]:
    """Replace Python's own handler of SIGINT; False outside of the main thread, or where another one is installed."""
    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield False
        return
    signal.signal(signal.SIGINT, handler)
    try:
        yield True
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
