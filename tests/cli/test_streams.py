"""Standard input that is no text, and standard streams that are closed."""

import io
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import output, refusal

from reason.cli import main

ROOT = Path(__file__).parents[2]
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
    monkeypatch.setattr("reason.files.read_stream.__defaults__", (3,))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"1..4"), encoding="utf-8"))
    refusal("solve sudoku-6x6 -", "the standard input holds more than 3 bytes")


@pytest.mark.parametrize(("words", "status"), [
    ("reason models >&-", 0),
    ("reason frob 2>&-", 2),
    ("reason solve sudoku-6x6 - <&- >&- 2>&-", 1),
    ("datasets_gen sudoku --size 4 --train 2 --test 2 --output-dir set <&- >&- 2>&-", 0),
])  # fmt: skip
def test_a_closed_stream_is_no_error(words: str, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    done = subprocess.run(["bash", "-c", f"{sys.executable} -m {words}"], capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, "Traceback" in done.stderr) == (status, False)
    assert all(path.name == "set" for path in tmp_path.iterdir())


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
