"""Ctrl-C and SIGTERM: stop after the current optimizer step."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any


class StopRequest:
    """Within the block the first Ctrl-C or SIGTERM only sets `name`; a second one interrupts at once.

    `patient`: a second one is ignored, since under torchrun each process gets the signal twice.
    """

    def __init__(self, patient: bool = False) -> None:
        self.name: str | None = None
        self.patient = patient
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._previous[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _note(self, number: int, _: FrameType | None) -> None:
        if self.name is not None and not self.patient:
            raise KeyboardInterrupt
        self.name = self.name or ("Ctrl-C" if number == signal.SIGINT else "SIGTERM")
