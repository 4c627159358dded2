"""The original HRM and TRM code recorded in bfloat16: x̂ to the bit, the rest within what the type explains."""

from pathlib import Path

import numpy as np
import pytest
import torch
from recordings import checkpoint_of

from reason.config.schema import Config
from reason.extensions.original.command import read_weights
from reason.extensions.original.weights import from_original, inferred, load_original
from reason.models.base import Batch
from reason.models.recursive import RecursiveModel
from reason.rollout import unroll

FIXTURES = Path(__file__).parents[2] / "fixtures" / "parity"
NAMES = ["hrm", "trm_att", "trm_mlp"]


def recording(name: str) -> dict[str, np.ndarray]:
    """Weights, batch and config of the float32 fixture, and what the original made of them in bfloat16."""
    with np.load(FIXTURES / f"{name}.npz") as single, np.load(FIXTURES / "bfloat16.npz") as half:
        arrays = {key: single[key] for key in single.files if key.split(".")[0] in ("param", "batch", "config")}
        return arrays | {key.removeprefix(f"{name}/"): half[key] for key in half.files if key.startswith(f"{name}/")}


@pytest.mark.parametrize("name", NAMES)
def test_x_is_equal_to_the_bit_and_logits_are_within_the_types_own_rounding(name: str, tmp_path: Path) -> None:
    """Four segments, beside twice the distance of the original in bfloat16 from the original in float32."""
    arrays = recording(name)
    weights, stated, _ = read_weights(checkpoint_of(arrays, tmp_path / "half.pt"))
    ours = from_original(weights)
    section, shape, _ = inferred(ours, None, stated)
    model = RecursiveModel(Config.model_validate({"model": section}).model, shape, torch.bfloat16).eval()
    load_original(model, ours)
    batch = Batch(*(torch.from_numpy(arrays[f"batch.{k}"]).long() for k in ("inputs", "labels", "puzzle_identifiers")))
    with torch.no_grad(), np.load(FIXTURES / f"{name}.npz") as single:
        assert np.array_equal(model.encode(batch).x.float().numpy(), arrays["x"])
        for segment, out in enumerate(unroll(model, batch, 4)):
            key = f"eval.logits.{segment}"
            rounding = np.abs(arrays[key] - single[key]).max()
            assert np.abs(out.logits.float().numpy() - arrays[key]).max() <= 2 * rounding, segment
