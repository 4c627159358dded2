"""Progress in a log: whole lines, none of short work, and a reader that may leave."""

import errno
import io
import os
import sys

import pytest

from datasets_gen import progress
from datasets_gen.progress import Progress


def worked(**settings):
    with Progress(unit="step", desc="training", disable=False, **settings) as bar:
        for i in range(3):
            bar.update()
            bar.set_postfix_str(f"loss {i}")


def test_a_log_holds_whole_lines(capsys, monkeypatch):
    monkeypatch.setattr(progress, "EVERY", 0.0)
    worked(total=3)
    log = capsys.readouterr().err
    first, *_, last = log.splitlines()
    assert "\r" not in log
    assert first.startswith("training:   0% 0/3 [00:00<")
    assert last.startswith("training: 100% 3/3 [00:00<00:00")
    assert last.endswith(", loss 2]")


def test_a_log_without_a_total_counts(capsys, monkeypatch):
    monkeypatch.setattr(progress, "EVERY", 0.0)
    worked()
    assert capsys.readouterr().err.splitlines()[-1].startswith("training: 3step [00:00, ")


def test_short_work_writes_nothing_into_a_log(capsys):
    worked(total=3)
    assert capsys.readouterr().err == ""


def test_a_line_waits_for_its_time(capsys, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    bar, lines = Progress(total=10, desc="training", disable=False), []
    for second in (1.0, 29.0, 31.0, 40.0, 60.0, 62.0):
        now[0] = second
        bar.refresh()
        lines.append(len(capsys.readouterr().err.splitlines()))
    assert lines == [0, 0, 1, 0, 0, 1]


def test_a_terminal_has_a_bar(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    worked(total=3)
    drawn = capsys.readouterr().err
    assert drawn.count("\r") > 2
    assert "100%|" in drawn


class Broken(io.StringIO):
    """A pipe whose reader has gone, or a file on a full disk."""

    def __init__(self, number):
        super().__init__()
        self.number = number

    def write(self, text):
        raise OSError(self.number, os.strerror(self.number))


@pytest.mark.parametrize("number", [errno.EPIPE, errno.ENOSPC])
def test_work_goes_on_when_nothing_can_be_written(monkeypatch, number):
    monkeypatch.setattr(progress, "EVERY", 0.0)
    monkeypatch.setattr(sys, "stderr", Broken(number))
    worked(total=3)
