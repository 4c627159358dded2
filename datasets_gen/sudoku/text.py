"""Parses typed Sudokus: one or many, as characters, fields or candidates, in frames and among other words.

A line with a whole board (.sdm, HoDoKu's library, exchange banks, CSV, XML) is that board, and its other words are
ignored. Otherwise n lines of n cells are a board: WAYS lists the ways to split a line into cells.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable

from datasets_gen.sudoku.tables import BOXES

BLANKS = ".0_*?·"
FRAME = "|" + "".join(map(chr, range(0x2500, 0x2580)))  # with all box-drawing characters
PASSED = f" \t\r\n+=:'\",;()[]{FRAME}"
CELL = f"[1-9{BLANKS}-]"
SECTION = re.compile(r"^\[Puzzle\]\s*$(.*?)(?=^\[|\Z)", re.MULTILINE | re.DOTALL)  # of a .sdk file
# An open cell in Python and JSON; -1 between spaces, commas or brackets: elsewhere - is one cell
NOTHING = re.compile(r"\b(None|null|nan)\b|''|\"\"|(?<![^\[,;\s])-1(?![^\],;\s])")
RULE = re.compile(r"[^0-9]*(-{10}|--[+*.:']|[+*.:']--)[^0-9]*")  # a line of a frame
TITLE = re.compile("[A-Za-z]{2}|^#")
BAR, OUTER = re.compile(f"[{FRAME}]"), re.compile(rf"^\s*[{FRAME}]|[{FRAME}]\s*$")


def _whole(line: str) -> list[str]:
    """Return the one board among the words of a line, which may also hold its solution; a title has none."""
    for size in sorted(BOXES, reverse=True):
        board = re.compile(f"(?<!{CELL}){CELL}{{{size**2}}}(?!{CELL})")
        if matches := board.findall(line):
            asked = [cells for cells in matches if not cells.isdigit() or "0" in cells] or matches[:1]
            cut = re.search(f"{CELL}{{{size**2 // 2}}}", board.sub("", line))  # perhaps a board that lost a cell
            return list(asked[0]) if len(asked) == 1 and not cut else [line]
    return [line] if re.search(f"{CELL}{{4}}", line) and not TITLE.search(line) else []


def _candidates(line: str) -> list[str]:
    """Join cells that are separated by spaces; a cell with several candidates is open."""
    return [re.sub("^[1-9]{2,}$", ".", word) for word in BAR.sub(" ", line).split()]


def _spaced(line: str) -> list[str]:
    """Return a space, a cell, a space … between the bars of a frame."""
    parts = BAR.split(OUTER.sub("", line))
    apart = not "".join(part[::2] for part in parts).strip()
    return [cell for part in parts for cell in part[1::2]] if apart else [line]


WAYS: tuple[Callable[[str], list[str]], ...] = (
    lambda line: [character for character in line if character not in PASSED],
    lambda line: [field.strip(" \r\"'") for field in re.split(f"[,;\t{FRAME}]", OUTER.sub("", line))],
    _candidates,
    lambda line: list(BAR.sub("", line).strip("\r")),  # a space is an open cell
    _spaced,
)


def _json_boards(text: str) -> list[str]:
    """Return the boards in the lists of a JSON text, except those under a key that names a solution."""
    try:
        left, parsed = [json.loads(text)], []
    except (ValueError, RecursionError):
        return []
    for each in left:  # which grows
        if isinstance(each, dict):
            left += [value for key, value in each.items() if "sol" not in key.lower()]
        elif isinstance(each, list):
            rows = [row if isinstance(row, list) else list(f"{row}") for row in each]
            cells = [["." if cell in (None, 0, -1) else str(cell) for cell in row] for row in rows]
            board = _stacked(cells) or _stacked([[f"{cell or '.'}" for cell in each]])
            parsed += board
            left += [] if board else each
    return parsed


def boards(text: str) -> list[str]:
    """Return the boards of a text, one a line with dots for open cells; none unless exactly one form fits."""
    if parsed := _json_boards(text):
        return parsed
    text = re.sub(r"\d", lambda digit: f"{unicodedata.digit(digit[0])}", unicodedata.normalize("NFKC", text))
    section = SECTION.search(text)
    lines = NOTHING.sub(".", section[1] if section else text).splitlines()
    # HoDoKu has + before a placed digit
    lines = [line.replace("+", "") for line in lines if line and not RULE.fullmatch(line)]
    if whole := _stacked([_whole(line) for line in lines]):
        return whole
    rows = [line for line in lines if not TITLE.search(line)]
    read = {tuple(_stacked([way(line) for line in rows])) for way in WAYS} - {()}
    return list(read.pop()) if len(read) == 1 else []


def _stacked(rows: list[list[str]]) -> list[str]:
    """Return boards of n rows with n cells each, or of one row with n² cells."""
    cells = ["." if cell in ("", " ", "-", *BLANKS) else cell for row in rows for cell in row]
    widths = [len(row) for row in rows if row]
    for size in BOXES:
        fits = (set(widths) == {size} and len(widths) % size == 0) or set(widths) == {size**2}
        if fits and all(re.fullmatch("[1-9.]", cell) for cell in cells):
            return ["".join(cells[start : start + size**2]) for start in range(0, len(cells), size**2)]
    return []
