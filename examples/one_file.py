"""Tiny recursive reasoning in one file: a network of two layers learns 6×6 Sudoku in minutes on a laptop.

    reason generate sudoku --size 6 --train 2500 --validation 500 --test 1000 --seed 0 --output-dir data/sudoku-6x6
    python examples/one_file.py data/sudoku-6x6

The idea (TRM, "Less is More: Recursive Reasoning with Tiny Networks"): instead of one pass through a large network, a
tiny network is applied many times. The same weights update two states, each with one vector per cell:

    z_H  the current answer      z_L  a latent state      x̂  the encoded puzzle, added to the input of every z_L update

Torch and numpy are all that is needed. The first losses are those of the package's preset `sudoku-6x6` in float32: a
test compares the two. Shapes: B puzzles, S cells, D features, V tokens.
"""

import copy
import math
import sys
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as nnf

SIDE, BOX_ROWS, BOX_COLUMNS = 6, 2, 3  # the board, and the size of its boxes
S, V = SIDE * SIDE, 8  # tokens: 0 padding, 1 an empty cell, 2 … 7 the digits
D, INNER, LAYERS = 128, 256, 2
H_CYCLES, L_CYCLES = 2, 3  # one supervision step: 2 × (3 updates of z_L, then 1 update of z_H) = 8 network calls
SUPERVISION_STEPS = 8  # at most so many per puzzle in training; fewer if the halting head predicts a right answer
EXPLORE = 0.1  # probability, at each step, of a random minimum of steps, so that the head also learns from later steps
STEPS, BATCH = 800, 128
RATE, WARMUP = 1e-3, 50  # the learning rate, and the steps in which it rises to this value
WEIGHT_DECAY, BETAS = 0.1, (0.9, 0.95)  # BETAS: decays of the means of gradients and of their squares


# Data: arrays as the generator wrote them; random symmetries augment them without limit.
def load(folder: str, split: str) -> tuple[Tensor, Tensor]:
    """Questions and answers of a split, each (N, S)."""
    inputs, labels = (np.load(f"{folder}/{split}/all__{name}.npy") for name in ("inputs", "labels"))
    return torch.from_numpy(inputs).long(), torch.from_numpy(labels).long()


def indices(count: int, size: int, generator: torch.Generator) -> Iterator[Tensor]:
    """The numbers of `size` puzzles at a time; every puzzle once an epoch."""
    order = torch.empty(0, dtype=torch.int64)
    while True:
        while len(order) < size:
            order = torch.cat([order, torch.randperm(count, generator=generator)])
        yield order[:size]
        order = order[size:]


def batches(inputs: Tensor, labels: Tensor, size: int, generator: torch.Generator) -> Iterator[tuple[Tensor, ...]]:
    """Each puzzle each time as another Sudoku: digits renamed, rows and columns moved."""

    def shuffled(*shape: int) -> Tensor:  # permutations along the last axis
        return torch.rand(*shape, generator=generator).argsort(-1)

    def lines(bands: int, each: int) -> Tensor:  # (B, SIDE): bands change places, and so do the lines of every band
        return (shuffled(size, bands)[:, :, None] * each + shuffled(size, bands, each)).flatten(1)

    for chosen in indices(len(inputs), size, generator):
        names = torch.cat([torch.arange(2).expand(size, 2), 2 + shuffled(size, SIDE)], dim=1)
        rows, columns = lines(SIDE // BOX_ROWS, BOX_ROWS), lines(SIDE // BOX_COLUMNS, BOX_COLUMNS)
        source = (rows[:, :, None] * SIDE + columns[:, None, :]).flatten(1)  # (B, S): where each cell comes from
        yield tuple(names.gather(1, tokens[chosen]).gather(1, source) for tokens in (inputs, labels))


# The model. States are (S, B, D), cells first: mixing over cells is then one matrix product.
def weight(rows: int, width: int, std: float | None = None) -> nn.Parameter:
    """Normal with σ = 1/√width, cut at two deviations."""
    left = math.sqrt(1 - 4 * math.exp(-2) / math.sqrt(2 * math.pi) / math.erf(math.sqrt(2)))  # σ after the cut
    drawn = nn.init.trunc_normal_(torch.empty(rows, width), a=-2.0, b=2.0)
    return nn.Parameter(drawn * ((width**-0.5 if std is None else std) / left))


def rms(h: Tensor, dim: int) -> Tensor:
    """h / √(mean h²): without it a state would grow with every call."""
    return h * torch.rsqrt(h.square().mean(dim, keepdim=True) + 1e-5)


class Layer(nn.Module):
    """Two gated MLPs, one over the cells and one over the features; no attention, no bias, post-norm."""

    def __init__(self) -> None:
        super().__init__()
        self.cells_in, self.cells_out = weight(2 * INNER, S), weight(S, INNER)
        self.features_in, self.features_out = weight(2 * INNER, D), weight(D, INNER)

    def forward(self, h: Tensor) -> Tensor:
        """(S, B, D) -> (S, B, D)."""
        gate, up = (self.cells_in @ h.flatten(1)).chunk(2, dim=0)  # (I, B·D) each
        h = rms(h + (self.cells_out @ (nnf.silu(gate) * up)).view_as(h), dim=0)
        gate, up = nnf.linear(h, self.features_in).chunk(2, dim=-1)  # (S, B, I) each
        return rms(h + nnf.linear(nnf.silu(gate) * up, self.features_out), dim=-1)


class Reasoner(nn.Module):
    """z_L ← F(z_L + z_H + x̂) and z_H ← F(z_H + z_L) with one network F, and two readouts of z_H."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = weight(V, D)
        self.f = nn.Sequential(*(Layer() for _ in range(LAYERS)))  # F, the same in every call
        self.head = weight(V, D)
        self.q_head = nn.Linear(D, 2)  # q_halt, and HRM's q_continue, which TRM does not train
        nn.init.zeros_(self.q_head.weight)
        nn.init.constant_(self.q_head.bias, -5.0)  # at first almost no row halts early
        self.register_buffer("start_h", weight(1, D, std=1.0).data)  # where every puzzle begins, never trained
        self.register_buffer("start_l", weight(1, D, std=1.0).data)

    def encode(self, inputs: Tensor) -> Tensor:
        """(B, S) tokens -> x̂ (S, B, D)."""
        return (math.sqrt(D) * nnf.embedding(inputs, self.tokens)).transpose(0, 1).contiguous()

    def step(self, z_h: Tensor, z_l: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """One supervision step. Only the last cycle builds a graph; the earlier cycles store no activations."""
        for cycle in range(H_CYCLES):
            with torch.set_grad_enabled(torch.is_grad_enabled() and cycle == H_CYCLES - 1):
                for _ in range(L_CYCLES):
                    z_l = self.f(z_l + (z_h + x))  # update the latent state from the puzzle and the current answer
                z_h = self.f(z_h + z_l)  # update the answer from z_L; x̂ is not added here
        return z_h, z_l

    def readout(self, z_h: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (B, S, V), and q (B,) from the first cell: positive if the model predicts that the answer is right."""
        answer = z_h.transpose(0, 1)  # (B, S, D)
        return nnf.linear(answer, self.head), self.q_head(answer[:, 0])[:, 0]


def stablemax(logits: Tensor, labels: Tensor) -> Tensor:
    """−log p of the right tokens (B, S), p ∝ s: softmax with x + 1 in place of eˣ, and 1/(1 − x) below 0."""
    x = logits.double()  # s grows slowly, so logits become large: float64 keeps the small terms of the sum
    s = torch.where(x >= 0, x + 1, 1 / (1 - x))
    return s.sum(-1).log() - s.gather(-1, labels[..., None]).squeeze(-1).log()


@torch.no_grad()
def update(weights: list[Tensor], moments: list[tuple[Tensor, Tensor]], averages: list[Tensor], step: int) -> None:
    """Adam with atan2(mean, √square) in place of mean/(√square + ε); then the average of the weights."""
    rate = RATE * min(1.0, step / WARMUP)
    for p, (first, second), average in zip(weights, moments, averages, strict=True):
        first.lerp_(p.grad, 1 - BETAS[0])
        second.lerp_(p.grad * p.grad, 1 - BETAS[1])
        mean, square = first * (1 / (1 - BETAS[0] ** step)), second * (1 / (1 - BETAS[1] ** step))  # bias correction
        p.mul_(1 - rate * WEIGHT_DECAY).add_(torch.atan2(mean, square.sqrt()), alpha=-rate)
        average.lerp_(p, 1 - min(0.999, (1 + step) / (10 + step)))  # small decay at first: forgets the initial weights
        p.grad = None


# Training: deep supervision. The answer is scored after every step, and the next step starts where this one ended.
def train(folder: str, steps: int = STEPS, batch: int = BATCH, seeds=(0, 1)) -> tuple[Reasoner, list[float]]:
    """The model with averaged weights, and the loss of every step; seeds: of the weights, and of the puzzles."""
    torch.manual_seed(seeds[0])
    model = Reasoner()
    averaged, weights = copy.deepcopy(model), list(model.parameters())  # the average is what is evaluated
    moments = [(torch.zeros_like(p), torch.zeros_like(p)) for p in weights]
    puzzles = batches(*load(folder, "train"), batch, torch.Generator().manual_seed(seeds[1]))
    # The carry: what B rows take from one step to the next. All have halted, so each begins with a puzzle of its own.
    inputs, labels = torch.zeros(2, batch, S, dtype=torch.int64)
    z_h, z_l = torch.zeros(2, S, batch, D)
    m, halted = torch.zeros(batch, dtype=torch.int32), torch.ones(batch, dtype=torch.bool)
    losses = []
    for step in range(1, steps + 1):
        new, row = halted[:, None], next(puzzles)  # a row that has halted takes a new puzzle and starts anew
        inputs, labels = torch.where(new, row[0], inputs), torch.where(new, row[1], labels)
        z_h, z_l = torch.where(new, model.start_h, z_h), torch.where(new, model.start_l, z_l)
        m = torch.where(halted, 0, m) + 1
        z_h, z_l = model.step(z_h, z_l, model.encode(inputs))
        logits, q = model.readout(z_h)
        exact = (logits.argmax(-1) == labels).all(1).float()  # the halting head learns to predict this
        loss = stablemax(logits, labels).mean(1).mean().float() + 0.5 * nnf.binary_cross_entropy_with_logits(q, exact)
        loss.backward()
        update(weights, moments, list(averaged.parameters()), step)
        z_h, z_l = z_h.detach(), z_l.detach()  # the state goes on, the gradient does not
        explores = torch.rand(batch) < EXPLORE
        least = torch.randint(2, SUPERVISION_STEPS + 1, (batch,), dtype=torch.int32) * explores
        halted = (m >= SUPERVISION_STEPS) | ((q > 0) & (m >= least))
        losses.append(loss.item())
        if step % 20 == 0:
            print(f"step {step:4}  loss {losses[-1]:.4f}  exact {exact.mean():6.1%}")
    return averaged, losses


@torch.no_grad()
def accuracy_by_step(model: Reasoner, inputs: Tensor, labels: Tensor, steps: int) -> Iterator[tuple[float, float]]:
    """After each supervision step: puzzles that are wholly right, and cells that are right."""
    x = model.encode(inputs)
    z_h, z_l = model.start_h.expand_as(x), model.start_l.expand_as(x)
    for _ in range(steps):
        z_h, z_l = model.step(z_h, z_l, x)
        right = model.readout(z_h)[0].argmax(-1) == labels
        yield right.all(1).float().mean().item(), right.float().mean().item()


if __name__ == "__main__":
    model, _ = train(sys.argv[1])
    print(f"\nOn unseen puzzles, after each supervision step ({SUPERVISION_STEPS} were trained):")
    for step, (exact, cells) in enumerate(accuracy_by_step(model, *load(sys.argv[1], "test"), 16), 1):
        print(f"step {step:4}  exact {exact:6.1%}  cells {cells:6.1%}")
