"""Begin a wider network from a narrower one's weights (Net2Net: Chen, Goodfellow and Shlens, ICLR 2016)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from reason.models.recursive import RecursiveModel
from reason.training.warm_start import Weights

INPUTS = ("qkv.weight", "join.weight", "up.weight", "out.weight", "head.weight")  # act on a width; q_head among them


def widened(model: RecursiveModel, weights: Weights) -> Weights:
    """Return the weights of a run for `model`; a model n times as wide computes nearly the same with them. (ours)

    Every channel occurs n times, and a matrix shares each weight among the n copies of its input, unevenly, so that
    they learn different things. From a state of repeated channels the two networks compute the same; from a random
    state they differ by what its copies differ by.
    """
    narrow, wide = weights["tokens.weight"].shape[1], model.config.hidden_size
    n = wide // narrow
    if model.config.mixer != "group-attention" or n < 2 or n * narrow != wide:
        return weights
    layer: Any = model.networks()[0].blocks[0]
    relations: int = layer.mixer.count
    result = {}
    for name, tensor in weights.items():
        kind = name.rpartition("mixer.")[2]
        if kind == "qkv.weight":  # scaled so that q·k/√d stays
            scale = tensor.new_tensor([n**-0.25, n**-0.25, 1.0]).repeat(relations)
            tensor = _repeated(tensor.unflatten(0, (3 * relations, -1)) * scale[:, None, None], n, 1).flatten(0, 1)
        elif kind == "up.weight":  # gates, then ups
            tensor = _repeated(tensor.unflatten(0, (2, -1)), n, 1).flatten(0, 1)
        elif kind in ("join.weight", "out.weight", "initial_h", "initial_l"):
            tensor = _repeated(tensor, n, 0)
        elif kind == "tokens.weight":  # x̂ = √D · embedding
            tensor = _repeated(tensor, n, 1) * n**-0.5
        if kind.endswith(INPUTS):
            tensor = _shared(tensor, n, relations if kind == "join.weight" else 1)
        result[name] = tensor
    return result


def _repeated(tensor: Tensor, n: int, dim: int) -> Tensor:
    return torch.cat([tensor] * n, dim)


def _shared(matrix: Tensor, n: int, blocks: int) -> Tensor:
    """Share the columns among n copies of the input, whose channels are in `blocks`: (M, b·K) -> (M, b·n·K)."""
    parts = matrix.unflatten(1, (blocks, 1, -1)).expand(-1, -1, n, -1)
    noise = torch.randn_like(parts) * (matrix.std() / n)
    return (parts / n + noise - noise.mean(2, keepdim=True)).flatten(1)
