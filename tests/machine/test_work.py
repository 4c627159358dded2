"""Work counted from shapes: the same FLOPs in every type, nothing for what moves no number."""

import pytest
import torch

from reason.config.overrides import derive
from reason.machine.estimate import _Written, work_of
from reason.nn.dtypes import Dtypes
from reason.presets import PRESETS

TYPES = [(Dtypes(torch.float32), "cpu"), (Dtypes(torch.bfloat16), "cpu"), (Dtypes(torch.bfloat16), "cuda")]


def test_attention_counts_alike_however_it_is_computed() -> None:
    """A CPU's fused kernel, plain products, a GPU's."""
    preset = PRESETS["sudoku-6x6-attention"]
    config = derive(preset.config(), {"training.batch_size": 2})
    assert len({work_of(config, preset.shape, *where).flops for where in TYPES}) == 1


def test_what_alg_grad_norm_measures_counts_as_often_as_it_does() -> None:
    """One step in every 7: a backward pass of each term then."""
    preset = PRESETS["sudoku-6x6-cmm-node"]
    config = derive(preset.config(), {"training.batch_size": 2})
    fixed = derive(config, {"balance.kind": "fixed", "balance.targets": {}})
    every, one = derive(config, {"balance.every": 1}), Dtypes(torch.float32)
    flops = [work_of(each, preset.shape, one, "cpu").flops for each in (fixed, config, every)]
    assert (flops[1] - flops[0]) * 7 == pytest.approx(flops[2] - flops[0], rel=1e-6)
    assert flops[2] > 1.3 * flops[0]


def test_views_and_empty_tensors_write_nothing() -> None:
    with _Written() as written:
        x = torch.empty(4, 6)
        torch.ops.aten._unsafe_view(x, [6, 4])
        x.t()
        torch.empty_like(x)
    assert (written.bytes, written.kernels) == (0, 0)
    with _Written() as written:
        x + 1
    assert (written.bytes, written.kernels) == (96, 1)
