"""Ctrl-C, SIGTERM and similar signals: stop after the current unit of work, such as an optimizer step."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any, NamedTuple

WARNINGS = ("SIGTERM", "SIGUSR1", "SIGUSR2")  # a cluster sends them before it ends a job; Windows lacks two


class Outcome(NamedTuple):
    """The last optimizer step, and what stopped training (None: it is finished)."""

    step: int
    stopped_by: str | None


class StopRequest:
    """Within the block the first signal only sets `name` and `number`; a second Ctrl-C interrupts at once.

    Handles Ctrl-C, SIGTERM, SIGUSR1 and SIGUSR2. `patient`: a second Ctrl-C is ignored, since under torchrun each
    process gets it twice.
    """

    def __init__(self, patient: bool = False) -> None:
        self.name: str | None = None
        self.number: int | None = None
        self.interrupts = 0
        self.patient = patient
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():
            warnings = [signal.Signals[name] for name in WARNINGS if name in signal.Signals.__members__]
            for number in (signal.SIGINT, *warnings):
                self._previous[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _note(self, number: int, _: FrameType | None) -> None:
        self.interrupts += number == signal.SIGINT
        if number == signal.SIGINT and self.interrupts > 1 and not self.patient:
            raise KeyboardInterrupt
        if self.name is None:
            self.name = "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name
            self.number = number
