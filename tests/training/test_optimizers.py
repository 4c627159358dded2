"""Optimizers and the average of the weights, each form against its formula."""

import copy

import numpy as np
import pytest
import reference
import torch
from adam_atan2_pytorch import AdamAtan2 as Library
from evaluators import small
from torch import nn

from reason.models import RecursiveConfig, RecursiveModel, Shape
from reason.training import optim
from reason.training.ema import Ema, EmaConfig
from reason.training.optim import AdamAtan2, Muon, OptimizerConfig, Optimizers, SignSGD, orthogonalized

SMALL = RecursiveConfig(hidden_size=8, num_heads=2, expansion=1, puzzle_emb_len=2)
BETAS = (0.9, 0.95)


def model():
    return RecursiveModel(SMALL, Shape(seq_len=4, vocab_size=5, num_puzzle_identifiers=6))


def moved(config, steps=3, device="cpu"):
    """The head's weight before, its gradients, and the weight after as many steps."""
    net = model().to(device)
    optimizers = Optimizers(net, config)
    weight = net.head.weight
    start = weight.detach().double().cpu().numpy().copy()
    gradients = [torch.randn_like(weight) for _ in range(steps)]
    for step, gradient in enumerate(gradients):
        weight.grad = gradient.clone()
        norm = optimizers.step(config.schedule.factor(step, steps))
        assert norm.item() == pytest.approx(gradient.norm().item(), rel=1e-5)
    return start, [g.double().cpu().numpy() for g in gradients], weight.detach().cpu().numpy()


@pytest.mark.parametrize("eps", [None, 0.5])
@pytest.mark.parametrize("kind", ["adam-atan2", "adam-atan2-outside"])
def test_each_form_of_adam_atan2_is_its_formula(kind, eps):
    config = OptimizerConfig(kind=kind, lr=0.01, weight_decay=0.3, betas=BETAS, eps=eps)
    start, gradients, end = moved(config)
    expected = reference.adam_atan2(start, gradients, 0.01, BETAS, 0.3, eps or 0, kind == "adam-atan2-outside")
    np.testing.assert_allclose(end, expected, atol=1e-6)


@pytest.mark.parametrize(("eps", "clip"), [(None, None), (0.5, None), (0.5, 1.0)])
def test_adamw_is_torchs(eps, clip):
    config = OptimizerConfig(kind="adamw", lr=0.01, weight_decay=0.3, betas=BETAS, eps=eps, grad_clip=clip)
    start, gradients, end = moved(config)
    twin = nn.Parameter(torch.from_numpy(start))
    adamw = torch.optim.AdamW([twin], lr=0.01, betas=BETAS, weight_decay=0.3, eps=eps or 1e-8)
    for gradient in gradients:
        twin.grad = torch.from_numpy(gradient) * min(1.0, (clip or np.inf) / np.linalg.norm(gradient))
        adamw.step()
    np.testing.assert_allclose(end, twin.detach().numpy(), atol=1e-6)


def first_moves(net, config):
    """How the first of ten steps moves each parameter, by random gradients; the third puzzle's embedding is read."""
    optimizers = Optimizers(net, config)
    before = {name: p.detach().clone() for name, p in net.named_parameters()}
    for name, p in net.named_parameters():
        p.grad = None if name.startswith("puzzle") else torch.randn_like(p)
    if net.puzzle_embedding is not None:
        net.puzzle_embedding(torch.tensor([3])).sum().backward()
    optimizers.step(config.schedule.factor(0, 10))
    return {name: p.detach() - before[name] for name, p in net.named_parameters()}, optimizers


def test_muon_moves_the_matrices_of_the_networks_and_adamw_the_rest():
    """A step of Muon is orthogonal: all its singular values are near lr·√max(1, rows/columns)."""
    net = small(Shape(seq_len=4, vocab_size=5), num_layers=1)
    config = OptimizerConfig(kind="muon", lr=0.01, muon_lr=0.1, weight_decay=0.0, schedule={"warmup_steps": 0})
    inside = {name for name, p in net.named_parameters() if name.startswith("f_l.") and p.ndim == 2}
    assert inside
    for name, step in first_moves(net, config)[0].items():
        if name in inside:
            size = 0.1 * max(1.0, step.shape[0] / step.shape[1]) ** 0.5
            values = torch.linalg.svdvals(step) / size
            assert values.min() > 0.6
            assert values.max() < 1.3
        else:
            torch.testing.assert_close(step.abs(), torch.full_like(step, 0.01), rtol=1e-3, atol=0)


def test_puzzle_embeddings_and_muons_matrices_follow_the_schedule():
    """A quarter of every rate at the first of four steps of warm-up."""
    settings = {"kind": "muon", "muon_lr": 0.1, "lr": 0.01, "weight_decay": 0}
    table = {"puzzle_emb_lr": 0.2, "puzzle_emb_weight_decay": 0}
    moves = {}
    for warmup in (0, 4):
        torch.manual_seed(0)
        config = OptimizerConfig(**settings | table, schedule={"warmup_steps": warmup})
        moves[warmup], optimizers = first_moves(model(), config)
    assert [group["lr"] for group in optimizers.main.param_groups] == pytest.approx([0.1 / 4, 0.01 / 4])
    row = torch.zeros_like(moves[0]["puzzle_embedding.weight"])
    row[3] = -0.2 / 4
    torch.testing.assert_close(moves[4]["puzzle_embedding.weight"], row)
    for name, move in moves[0].items():
        torch.testing.assert_close(moves[4][name], move / 4, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize(("rows", "columns"), [(5, 9), (9, 5), (6, 6)])
def test_orthogonalizing_maps_singular_values_by_the_quintic(rows, columns):
    """σ ↦ 3.4445σ − 4.775σ³ + 2.0315σ⁵ five times, in float64 beside an SVD; several matrices are each by itself."""
    matrices = torch.randn(3, rows, columns, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    u, sigma, vh = torch.linalg.svd(matrices, full_matrices=False)
    sigma = sigma / sigma.norm(dim=1, keepdim=True)
    for _ in range(5):
        sigma = 3.4445 * sigma - 4.775 * sigma**3 + 2.0315 * sigma**5
    torch.testing.assert_close(orthogonalized(matrices), u @ torch.diag_embed(sigma) @ vh, rtol=0, atol=1e-12)
    torch.testing.assert_close(orthogonalized(matrices[1:2])[0], orthogonalized(matrices)[1], rtol=0, atol=1e-12)
    assert not orthogonalized(torch.zeros(1, rows, columns)).any()


def stepped_alike(ours, theirs, shapes):
    """Pairs of parameters, and both optimizers, after four steps by the same gradients; the last skips one step."""
    pairs = [(nn.Parameter(start), nn.Parameter(start.clone())) for start in map(torch.randn, shapes)]
    steppers = [make(list(own)) for make, own in zip((ours, theirs), zip(*pairs, strict=True), strict=True)]
    for step in range(4):
        for pair in pairs:
            gradient = None if step == 1 and pair is pairs[-1] else torch.randn_like(pair[0])
            for p in pair:
                p.grad = gradient if gradient is None else gradient.clone()
        for stepper in steppers:
            stepper.step()
    return pairs, steppers


def test_muon_is_torchs_but_for_its_bfloat16():
    """Matrices of two shapes, one of which has no gradient once; torch's iterations are in bfloat16."""
    pairs, (own, library) = stepped_alike(
        lambda ours: Muon(ours, [], OptimizerConfig(muon_lr=0.1, weight_decay=0.3)),
        lambda theirs: torch.optim.Muon(theirs, 0.1, weight_decay=0.3),
        [(8, 32), (32, 8), (8, 32)],
    )
    for one, other in pairs:
        torch.testing.assert_close(one, other, rtol=0, atol=0.01)
        torch.testing.assert_close(own.state[one]["momentum_buffer"], library.state[other]["momentum_buffer"])


def test_adam_atan2_is_the_librarys():
    """adam-atan2-pytorch, to the bit; a parameter without a gradient waits."""
    pairs, _ = stepped_alike(
        lambda ours: AdamAtan2(ours, OptimizerConfig(lr=0.01, betas=BETAS, weight_decay=0.3)),
        lambda theirs: Library(theirs, 0.01, BETAS, 0.3, a=1.0),
        [(2, 3), (4,)],
    )
    assert all(torch.equal(mine, yours) for mine, yours in pairs)


def test_sign_sgd_moves_touched_rows_by_the_sign_of_their_sum():
    table = nn.Embedding(6, 3, sparse=True)
    before = table.weight.detach().clone()
    pull = torch.tensor([[1.0, 1, 0], [-3, 1, 0], [2, 2, -1]])  # rows 4, 4, 1
    (table(torch.tensor([4, 4, 1])) * pull).sum().backward()
    (table(torch.tensor([1])) * torch.tensor([[-5.0, 0, 0]])).sum().backward()  # a second supervision step
    (table(torch.tensor([0])) * torch.inf).sum().backward()  # it must not reach the others
    SignSGD(table.weight, lr=0.1, weight_decay=0.5).step(factor=2.0)
    expected = before.clone()
    expected[4] = before[4] * (1 - 0.2 * 0.5) - 0.2 * torch.tensor([-1.0, 1, 0])
    expected[1] = before[1] * (1 - 0.2 * 0.5) - 0.2 * torch.tensor([-1.0, 1, -1])
    expected[0] = before[0] * (1 - 0.2 * 0.5) - 0.2
    torch.testing.assert_close(table.weight.detach(), expected)
    assert table.weight.grad is None


class Fused(AdamAtan2):
    """What the CUDA package offers: its arguments and its formula, which is that of ours."""

    def __init__(self, params, lr, betas, weight_decay):
        config = OptimizerConfig(kind="adam-atan2-outside", lr=lr, betas=betas, weight_decay=weight_decay)
        super().__init__(params, config)


@pytest.mark.parametrize(
    ("settings", "fused"),
    [({}, True), ({"eps": 1e-8}, False), ({"kind": "adam-atan2"}, False), ({"kind": "adamw"}, False)],
)
def test_the_fused_package_moves_the_weights_where_it_may(settings, fused, monkeypatch):
    """It goes on from the state of ours, and ours from its."""
    config = OptimizerConfig(**{"kind": "adam-atan2-outside"} | settings)
    torch.manual_seed(1)
    net, kept = model(), None
    plain = copy.deepcopy(net)
    alone = Optimizers(plain, config)
    for package in (Fused, None, Fused):
        monkeypatch.setattr(optim, "fused_adam_atan2", lambda device, package=package: package)
        optimizers = Optimizers(net, config)
        assert isinstance(optimizers.main, Fused) == (fused and package is Fused)
        if kept is not None:
            optimizers.load_state_dict(kept)
        for each, moves in ((net, optimizers), (plain, alone)):
            each.head.weight.grad = torch.full_like(each.head.weight, 0.5)
            moves.step(1.0)
        kept = copy.deepcopy(optimizers.state_dict())
        if isinstance(optimizers.main, Fused):
            assert {name for moments in kept.values() for name in moments} == {"step", "exp_avg", "exp_avg_sq"}
    torch.testing.assert_close(net.head.weight, plain.head.weight)


@pytest.mark.parametrize("ramp", [False, True])
def test_ema(ramp: bool) -> None:
    net = model()
    average, config = Ema(net), EmaConfig(decay=0.9, warmup=ramp)
    expected = net.head.weight.detach().clone()
    for step in range(1, 30):
        with torch.no_grad():
            net.head.weight.add_(torch.randn_like(net.head.weight))
        average.update(config.rate(step))
        rate = min(0.9, (1 + step) / (10 + step)) if ramp else 0.9
        expected = rate * expected + (1 - rate) * net.head.weight.detach()
    torch.testing.assert_close(average.state_dict()["head.weight"], expected)
    assert "puzzle_embedding.weight" not in average.state_dict()  # the authors evaluate the table itself
    other = Ema(model())
    other.load_state_dict(average.state_dict())
    torch.testing.assert_close(other.state_dict()["head.weight"], expected)
