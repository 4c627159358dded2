"""What the halting head says, where it is read."""

from typing import Any

import pytest
import torch

from reason.config.describe import halting_read
from reason.config.overrides import derive
from reason.evaluation.studies.by_step import halt_signal
from reason.models.base import Readout
from reason.presets import preset
from reason.rollout import exact_logit


@pytest.mark.parametrize(
    ("changes", "read"),
    [({}, "bce"), ({"rollout.halting": "none"}, "none"), ({"rollout.halting": "none", "loss.weights.q_halt": 0}, None)],
)
def test_the_head_is_read_where_a_loss_trains_it(changes: dict[str, Any], read: Any) -> None:
    assert halting_read(derive(preset("sudoku-4x4").config(), changes)) == read
    readout = Readout(torch.zeros(1, 4, 6), q_halt=torch.ones(1))
    assert (exact_logit(readout, read) is None) == (read is None)


def test_under_q_learning_it_is_compared_with_going_on() -> None:
    """Of the q of exactness alone it is the trained probability."""
    both = Readout(torch.zeros(3, 16, 6), torch.full((3,), 4.0), torch.full((3,), 4.0))
    assert exact_logit(both, "q-learning").tolist() == halt_signal(both, "bce").tolist() == [4.0] * 3
    assert halt_signal(both, "q-learning").tolist() == [0.0] * 3
    assert halt_signal(both, None) is None
