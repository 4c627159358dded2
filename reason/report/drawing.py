"""A puzzle and its answers, drawn in the terminal."""

from __future__ import annotations

import numpy as np
from rich.text import Text

from datasets_gen.family import character_of
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
