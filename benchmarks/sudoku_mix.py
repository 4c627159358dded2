"""How hard a set of 9×9 Sudoku is for solvers that had no part in making it, beside real puzzles and Sudoku-Extreme.

    git clone https://github.com/t-dillon/tdoku && cd tdoku
    g++ -O3 -march=native -std=c++17 -shared -fPIC -Iinclude src/solver_dpll_triad_simd.cc src/util.cc -o libtdoku.so
    python benchmarks/sudoku_mix.py DIR --tdoku libtdoku.so [--split test] [--real FILE.csv] [--png FILE]

Three counts of a puzzle: the guesses of tdoku, whose counts are the published ratings; the branching nodes of an
exact-cover solver; the rating of this project. All until the first solution, under random symmetries. FILE.csv holds
real puzzles with the columns of Sudoku-Extreme; they are reweighted so that their tdoku counts have its mix.
"""

from __future__ import annotations

import argparse
import ctypes
from pathlib import Path

import matplotlib
import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.stats import spearmanr

from datasets_gen.compiled import compiled
from datasets_gen.importers.tables import read_table
from datasets_gen.layout import read_split
from datasets_gen.sudoku import BIN_NAMES, RATING_BINS, bins_of
from datasets_gen.sudoku.rating import rate, shuffles
from datasets_gen.sudoku.tables import geometry

matplotlib.use("Agg")
from matplotlib import pyplot as plt

SHUFFLES = 8
SYMMETRIES = 1000  # from which those of a count are drawn; the rating's own are left out
EXTREME_MIX = (0.15, 0.13, 0.25, 0.33, 0.12, 0.015)  # Sudoku-Extreme's shares of RATING_BINS: one shuffle of tdoku
MIX = np.array(EXTREME_MIX) / sum(EXTREME_MIX)


def tdoku_guesses(boards: np.ndarray, library: Path) -> np.ndarray:
    """Guesses (N, SHUFFLES) of tdoku."""
    solve = ctypes.CDLL(str(library.resolve())).TdokuSolverDpllTriadSimd
    solve.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint32, ctypes.c_char_p, ctypes.c_void_p]
    solve.restype = ctypes.c_size_t
    guesses, solution = ctypes.c_size_t(), ctypes.create_string_buffer(128)
    counts = np.zeros((len(boards), SHUFFLES), np.int64)
    for (row, column), shuffle in np.ndenumerate(symmetries(len(boards))):
        text = bytes(b".123456789"[digit] for digit in shuffle.digits[boards[row][shuffle.cells]])
        found = solve(text, 1, 0, solution, ctypes.byref(guesses))
        assert found == 1, "tdoku finds no solution"
        counts[row, column] = guesses.value
    return counts


def symmetries(count: int) -> np.ndarray:
    """Random symmetries (count, SHUFFLES), none of which the rating uses."""
    known = np.empty(SYMMETRIES, object)
    known[:] = shuffles(9, SHUFFLES + SYMMETRIES)[SHUFFLES:]
    return known[np.random.default_rng(0).integers(SYMMETRIES, size=(count, SHUFFLES))]


@compiled
def _cover_nodes(board, units, order):
    """Branching nodes until the first solution: of the 324 constraints one with the fewest ways, ties by `order`."""
    alive, solved = np.ones((82, 81, 9), np.bool_), np.zeros((82, 4, 81), np.bool_)
    ways, tried = np.empty((82, 9, 2), np.int64), np.zeros(82, np.int64)
    number, nodes, depth, filled = np.zeros(82, np.int64), 0, 0, 0
    pending = np.empty((81, 2), np.int64)
    for cell in range(81):
        if board[cell]:
            pending[filled] = cell, board[cell] - 1
            filled += 1
    while True:
        for k in range(filled):
            cell, digit = pending[k]
            solved[depth, 3, cell] = True
            alive[depth, cell, :] = False
            for unit in range(27):
                inside = False
                for other in units[unit]:
                    inside |= other == cell
                if inside:
                    solved[depth, unit // 9, unit % 9 * 9 + digit] = True
                    for other in units[unit]:
                        alive[depth, other, digit] = False
        fewest, best = 10, -1
        for constraint in order:
            kind, which = divmod(constraint, 81)
            if not solved[depth, kind, which]:
                count = 0
                for k in range(9):
                    if kind == 3:
                        count += alive[depth, which, k]
                    else:
                        count += alive[depth, units[9 * kind + which // 9, k], which % 9]
                if count < fewest:
                    fewest, best = count, constraint
        if best < 0:
            return nodes
        kind, which = divmod(best, 81)
        number[depth] = tried[depth] = 0
        for k in range(9):
            cell, digit = (which, k) if kind == 3 else (np.int64(units[9 * kind + which // 9, k]), which % 9)
            if alive[depth, cell, digit]:
                ways[depth, number[depth]] = cell, digit
                number[depth] += 1
        nodes += fewest > 1
        while tried[depth] == number[depth]:
            depth -= 1
        pending[0], filled = ways[depth, tried[depth]], 1
        tried[depth] += 1
        alive[depth + 1], solved[depth + 1] = alive[depth], solved[depth]
        depth += 1


def cover_nodes(boards: np.ndarray) -> np.ndarray:
    """Branching nodes (N,) of an exact-cover solver, under a random symmetry and order of constraints each."""
    rng, units = np.random.default_rng(0), geometry(9).units.astype(np.int64)
    drawn = symmetries(len(boards))[:, 0]
    boards = np.array([each.digits[board[each.cells]] for board, each in zip(boards, drawn, strict=True)])
    return np.array([_cover_nodes(board, units, rng.permutation(324)) for board in boards])


def shares(counts: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """Share of counts (N,) in every bin."""
    found = np.bincount(bins_of(counts), weights, minlength=len(RATING_BINS))
    return found / found.sum()


def reweighted(guesses: np.ndarray) -> np.ndarray:
    """Weights (N,) under which counts (N,) have the mix of Sudoku-Extreme."""
    weights = (MIX / np.maximum(shares(guesses), 1e-9))[bins_of(guesses)]
    return weights / weights.sum()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--tdoku", type=Path, required=True, metavar="LIBRARY")
    parser.add_argument("--split", default="train")
    parser.add_argument("--real", type=Path, metavar="FILE.csv")
    parser.add_argument("--png", type=Path)
    options = parser.parse_args()
    sets = {"generated": read_split(options.directory, options.split)[1].inputs - 1}
    if options.real:
        sets["real, reweighted"] = read_table(options.real, "sudoku").split.inputs - 1
    table = Table(title="guesses of tdoku, one shuffle each", title_justify="left")
    for column in ("", *BIN_NAMES, "mean", "exact cover", "Spearman, means of 8", "puzzles"):
        table.add_column(column, justify="right")
    bars = {"Sudoku-Extreme": MIX}
    table.add_row("Sudoku-Extreme", *(f"{share:.3f}" for share in EXTREME_MIX), "22")
    for name, boards in sets.items():
        guesses, nodes, ours = tdoku_guesses(boards, options.tdoku), cover_nodes(boards), rate(boards)
        weights = reweighted(guesses[:, 0]) if name != "generated" else np.full(len(boards), 1 / len(boards))
        bars[name] = shares(guesses[:, 0], weights)
        figures = [*bars[name], weights @ guesses[:, 0], weights @ nodes, spearmanr(ours, guesses.mean(1)).statistic]
        table.add_row(name, *(f"{figure:.3f}" for figure in figures), str(len(boards)))
    Console(width=150).print(table)
    if options.png:
        draw(options.png, {name: bars[name] for name in bars if name != "real, reweighted"})


def draw(path: Path, bars: dict[str, np.ndarray]) -> None:
    """A bar chart of shares by bin."""
    figure, axis = plt.subplots(figsize=(6, 3.2), layout="constrained")
    places = np.arange(len(BIN_NAMES))
    for index, (name, values) in enumerate(bars.items()):
        axis.bar(places + 0.4 * index - 0.2, values, 0.4, label=name)
    axis.set_xticks(places, BIN_NAMES)
    axis.set_xlabel("guesses of tdoku, one shuffle")
    axis.set_ylabel("share of puzzles")
    axis.legend()
    figure.savefig(path, dpi=110)
    plt.close(figure)


if __name__ == "__main__":
    main()
