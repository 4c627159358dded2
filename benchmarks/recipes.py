"""Memory and hours of a training on one GPU, computed and not measured: the table of docs/recipes.md.

    python benchmarks/recipes.py [--tera 15]

Memory is `train.py --memory`'s estimate. Hours are training.steps times the floating-point operations of one optimizer
step (forward and backward, on tensors without memory; a product of m×k and k×n counts 2mkn) over a rate that is
assumed. What is no product counts nothing, so that small models take longer than this says.
"""

from __future__ import annotations

import argparse
import shlex
from functools import partial

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from reason.config.overrides import derive, override, split_arguments
from reason.config.schema import Config
from reason.extensions.memory.command import CUDA_ITSELF
from reason.extensions.memory.estimate import estimate_memory
from reason.files import readable_size
from reason.losses import evaluate_terms, weighted_sum
from reason.models import build_model
from reason.models.base import Batch, Shape
from reason.nn.dtypes import Dtypes
from reason.presets import preset
from reason.rollout import first_carry, supervise

RECIPES = (
    "trm-mlp-sudoku",
    "trm-att-sudoku",
    "hrm-sudoku model.gradient_checkpointing=true",
    "trm-att-maze",
    "hrm-maze model.gradient_checkpointing=true training.batch_size=96",
    "trm-att-arc training.batch_size=192",
    "hrm-arc model.gradient_checkpointing=true training.batch_size=96",
    "cmm-1-trm model.gradient_checkpointing=true",
)
GPU = 16_000_000_000  # bytes


def operations(config: Config, shape: Shape) -> int:
    """Of one optimizer step."""
    rows = config.training.batch_size
    with torch.device("meta"):
        model = build_model(config.model, shape, *Dtypes(torch.float16))
    with FakeTensorMode(allow_non_fake_inputs=True):
        model.to_empty(device="cpu")
        tokens = torch.zeros(rows, shape.seq_len, dtype=torch.int64)
        blank = partial(Batch, tokens, tokens.clone(), torch.zeros(rows, dtype=torch.int64))
        carry = first_carry(model, blank())
        # the fused kernel of a CPU is not counted
        with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
            for part in range(config.rollout.grad_steps):
                carry, unroll = supervise(model, carry, blank, config.rollout, part, 1)
                terms = evaluate_terms(unroll, config.loss, config.loss.present)
                weighted_sum(terms, dict(config.loss.weights)).backward()
    return counter.get_total_flops()


def needed(config: Config, shape: Shape) -> int:
    """Bytes of a training in fp16 on a GPU."""
    return estimate_memory(config, shape, Dtypes(torch.float16), "cuda").total + CUDA_ITSELF


def fitted(config: Config, shape: Shape) -> Config:
    """With what `auto` comes to on the GPU that the page is for."""
    if config.model.recomputation != "auto":
        return config
    plain = derive(config, {"model.gradient_checkpointing": False})
    return plain if needed(plain, shape) <= GPU else derive(config, {"model.gradient_checkpointing": True})


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--tera", type=float, default=15, help="sustained 10¹² operations a second")
    rate = parser.parse_args().tera * 1e12
    print(
        "| command | rows × steps | of the preset's | memory | operations a step | hours |\n|---|---|---|---|---|---|"
    )
    for recipe in RECIPES:
        (name,), pairs = split_arguments(shlex.split(recipe))
        chosen = preset(name)
        config = override(chosen.config(), pairs)
        config = fitted(config, chosen.shape)
        memory = needed(config, chosen.shape)
        work = operations(config, chosen.shape)
        steps, rows, whole = config.training.steps, config.training.batch_size, chosen.config().training
        share = rows * steps / (whole.batch_size * whole.steps)
        size, hours = readable_size(memory), f"{work * steps / rate / 3600:,.0f}"
        cells = (
            f"`python train.py {recipe}`",
            f"{rows} × {steps:,}",
            f"{share:.0%}",
            size,
            f"{work / 1e12:.2f} T",
            hours,
        )
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
