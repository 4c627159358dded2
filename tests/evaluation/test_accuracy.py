"""The one-pass numbers against a loop over puzzles, and the page that shows them."""

import pytest
import torch
from evaluators import read

from reason.data import PuzzleData
from reason.report.section import shown_steps, wilson_interval
from reason.rollout import unroll


def test_one_pass_equals_a_loop_over_puzzles(trained: tuple[torch.nn.Module, PuzzleData]) -> None:
    model, data = trained
    got = read(model, data, 5, 5)
    exact, cell, halted, loss = ([0.0] * 5 for _ in range(4))
    with torch.no_grad():
        for i in range(len(data)):
            batch = data.take(torch.tensor([i]))
            for m, out in enumerate(unroll(model, batch, 5)):
                right = [int(a) == int(b) for a, b in zip(out.logits[0].argmax(-1), batch.labels[0], strict=True)]
                exact[m] += all(right) / len(data)
                cell[m] += sum(right) / len(right) / len(data)
                halted[m] += float(out.q_halt[0] > 0) / len(data)
                loss[m] += torch.nn.functional.cross_entropy(out.logits[0], batch.labels[0]).item() / len(data)
    assert got["exact_by_step"] == pytest.approx(exact)
    assert got["cell_by_step"] == pytest.approx(cell)
    assert got["halted_by_step"] == pytest.approx(halted)
    assert got["loss_by_step"] == pytest.approx(loss)
    assert (got["puzzles"], got["unscored"]) == (len(data), 0)
    assert got["cell_by_step"][0] > 0


def test_the_batch_size_changes_nothing(trained: tuple[torch.nn.Module, PuzzleData]) -> None:
    model, data = trained
    runs = [read(model, data, 3, size) for size in (1, 7, 100)]
    for run in runs[1:]:
        assert run["exact_by_step"] == runs[0]["exact_by_step"]
        assert run["cell_by_step"] == pytest.approx(runs[0]["cell_by_step"])


@pytest.mark.parametrize(
    ("share", "count", "low", "high"),
    [(0.0, 10, 0.0, 0.2775), (0.5, 10, 0.2366, 0.7634), (1.0, 10, 0.7225, 1.0), (0.95, 1000, 0.9347, 0.9618)],
)
def test_wilson_interval(share: float, count: int, low: float, high: float) -> None:
    """Against values computed by hand from (p̂ + z²/2n ± z√(p̂(1−p̂)/n + z²/4n²))/(1 + z²/n), z = 1.959964."""
    assert wilson_interval(share, count) == pytest.approx((low, high), abs=2e-4)


def test_long_curves_are_shown_at_telling_steps() -> None:
    assert shown_steps(64, 8) == [1, 2, 4, 8, 16, 32, 64]
    assert shown_steps(64, 12) == [1, 2, 4, 8, 12, 16, 32, 64]
    assert shown_steps(20, 8) == [1, 2, 4, 8, 16, 20]
    assert (shown_steps(1, 8), shown_steps(3, 8)) == ([1], [1, 2, 3])
