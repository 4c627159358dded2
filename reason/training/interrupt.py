"""Ctrl-C and SIGTERM, or other signals: stop after what is at work, such as the current optimizer step."""

from __future__ import annotations

import signal
import threading
from collections.abc import Sequence
from types import FrameType
from typing import Any


class StopRequest:
    """Within the block the first Ctrl-C or SIGTERM only sets `name` and `number`; a second one interrupts at once.

    `patient`: a second one is ignored, since under torchrun each process gets the signal twice. `others`: signals that
    do the same, except where they are ignored, as SIGHUP is under nohup.
    """

    def __init__(self, patient: bool = False, others: Sequence[signal.Signals] = ()) -> None:
        self.name: str | None = None
        self.number: int | None = None
        self.patient, self.others = patient, others
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():
            heeded = [number for number in self.others if signal.getsignal(number) != signal.SIG_IGN]
            for number in (signal.SIGINT, signal.SIGTERM, *heeded):
                self._previous[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _note(self, number: int, _: FrameType | None) -> None:
        if self.name is not None and not self.patient:
            raise KeyboardInterrupt
        if self.name is None:
            self.name, self.number = "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name, number
