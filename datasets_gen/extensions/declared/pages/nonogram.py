"""Nonograms 10×10: the lengths of the filled runs of each row and column."""

from datasets_gen.extensions.declared import Drawn, Runs, WithRuns


class Nonogram(WithRuns):
    """Nonograms 10×10: the lengths of the filled runs of each row and column."""

    name = "nonogram"
    grid, values, lowest = (10, 10), "-#", 0

    def puzzle(self, x, rng, fill):
        """Draw a random picture of blots; the generator skips those with several solutions."""
        picture = blots(rng)
        lines = [*zip(x, picture, strict=True), *zip(x.T, picture.T, strict=True)]
        return Drawn(picture, shown=[Runs(cells, runs(line)) for cells, line in lines])


def blots(rng):
    """Return noise, smoothed over neighbours, with 45 to 65 of 100 cells filled."""
    noise = rng.random((12, 12))
    smooth = sum(noise[i : i + 10, j : j + 10] for i in range(3) for j in range(3)) + 2 * noise[1:-1, 1:-1]
    filled = 45 + int(rng.random() * 21)
    return (smooth >= sorted(smooth.flat)[-filled]).astype(int)


def runs(line):
    """Return the lengths of the runs of ones."""
    return [len(run) for run in "".join(map(str, line)).split("0") if run]
