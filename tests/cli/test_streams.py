"""Standard input that is no text, and a picture that cannot be written."""

import io
import sys
from pathlib import Path

import pytest
from conftest import output, refusal

from reason.cli import main

BOARD = "1..4.. ..2... .6.... ...5.. 4....1 ....3."


@pytest.mark.parametrize("start", [b"", "\ufeff".encode()])
def test_a_puzzle_on_the_input_is_read_as_one_in_a_file(start: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A byte-order mark is taken off, whatever the locale."""
    lines = BOARD.replace(" ", "\r\n").encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(start + lines), encoding="ascii"))
    output("solve sudoku-6x6 -", "the rules hold")


def test_an_input_that_is_no_text_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"1..\xff"), encoding="utf-8"))
    refusal("solve sudoku-6x6 -", "error: the standard input is no UTF-8 text (invalid start byte at byte 3)")


def test_an_answer_is_printed_although_its_picture_cannot_be_written(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A full disk leaves no torn picture, and one that was there."""

    def full(path: Path, *_: object) -> None:
        path.write_bytes(b"GIF89a")
        raise OSError(28, "No space left on device", str(path))

    (here / "p.gif").write_bytes(b"whole")
    monkeypatch.setattr("reason.cli.answer.animate", full)
    assert main(["solve", "sudoku-6x6", BOARD, "--gif", "p.gif"]) == 1
    streams = capsys.readouterr()
    assert "solved: the rules hold" in streams.out
    assert "No space left on device" in streams.err
    assert [path.read_bytes() for path in here.iterdir()] == [b"whole"]
