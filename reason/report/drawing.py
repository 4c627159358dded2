"""A puzzle and its answers by step, drawn in the terminal and as a GIF."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont
from rich.text import Text

from datasets_gen.puzzles import Puzzle

PAPER, INK, LINE, GIVEN, CHANGED, WRONG = "#ffffff", "#23262b", "#c9c6be", "#eceae3", "#ffe08a", "#c8324c"
MARK = "'"  # behind a cell that has just changed, where there is no colour


def character_of(characters: str, token: int) -> str:
    """How a token is written; '?' for one that a model says and the puzzle does not know."""
    return characters[token] if token < len(characters) else "?"


def board(puzzle: Puzzle, tokens: np.ndarray, given: np.ndarray, changed: np.ndarray, wrong: np.ndarray) -> Text:
    """(S,) tokens as text: given cells bold, those that have changed marked and on yellow, broken clues red."""
    rows, columns = puzzle.grid_shape
    text = Text()
    for cell, token in enumerate(tokens):
        row, column = divmod(cell, columns)
        if column == 0 and row:
            text.append("\n")
            if puzzle.box_shape and row % puzzle.box_shape[0] == 0:
                width = 2 * puzzle.box_shape[1]
                text.append("+-".join(["-" * width] * (columns // puzzle.box_shape[1])) + "\n", style="dim")
        if puzzle.box_shape and column and column % puzzle.box_shape[1] == 0:
            text.append("| ", style="dim")
        style = "bold" if given[cell] else "cyan"
        style = "black on yellow" if changed[cell] else style
        style = "bold red" if wrong[cell] else style
        text.append(character_of(puzzle.characters, token), style=style)
        text.append(MARK if changed[cell] else "" if rows == 1 else " ", style=style if changed[cell] else "")
    return text


def animate(
    path: Path, puzzle: Puzzle, frames: np.ndarray, given: np.ndarray, captions: list[str], seconds: float = 0.5
) -> None:
    """A GIF of frames (T + 1, S), the first of them the question, with a caption each; the last one stays longer."""
    pictures = [
        _picture(puzzle, frame, given, frame != frames[max(i - 1, 0)], caption)
        for i, (frame, caption) in enumerate(zip(frames, captions, strict=True))
    ]
    milliseconds = [round(1000 * seconds)] * (len(pictures) - 1) + [3000]
    pictures[0].save(path, save_all=True, append_images=pictures[1:], duration=milliseconds, loop=0)


def _picture(puzzle: Puzzle, tokens: np.ndarray, given: np.ndarray, changed: np.ndarray, caption: str) -> Image.Image:
    rows, columns = puzzle.grid_shape
    side = max(10, min(48, 480 // max(rows, columns)))
    edge, foot = 8, 28
    width = max(columns * side + 2 * edge, 280)
    image = Image.new("RGB", (width, rows * side + 2 * edge + foot), PAPER)
    draw = ImageDraw.Draw(image)
    font = ImageFont.load_default(round(0.6 * side))
    for cell, token in enumerate(tokens.tolist()):
        row, column = divmod(cell, columns)
        x, y = edge + column * side, edge + row * side
        fill = puzzle.fills.get(token) or (CHANGED if changed[cell] else GIVEN if given[cell] else PAPER)
        draw.rectangle((x, y, x + side, y + side), fill=fill, outline=LINE)
        if changed[cell] and token in puzzle.fills:
            draw.rectangle((x + 1, y + 1, x + side - 1, y + side - 1), outline="#e0a52b", width=2)
        draw.text((x + side / 2, y + side / 2), character_of(puzzle.glyphs, token), fill=INK, font=font, anchor="mm")
    if puzzle.box_shape:
        height, width_of_box = puzzle.box_shape
        for row in range(0, rows + 1, height):
            draw.line((edge, edge + row * side, edge + columns * side, edge + row * side), fill=INK, width=2)
        for column in range(0, columns + 1, width_of_box):
            draw.line((edge + column * side, edge, edge + column * side, edge + rows * side), fill=INK, width=2)
    draw.text((edge, rows * side + 2 * edge), caption, fill=INK, font=ImageFont.load_default(15))
    return image
