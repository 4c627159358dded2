"""Each loss against naive float64 versions, finite differences, and maps whose answer is known."""

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import reference
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from datasets_gen.maze import Maze
from reason.losses import stability
from reason.losses.equilibrium import equilibrium_x, equilibrium_z
from reason.losses.halting import halt_loss, q_continue_loss
from reason.losses.lm import cell_loss, lm_loss, stablemax_weight
from reason.losses.repulsion import repulsion, repulsion_x, repulsion_z
from reason.losses.stability import rh_stable_z, rh_unstable_x
from reason.models import RecursiveConfig, RecursiveModel, Shape
from reason.models.base import IGNORE, Batch, Readout
from reason.models.states import mapped, rows_of
from reason.rollout import SupervisionStep

LIKELIHOODS = ["softmax", "stablemax", "stablemax3", "stablemax5"]
SMALL = RecursiveConfig(
    hidden_size=4, num_heads=1, expansion=1, mixer="mlp", positions="none", puzzle_emb_len=1, h_cycles=1, l_cycles=2
)
KINDS = [{}, {"mixer": "attention", "positions": "rotary"}, {"initial": "input"}]
STABILITY = [partial(rh_stable_z, rows=None), partial(rh_unstable_x, rows=None)]  # of all rows


def of_logits(logits, labels, active=None, last=None, q_halt=None, q_continue=None, further=None):
    active = torch.ones(len(labels), dtype=torch.bool) if active is None else active
    batch = Batch(labels, labels, torch.zeros(len(labels), dtype=torch.long))
    readouts = (Readout(logits, q_halt, q_continue),)
    return SupervisionStep(None, batch, None, (), readouts, active, 1 * active, last, further)


def sample(rows=3, cells=5, tokens=4):
    logits = 3 * torch.randn(rows, cells, tokens, dtype=torch.float64)
    labels = torch.randint(0, tokens, (rows, cells))
    labels[0, :2] = IGNORE
    return logits, labels


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_lm_equals_the_reference_and_its_gradient_finite_differences(likelihood):
    logits, labels = sample()
    expected = reference.lm_loss(logits.numpy(), labels.numpy(), likelihood)
    assert lm_loss(of_logits(logits, labels), likelihood, "row").item() == pytest.approx(expected, rel=1e-6)
    logits, labels = sample(2, 3)
    assert torch.autograd.gradcheck(lambda z: cell_loss(z, labels, likelihood), logits.requires_grad_())


@settings(max_examples=50)
@given(x=st.floats(-30, 30), degree=st.sampled_from([1, 3, 5]))
def test_stablemax_weight(x, degree):
    weight = stablemax_weight(torch.tensor(x, dtype=torch.float64), degree)
    assert weight.item() == pytest.approx(reference.stablemax_weight(x, degree), rel=1e-12)
    assert weight > 0
    mirrored = stablemax_weight(torch.tensor(-x, dtype=torch.float64), degree)
    assert (weight * mirrored).item() == pytest.approx(1)  # s(x) s(−x) = 1


def test_the_mean_over_tokens_is_torchs_and_that_over_rows_leaves_rows_without_labels_out():
    """STARS' code: F.cross_entropy over all labelled tokens of the batch; rows with more labels weigh more."""
    logits, labels = sample()
    found = lm_loss(of_logits(logits, labels), "softmax", "token").item()
    assert found == pytest.approx(torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten()).item())
    assert found != pytest.approx(lm_loss(of_logits(logits, labels), "softmax", "row").item(), rel=1e-3)
    some = lm_loss(of_logits(logits, labels, torch.tensor([True, False, True])), "softmax", "token").item()
    cells = cell_loss(logits, labels, "softmax")
    assert some == pytest.approx((cells[[0, 2]].sum() / (labels != IGNORE).sum()).item())
    labels[1], active = IGNORE, torch.tensor([True, True, False])
    alone = lm_loss(of_logits(logits[:1], labels[:1]), "stablemax", "row").item()
    assert lm_loss(of_logits(logits, labels, active), "stablemax", "row").item() == pytest.approx(alone / 3)


def test_halt_loss_is_the_bce_of_being_exact():
    """A row without a label counts as exact, as in the authors' code: none of its cells is wrong."""
    logits = torch.nn.functional.one_hot(torch.tensor([[1], [0], [0], [0]]), 2).float()
    halt, exact = [0.3, -1.2, 5.0, -0.7], [1, 0, 1, 1]
    seen = of_logits(logits, torch.tensor([[1], [1], [0], [IGNORE]]), q_halt=torch.tensor(halt))
    assert halt_loss(seen).item() == pytest.approx(np.mean(list(map(reference.bce, halt, exact))), rel=1e-5)
    waiting = replace(seen, active=torch.tensor([True, True, False, False]))
    assert halt_loss(waiting).item() == pytest.approx(sum(map(reference.bce, halt[:2], exact)) / 4, rel=1e-5)
    first = Readout(1 - logits, -torch.tensor(halt))  # of a backward pass with two loops, of which the last counts
    assert halt_loss(replace(seen, readouts=(first, *seen.readouts))) == halt_loss(seen)


def test_q_continue_bootstraps_from_one_step_further():
    """HRM eq. 9: the last step's target is σ(q'_halt), an earlier one's σ(max(q'_halt, q'_continue))."""
    q_continue = torch.tensor([0.5, 0.5, -2.0])
    further = Readout(torch.zeros(3, 1, 2), torch.tensor([1.0, 1.0, -3.0]), torch.tensor([2.0, 2.0, -4.0]))
    said = {"q_halt": torch.zeros(3), "q_continue": q_continue, "last": torch.tensor([True, False, False])}
    seen = of_logits(torch.zeros(3, 1, 2), torch.zeros(3, 1, dtype=torch.long), **said, further=further)
    targets = [1 / (1 + math.exp(-q)) for q in (1.0, 2.0, -3.0)]
    expected = np.mean([reference.bce(q, t) for q, t in zip(q_continue.tolist(), targets, strict=True)])
    assert q_continue_loss(seen).item() == pytest.approx(expected, rel=1e-5)
    assert q_continue_loss(replace(seen, active=torch.zeros(3, dtype=torch.bool))) == 0
    first = seen.readouts[0]._replace(q_continue=-q_continue)
    assert q_continue_loss(replace(seen, readouts=(first, *seen.readouts))) == q_continue_loss(seen)


@pytest.fixture
def exact(monkeypatch):
    """The diagonal itself in place of Hutchinson's estimate."""

    def diagonal(f, z, probes, product):
        return reference.full_jacobian(f, z).diagonal(dim1=1, dim2=2).reshape(z.shape)

    monkeypatch.setattr(stability, "estimated_diagonal", diagonal)


def made(**changes):
    return RecursiveModel(SMALL.model_copy(update=changes), Shape(seq_len=3, vocab_size=5), torch.float64).double()


def unrolled(model, rows=3, active=None, tokens=None):
    """One real supervision step of `model` on puzzles, random ones unless given."""
    tokens = torch.randint(0, 5, (rows, 3)) if tokens is None else tokens
    rows = len(tokens)
    batch = Batch(tokens, tokens, torch.zeros(rows, dtype=torch.long))
    x = model.encode(batch)
    state = model.step(model.initial_state(x), x)
    everyone = torch.ones(rows, dtype=torch.bool)
    active = everyone if active is None else active
    return SupervisionStep(model, batch, x, (state,), (model.readout(state, x),), active, 1 * everyone, ~everyone)


def naive_network(model, h):
    w = {name: value.detach().numpy() for name, value in model.state_dict().items()}
    return reference.network(h, w, "f_l", model.config)


def naive_jacobian(model, h, step=1e-5):
    """∂F/∂h (K, K) by central differences of the naive network."""
    columns = []
    for k in range(h.size):
        move = step * np.eye(h.size)[k].reshape(h.shape)
        columns.append(((naive_network(model, h + move) - naive_network(model, h - move)) / (2 * step)).ravel())
    return np.stack(columns, axis=1)


@pytest.mark.parametrize("changes", KINDS)
def test_equilibrium_equals_the_reference(changes):
    seen = unrolled(made(**changes), active=torch.tensor([True, False, True]))
    state, x = seen.states[-1], seen.context.x.detach().numpy()
    z_h, z_l = (z.detach().numpy() for z in state)
    low = seen.model.initial_state(seen.context).z_l.detach().numpy()
    rows = [0, 2]  # the masked row counts as 0 and the sum is divided by B = 3
    for loss, point, argument in ((equilibrium_z, z_h, z_h + z_l), (equilibrium_x, x, x + low)):
        expected = sum(((point[i] - naive_network(seen.model, argument[i])) ** 2).mean() for i in rows) / 3
        assert loss(seen).item() == pytest.approx(expected, rel=1e-4)


def test_equilibrium_pulls_the_map_and_its_argument_but_not_what_it_is_held_against():
    seen = unrolled(made())
    x = seen.context.x.detach().requires_grad_()
    context = replace(seen.context, x=x)
    (gradient,) = torch.autograd.grad(equilibrium_x(replace(seen, context=context)), x)
    f, point = seen.model.map(seen.model.input_state(context), context, "f_h")
    fixed = x.detach()
    (expected,) = torch.autograd.grad((fixed - f(point)).square().flatten(1).mean(1).mean(), x)
    torch.testing.assert_close(gradient, expected)


def expanding(model, active=None, rows=3):
    """Traces below 1 at the puzzles and, near the origin, above 1 at the states: both Routh-Hurwitz terms count."""
    with torch.no_grad():
        model.f_l.output.mul_(3)
    seen = unrolled(model, rows, active)
    return replace(seen, states=(mapped(seen.states[-1], lambda z: 0.05 * z),))


@pytest.mark.usefixtures("exact")
@pytest.mark.parametrize("changes", KINDS[:2])
def test_routh_hurwitz_equals_the_reference(changes):
    seen = expanding(made(**changes), active=torch.tensor([True, False, True]))
    model = seen.model
    z_h, z_l = (z.detach().numpy() for z in seen.states[-1])
    x, low = seen.context.x.detach().numpy(), model.initial_state(seen.context).z_l.detach().numpy()
    for loss, argument, stable in zip(STABILITY, (z_h + z_l, x + low), (True, False), strict=True):
        jacobians = [naive_jacobian(model, argument[i]) for i in (0, 2)]  # the row that waits counts as 0
        expected = sum(reference.routh_hurwitz_term(jacobian, stable) for jacobian in jacobians) / 3
        assert expected > 0.1
        assert loss(seen).item() == pytest.approx(expected, rel=1e-3)


def test_terms_of_a_map_move_the_point_too():
    for loss in (equilibrium_z, *STABILITY):
        seen = expanding(made())
        loss(seen).backward()
        assert seen.model.tokens.weight.grad.abs().sum() > 0  # of a state: through the step that led to it


def in_a_larger_maze():
    """A step of one model on mazes of 3×3, and on the same inside walled ones of 7×7."""
    settings = {"mixer": "local", "puzzle_emb_len": 0, "initial": "input", "q_from": "mean"}
    small, large = (Shape(seq_len=n * n, vocab_size=6, structure=Maze(n).structure) for n in (3, 7))
    model = RecursiveModel(RecursiveConfig(**SMALL.model_dump() | settings), small, torch.float64).double()
    model.add_shape(large)
    tokens, walled = torch.randint(2, 6, (2, 3, 3)), torch.ones(2, 7, 7, dtype=torch.long)
    walled[:, 2:5, 2:5] = tokens
    return [unrolled(model, tokens=puzzles.flatten(1)) for puzzles in (tokens, walled)]


@pytest.mark.usefixtures("exact")
def test_cells_beyond_the_edge_do_not_count():
    alone, inside = ([loss(seen).item() for loss in STABILITY] for seen in in_a_larger_maze())
    assert inside == pytest.approx(alone, rel=1e-3)


@pytest.mark.usefixtures("exact")
def test_some_rows_stand_for_all():
    seen = expanding(made(), rows=4)
    halves = [
        replace(seen, context=seen.context.rows(r), states=(rows_of(seen.states[-1], r),), active=seen.active[r])
        for r in (slice(0, 2), slice(2, 4))
    ]
    for loss in STABILITY:
        first, second = map(loss, halves)
        assert min(first, second) > 0.1
        torch.testing.assert_close((first + second) / 2, loss(seen))
        torch.testing.assert_close(loss(seen, rows=2), first)


@pytest.mark.parametrize("loss", [equilibrium_x, equilibrium_z, *STABILITY])
def test_the_gradient_of_terms_with_a_map_is_a_finite_difference(loss):
    """Of the term's own map, near the origin, where both Routh-Hurwitz terms count.

    The float32 statistics of rms_norm would drown the differences that a state makes.
    """
    seen = expanding(made(puzzle_emb_len=0), rows=2)
    weight = seen.model.f_l.output
    start, direction = weight.detach().clone(), torch.randn_like(weight)
    states = (mapped(seen.states[-1], torch.Tensor.detach),)

    def value(step):
        torch.manual_seed(7)  # the same probes each time
        weight.data = start + step * direction
        return loss(replace(seen, context=replace(seen.context, x=seen.context.x.detach()), states=states))

    (gradient,) = torch.autograd.grad(value(0), weight)
    finite = (value(1e-5) - value(-1e-5)).item() / 2e-5
    assert (gradient * direction).sum().item() == pytest.approx(finite, rel=1e-3, abs=1e-4)
    assert abs(finite) > 1e-2


@pytest.mark.parametrize(("loss", "part"), [(repulsion_x, None), (repulsion_z, 0)])
def test_repulsion_equals_the_reference_without_the_prefix(loss, part):
    seen = unrolled(made(puzzle_emb_len=2))
    z = seen.context.x if part is None else seen.states[-1][part]
    assert loss(seen).item() == pytest.approx(reference.repulsion(z.detach().numpy()[:, 2:]), rel=1e-9)


def test_repulsion_of_orthogonal_rows_a_single_row_and_masked_rows_is_zero():
    z = torch.randn(3, 2, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda z: repulsion(z, torch.tensor([True, True, False])), z)
    assert repulsion(torch.eye(4).view(4, 2, 2), torch.ones(4, dtype=torch.bool)) == 0
    assert repulsion(torch.randn(1, 3, 2), torch.ones(1, dtype=torch.bool)) == 0
    assert repulsion(torch.randn(3, 3, 2), torch.tensor([False, True, False])) == 0
    parallel = torch.stack([torch.ones(2, 2), -torch.ones(2, 2), torch.randn(2, 2)])
    assert repulsion(parallel, torch.tensor([True, True, False])).item() == pytest.approx(1)  # anti-parallel counts
