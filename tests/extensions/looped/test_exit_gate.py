"""What an exit gate costs at evaluation, when it leaves, and the loops that puzzles need."""

import numpy as np
import pytest
import reference
import torch
from evaluators import counting, read
from gates import gated
from scipy.stats import spearmanr

from reason.data import PuzzleData
from reason.extensions.looped.studies.exits import by_difficulty
from reason.rollout import unroll


def test_an_exit_gate_costs_no_pass_of_its_own(sums: PuzzleData) -> None:
    """It looks at the pass's own steps, and at more of them only where fewer than the trained ones are asked for."""
    for steps, taken in ((4, 4), (2, 3)):
        model = gated(sums)
        rows = counting(model)
        found = read(model, sums, steps, 4)
        assert sum(rows) == taken * len(sums)
        assert len(found["exact_by_step"]) == len(found["valid_by_step"]) == len(found["loss_by_step"]) == steps
        assert [row["loops"] for row in found["exits"]["fixed"]] == [1, 2, 3]


@pytest.mark.parametrize("steps", [4, 2])
def test_exits_against_a_loop_over_cells(steps: int, sums: PuzzleData) -> None:
    pytest.importorskip("reason.extensions.studies")
    model = gated(sums)
    found = read(model, sums, steps, 4)["exits"]
    batch = sums.take(torch.arange(len(sums)))
    with torch.no_grad():
        records = list(unroll(model, batch, 3))
    for quantile in (0.3, 0.5, 0.9):
        taken, right, losses, exact = [], [], [], []
        for row in range(len(sums)):
            ok = True
            for cell in range(batch.labels.shape[1]):
                if batch.labels[row, cell] >= 0:
                    stays, loop = 1.0, 0
                    while loop < 3:
                        stays *= 1 - records[loop].readout.gate[row, cell].sigmoid().item()
                        loop += 1
                        if 1 - stays > quantile:
                            break
                    taken.append(loop)
                    right.append(bool(records[loop - 1].answer[row, cell] == batch.labels[row, cell]))
                    said, label = records[loop - 1].logits[row, cell].tolist(), int(batch.labels[row, cell])
                    losses.append(reference.cell_loss(said, label, "softmax"))
                    ok &= right[-1]
            exact.append(ok)
        (line,) = [line for line in found["gate"] if line["quantile"] == quantile]
        expected = (np.mean(taken), np.mean(right), np.mean(losses), np.mean(exact))
        assert (line["mean_loops"], line["cell"], line["ce"], line["exact"]) == pytest.approx(expected)
    assert len({line["mean_loops"] for line in found["gate"]}) > 3
    bins = found["by_difficulty"]["bins"]
    mean = sum(line["puzzles"] * line["expected_loops"] for line in bins) / len(sums)
    spent, leaves = [], []
    for row in range(len(sums)):
        cells = []
        for cell in (batch.labels[row] >= 0).nonzero().flatten().tolist():
            stays, expected = 1.0, 1.0  # E[t] = Σ over t ≥ 0 of P(more than t loops)
            for loop in range(2):
                stays *= 1 - records[loop].readout.gate[row, cell].sigmoid().item()
                expected += stays
            cells.append(expected)
            leaves.append(reference.exit_distribution([record.readout.gate[row, cell].item() for record in records]))
        spent.append(np.mean(cells))
    assert mean == pytest.approx(np.mean(spent))
    assert found["p"] == pytest.approx(np.mean(leaves, axis=0))


def test_loops_needed_are_those_from_which_on_a_puzzle_stays_right() -> None:
    """And their order is compared with that of the loops that the gate expects."""
    exact = np.array([[1, 0, 0, 1, 0], [1, 1, 0, 0, 1], [1, 1, 1, 1, 0]], bool)  # needed: 1, 2, 3, 3, never
    expected, bins = np.array([1.0, 1.5, 2.0, 2.5, 3.0]), ("rating", ["easy", "hard"], np.array([0, 0, 1, 1, 1]))
    found = by_difficulty(expected, exact, bins)
    assert found["rank_correlation"] == pytest.approx(spearmanr([1, 2, 3, 3], expected[:4]).statistic)
    assert (found["expected_of_solved"], found["expected_of_unsolved"]) == (1.75, 3)
    assert found["by_difficulty"]["bins"] == [
        {"bin": "easy", "puzzles": 2, "expected_loops": 1.25, "needed_loops": 1.5, "exact": 1},
        {"bin": "hard", "puzzles": 3, "expected_loops": 2.5, "needed_loops": 3, "exact": pytest.approx(2 / 3)},
    ]
    none = by_difficulty(expected, np.zeros_like(exact), bins)
    assert (none["rank_correlation"], none["expected_of_solved"]) == (None, None)
    assert all(row["needed_loops"] is None for row in none["by_difficulty"]["bins"])
    assert by_difficulty(expected, exact, None)["by_difficulty"] is None
