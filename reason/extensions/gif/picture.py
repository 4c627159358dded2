"""Draws boards as pictures, and the answers of a puzzle as a GIF."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from datasets_gen.family import Puzzle, character_of

PAPER, INK, LINE, GIVEN, CHANGED, WRONG = "#ffffff", "#23262b", "#c9c6be", "#eceae3", "#ffe08a", "#b3203c"
OUTLINE = "#e0a52b"  # of a changed cell whose token has a colour
EDGE, FOOT = 8, 28  # pixels


def board_picture(
    puzzle: Puzzle,
    tokens: np.ndarray,
    question: np.ndarray,
    before: np.ndarray | None = None,
    caption: str = "",
) -> Image.Image:
    """Draw tokens (S,) as an answer to `question` (S,): clues grey, and struck through if the answer changes them.

    before: the board of the previous step; changed cells are marked. The longer side has about 480 pixels.
    """
    given = puzzle.on_board(puzzle.given(question))
    tokens, question, before = map(puzzle.on_board, (tokens, question, tokens if before is None else before))
    rows, columns = tokens.shape
    changed = tokens != before
    side = max(10, min(48, 480 // max(rows, columns)))
    width, foot = columns * side + 2 * EDGE, FOOT if caption else 0
    image = Image.new("RGB", (max(width, 280) if caption else width, rows * side + 2 * EDGE + foot), PAPER)
    draw = ImageDraw.Draw(image)
    font = ImageFont.load_default(round(0.6 * side))
    for cell, token in np.ndenumerate(tokens):
        row, column = cell
        x, y = EDGE + column * side, EDGE + row * side
        fill = puzzle.colours.get(token) or (CHANGED if changed[cell] else GIVEN if given[cell] else PAPER)
        draw.rectangle((x, y, x + side, y + side), fill=fill, outline=LINE)
        if changed[cell] and token in puzzle.colours:
            draw.rectangle((x + 1, y + 1, x + side - 1, y + side - 1), outline=OUTLINE, width=2)
        draw.text((x + side / 2, y + side / 2), character_of(puzzle.glyphs, token), fill=INK, font=font, anchor="mm")
        if given[cell] and token != question[cell]:
            draw.line((x + 1, y + side - 1, x + side - 1, y + 1), fill=WRONG, width=max(2, side // 16))
    if puzzle.box_shape:
        height, width_of_box = puzzle.box_shape
        for row in range(0, rows + 1, height):
            draw.line((EDGE, EDGE + row * side, EDGE + columns * side, EDGE + row * side), fill=INK, width=2)
        for column in range(0, columns + 1, width_of_box):
            draw.line((EDGE + column * side, EDGE, EDGE + column * side, EDGE + rows * side), fill=INK, width=2)
    draw.text((EDGE, rows * side + 2 * EDGE), caption, fill=INK, font=ImageFont.load_default(15))
    return image


def animate(path: Path, puzzle: Puzzle, frames: np.ndarray, question: np.ndarray, captions: list[str]) -> None:
    """Make a GIF of frames (T + 1, S), the question first, with a caption each; the last one stays longer."""
    pictures = [
        board_picture(puzzle, frame, question, frames[max(i - 1, 0)], caption)
        for i, (frame, caption) in enumerate(zip(frames, captions, strict=True))
    ]
    milliseconds = [500] * (len(pictures) - 1) + [3000]
    pictures[0].save(path, save_all=True, append_images=pictures[1:], duration=milliseconds, loop=0, format="GIF")
