"""What a step says of itself, against a loop over cells."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import reference
import torch

from reason.context import Context
from reason.extensions.studies.signals import SIGNALS, Past, Reading
from reason.models.base import IGNORE, Batch, Readout
from reason.models.recursive import RecursiveState
from reason.rollout import StepRecord

OF_CELLS = ("margin", "max-probability", "certainty")


def recorded(logits: torch.Tensor, labels: torch.Tensor) -> StepRecord:
    state = RecursiveState(torch.randn(3, 4, 2), torch.randn(3, 4, 2))
    model = SimpleNamespace(readout=lambda state, context, step: Readout(logits))
    return StepRecord(model, 1, Batch(labels, labels, labels[:, 0]), Context(state.z_h), state, state)  # type: ignore[arg-type]


@pytest.mark.parametrize("likelihood", ["softmax", "stablemax"])
def test_signals_are_means_over_the_scored_cells(likelihood: str) -> None:
    logits = 2 * torch.randn(3, 4, 5)
    labels = torch.tensor([[1, IGNORE, 4, 0], [IGNORE, IGNORE, IGNORE, 2], [3, 3, 0, 1]])
    record = recorded(logits, labels)
    found = {name: SIGNALS[name](Reading(record, likelihood, "none", Past())) for name in (*OF_CELLS, "q", "gate")}
    assert found.pop("q") is found.pop("gate") is None
    for row in range(3):
        margins, largest, certain = [], [], []
        for cell in range(4):
            if labels[row, cell] == IGNORE:
                continue
            said = logits[row, cell].double().numpy()
            p = [math.exp(-reference.cell_loss(said, token, likelihood)) for token in range(5)]
            second, first = sorted(said)[-2:]
            margins.append(first - second)
            largest.append(max(p))
            certain.append(1 - sum(-each * math.log(each) for each in p) / math.log(5))
        expected = {"margin": margins, "max-probability": largest, "certainty": certain}
        for name, values in expected.items():
            assert found[name][row].item() == pytest.approx(np.mean(values), rel=1e-5), name
