"""A puzzle and its answers by step, drawn in the terminal and as a GIF."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from rich.text import Text

from datasets_gen.pictures import board_picture, character_of
from datasets_gen.puzzles import Puzzle

MARK, STRUCK = "'", "!"  # after a cell that has just changed, and after a clue that the question lacks


def board(puzzle: Puzzle, tokens: np.ndarray, question: np.ndarray, changed: np.ndarray) -> Text:
    """Draw tokens (S,) as text: clues are bold; a clue that the question lacks is struck through and followed by !.

    Cells that have changed (S,) are on yellow, followed by a '.
    """
    given, tokens, question, changed = map(puzzle.on_board, (puzzle.given(question), tokens, question, changed))
    rows, columns = tokens.shape
    struck = given & (tokens != question)
    text = Text()
    for cell, token in np.ndenumerate(tokens):
        row, column = cell
        if column == 0 and row:
            text.append("\n")
            if puzzle.box_shape and row % puzzle.box_shape[0] == 0:
                width = 2 * puzzle.box_shape[1]
                text.append("+-".join(["-" * width] * (columns // puzzle.box_shape[1])) + "\n", style="dim")
        if puzzle.box_shape and column and column % puzzle.box_shape[1] == 0:
            text.append("| ", style="dim")
        style = "bold" if given[cell] else "cyan"
        style = "black on yellow" if changed[cell] else style
        style = "bold red strike" if struck[cell] else style
        text.append(character_of(puzzle.characters, token), style=style)
        mark = STRUCK if struck[cell] else MARK if changed[cell] else ""
        text.append(mark or ("" if rows == 1 else " "), style=style if mark else "")
    return text


def animate(path: Path, puzzle: Puzzle, frames: np.ndarray, question: np.ndarray, captions: list[str]) -> None:
    """Make a GIF of frames (T + 1, S), the question first, with a caption each; the last one stays longer."""
    pictures = [
        board_picture(puzzle, frame, question, frames[max(i - 1, 0)], caption)
        for i, (frame, caption) in enumerate(zip(frames, captions, strict=True))
    ]
    milliseconds = [500] * (len(pictures) - 1) + [3000]
    pictures[0].save(path, save_all=True, append_images=pictures[1:], duration=milliseconds, loop=0, format="GIF")
