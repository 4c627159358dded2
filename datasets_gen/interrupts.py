"""SIGINT (Ctrl-C) during imports, and while worker processes are started."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

INTERRUPTED = "interrupted: nothing was written"


@contextlib.contextmanager
def ending_at_once() -> Iterator[None]:
    """SIGINT ends the process with exit code 130, without an exception: for imports.

    A KeyboardInterrupt in an extension module that is being imported is lost, or becomes an ImportError.
    """

    def end(*_: Any) -> None:
        os.write(2, f"{INTERRUPTED}\n".encode())
        os._exit(130)

    with _handling(end):
        yield


@contextlib.contextmanager
def held_back() -> Iterator[None]:
    """SIGINT is delivered after the block; processes that the block starts do not receive it."""
    held: list[int] = []
    with _handling(lambda number, _: held.append(number)) as replaced:
        if replaced and hasattr(signal, "pthread_sigmask"):  # a blocked signal is blocked in children too
            mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
            try:
                yield
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        else:
            yield
    if held:
        raise KeyboardInterrupt


@contextlib.contextmanager
def _handling(handler: Any) -> Iterator[bool]:
    """Replaces Python's default handler of SIGINT; False outside of the main thread, or where another is installed."""
    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield False
        return
    signal.signal(signal.SIGINT, handler)
    try:
        yield True
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
