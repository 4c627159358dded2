"""Each loss against its float64 reference, its gradient against finite differences."""

import math

import numpy as np
import pytest
import reference
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from reason.losses.halting import correct_cells, halt_loss, q_continue_loss
from reason.losses.lm import cell_loss, lm_loss, stablemax_weight
from reason.models.base import IGNORE, Batch, Readout
from reason.rollout import Unroll

LIKELIHOODS = ["softmax", "stablemax", "stablemax3", "stablemax5"]


def unrolled(logits: Tensor, labels: Tensor, active: Tensor | None = None, **more: object) -> Unroll:
    rows = len(labels)
    readout = Readout(logits, more.pop("q_halt", None), more.pop("q_continue", None))
    active = torch.ones(rows, dtype=torch.bool) if active is None else active
    batch = Batch(labels, labels, torch.zeros(rows, dtype=torch.long))
    last = more.pop("last", torch.zeros(rows, dtype=torch.bool))
    return Unroll(None, batch, None, (), (readout,), active, last, **more)


def sample(rows: int = 3, cells: int = 5, tokens: int = 4) -> tuple[Tensor, Tensor]:
    logits = 3 * torch.randn(rows, cells, tokens, dtype=torch.float64)
    labels = torch.randint(0, tokens, (rows, cells))
    labels[0, :2] = IGNORE
    return logits, labels


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_lm_equals_the_reference(likelihood: str) -> None:
    logits, labels = sample()
    expected = reference.lm_loss(logits.numpy(), labels.numpy(), likelihood)
    assert lm_loss(unrolled(logits, labels), likelihood, "row").item() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_lm_gradient(likelihood: str) -> None:
    logits, labels = sample(2, 3)
    logits.requires_grad_()
    assert torch.autograd.gradcheck(lambda z: cell_loss(z, labels, likelihood), logits)


@settings(max_examples=50)
@given(x=st.floats(-30, 30), degree=st.sampled_from([1, 3, 5]))
def test_stablemax_weight(x: float, degree: int) -> None:
    weight = stablemax_weight(torch.tensor(x, dtype=torch.float64), degree)
    assert weight.item() == pytest.approx(reference.stablemax_weight(x, degree), rel=1e-12)
    assert weight > 0
    mirrored = stablemax_weight(torch.tensor(-x, dtype=torch.float64), degree)
    assert (weight * mirrored).item() == pytest.approx(1)  # s(x) s(−x) = 1


def test_rows_without_labels_and_masked_rows_count_nothing() -> None:
    logits, labels = sample()
    labels[1] = IGNORE
    active = torch.tensor([True, True, False])
    alone = lm_loss(unrolled(logits[:1], labels[:1]), "stablemax", "row")
    assert lm_loss(unrolled(logits, labels, active), "stablemax", "row").item() == pytest.approx(alone.item() / 3)


def test_the_mean_over_tokens_is_torchs() -> None:
    """STARS' code: F.cross_entropy over all labelled tokens of the batch; rows with more labels weigh more."""
    logits, labels = sample()
    found = lm_loss(unrolled(logits, labels), "softmax", "token").item()
    assert found == pytest.approx(torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten()).item())
    assert found != pytest.approx(lm_loss(unrolled(logits, labels), "softmax", "row").item(), rel=1e-3)
    some = lm_loss(unrolled(logits, labels, torch.tensor([True, False, True])), "softmax", "token").item()
    cells = cell_loss(logits, labels, "softmax")
    assert some == pytest.approx((cells[[0, 2]].sum() / (labels != IGNORE).sum()).item())


def test_exact_means_every_labelled_cell() -> None:
    labels = torch.tensor([[1, 2, IGNORE], [1, 2, IGNORE], [IGNORE] * 3])
    answers = torch.tensor([[1, 2, 0], [1, 0, 0], [0, 0, 0]])
    right, exact = correct_cells(torch.nn.functional.one_hot(answers, 3).float(), labels)
    assert exact.tolist() == [True, False, False]
    assert right.tolist() == [[True, True, False], [True, False, False], [False] * 3]


@pytest.mark.parametrize(
    ("labels", "answers", "halt", "exact"),
    [([1, 1, 0], [1, 0, 0], [0.3, -1.2, 5.0], [1, 0, 1]), ([IGNORE, 1], [0, 0], [0.3, -1.2], [1, 0])],
    ids=["labelled", "a row without a label"],
)
def test_halt_loss_is_the_bce_of_being_exact(labels: list, answers: list, halt: list, exact: list) -> None:
    """A row without a label counts as exact, as in the authors' code: none of its cells is wrong."""
    logits = torch.nn.functional.one_hot(torch.tensor(answers)[:, None], 2).float()
    seen = unrolled(logits, torch.tensor(labels)[:, None], q_halt=torch.tensor(halt))
    assert halt_loss(seen).item() == pytest.approx(np.mean(list(map(reference.bce, halt, exact))), rel=1e-5)


def test_q_continue_bootstraps_from_one_step_further() -> None:
    """HRM eq. 9: the last step's target is σ(q'_halt), an earlier one's σ(max(q'_halt, q'_continue))."""
    q_continue = torch.tensor([0.5, 0.5, -2.0])
    further = Readout(
        torch.zeros(3, 1, 2), q_halt=torch.tensor([1.0, 1.0, -3.0]), q_continue=torch.tensor([2.0, 2.0, -4.0])
    )
    said = {"q_halt": torch.zeros(3), "q_continue": q_continue, "last": torch.tensor([True, False, False])}
    seen = unrolled(torch.zeros(3, 1, 2), torch.zeros(3, 1, dtype=torch.long), **said, next_readout=further)
    targets = [1 / (1 + math.exp(-q)) for q in (1.0, 2.0, -3.0)]
    expected = np.mean([reference.bce(q, t) for q, t in zip(q_continue.tolist(), targets, strict=True)])
    assert q_continue_loss(seen).item() == pytest.approx(expected, rel=1e-5)
