"""Eight queens on a board, some of them shown: none attacks another."""

from datasets_gen.extensions.declared import Declared, Drawn, cp


class Queens(Declared):
    """Eight queens, some of them shown: no two share a row, column or diagonal."""

    name = "queens"
    grid, values, lowest = (8, 8), "-Q", 0
    unique = False

    def always(self, x):
        """Require one queen in each row and column, at most one in each diagonal."""
        diagonals = [board.diagonal(k) for board in (x, x[::-1]) for k in range(-6, 7)]
        return [*(cp.sum(line) == 1 for line in (*x, *x.T)), *(cp.sum(line) <= 1 for line in diagonals)]

    def puzzle(self, x, rng, fill):
        """Show one to three queens."""
        answer = fill()
        rows = rng.random(8).argsort()[: 1 + int(rng.random() * 3)]
        return Drawn(answer, shown=[x[row, answer[row].argmax()] == 1 for row in rows])
