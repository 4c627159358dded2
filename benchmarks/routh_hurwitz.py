"""The figure docs/images/routh_hurwitz.png: what CMM's trace penalty sees of a small map, and what it does not.

    python benchmarks/routh_hurwitz.py docs/images/routh_hurwitz.png

The map is F(z) = W(s) tanh(z) at its fixed point 0, K = 3: one direction's gain s grows while the two others turn and
contract. For each s: the eigenvalues of J, all Routh-Hurwitz determinants of J − I, and tr J/K.
"""

from __future__ import annotations

import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import torch

from reason.dynamics.routh_hurwitz import Stability, stability


def at(gain: float) -> Stability:
    weight = torch.tensor([[gain, 0.3, 0.0], [0.0, -0.5, 1.5], [0.0, -1.5, -0.5]], dtype=torch.float64)
    return stability(lambda z: torch.tanh(z) @ weight.T, torch.zeros(1, 3, dtype=torch.float64))


def main(path: str) -> None:
    gains = np.linspace(-1, 5, 241)
    seen = [at(gain) for gain in gains]
    growth = np.array([s.eigenvalues.real.max() for s in seen])
    trace = np.array([s.trace for s in seen])
    determinants = np.array([s.determinants for s in seen])
    blind = (growth > 1) & (trace < 1)
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    left.plot(gains, growth, label="max Re λ(J): stable below 1")
    left.plot(gains, trace, label="tr J / K: what RH stable penalises above 1")
    left.plot(gains, np.maximum(trace - 1, 0) ** 2, label="the penalty", color="tab:red")
    left.axhline(1, color="grey", linewidth=0.8)
    for k in range(determinants.shape[1]):
        right.plot(gains, determinants[:, k], label=f"Δ{'₁₂₃'[k]}")
    right.axhline(0, color="grey", linewidth=0.8)
    right.set_yscale("symlog")
    for axes in (left, right):
        axes.axvspan(gains[blind][0], gains[blind][-1], alpha=0.15, color="tab:orange", label="unstable, unpenalised")
        axes.set_xlabel("gain s of one direction of the map")
        axes.legend(fontsize=8)
    figure.savefig(path, dpi=110)
    print(f"{path}: unstable and unpenalised for s in [{gains[blind][0]:.3f}, {gains[blind][-1]:.3f}]")


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        sys.exit(__doc__)
    main(sys.argv[1])
