"""Hitori 6×6: no white digit twice in a line, no two black cells adjacent, the white cells connected."""

import numpy as np

from datasets_gen.extensions.declared import Declared, Drawn, connected
from datasets_gen.layout import DatasetError

OPEN, WHITE, BLACK = "123456", "①②③④⑤⑥", "❶❷❸❹❺❻"


class Hitori(Declared):
    """Hitori 6×6: no white digit twice in a line, no two black cells adjacent, the white cells connected."""

    name = "hitori"
    grid, values, lowest = (6, 6), "-#", 0  # white, black

    def always(self, x):
        """Require that no two black cells are adjacent and that white cells are connected."""
        pairs = [*zip(x[:, :-1].flat, x[:, 1:].flat, strict=True), *zip(x[:-1].flat, x[1:].flat, strict=True)]
        return [*(a + b <= 1 for a, b in pairs), connected(x == 0)]

    def puzzle(self, x, rng, fill):
        """Draw different digits for the white cells of a line; a black cell repeats one of its row or column."""
        answer = fill()
        order = [rng.random(6).argsort() for _ in range(3)]
        digits = 1 + order[2][(order[0][:, None] + order[1]) % 6]
        for row, column in np.argwhere(answer == 1):
            line = digits[row][answer[row] == 0] if rng.random() < 0.5 else digits[:, column][answer[:, column] == 0]
            digits[row, column] = line[int(rng.random() * len(line))]
        return Drawn(answer, shown=self.shown(x, digits))

    def shown(self, x, digits):
        """Require a black cell in each pair of equal digits; `cell <= digit`, always true, stores the digit."""
        lines = [*zip(x, digits, strict=True), *zip(x.T, digits.T, strict=True)]
        equal = [
            line[i] + line[j] >= 1 for line, held in lines for i in range(6) for j in range(i) if held[i] == held[j]
        ]
        return [*(cell <= digit for cell, digit in zip(x.flat, digits.flat, strict=True)), *equal]

    def draw(self, tokens, question=None, relations=None):
        """Draw the digits: ❶ to ❻ in black cells, ① to ⑥ in white cells that the question shows."""
        digits = {each.cells[0]: each.numbers[0] for each in self.instances_of(relations) if each.places == 1}
        kinds = [OPEN, OPEN, WHITE if question is None else OPEN, BLACK]
        board = [kinds[token][digits[cell] - 1] for cell, token in enumerate(tokens)]
        return "\n".join("".join(board[start : start + 6]) for start in range(0, 36, 6))

    def typed(self, text):
        """Parse six lines of six digits, plain, black or white."""
        cells = "".join(text.split())
        if len(cells) != 36 or set(cells) - set(OPEN + WHITE + BLACK):
            raise DatasetError("type 6 lines of 6 digits from 1 to 6")
        kind, digits = np.divmod([(OPEN + WHITE + BLACK).index(cell) for cell in cells], 6)
        clues = [cell == int(value) - 1 for cell, value in zip(self.cells.flat, kind, strict=True) if value]
        return self.of_constraints([*clues, *self.shown(self.cells, 1 + digits.reshape(self.grid))])
