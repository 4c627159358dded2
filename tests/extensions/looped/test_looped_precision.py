"""Mixed precision of looped models, as in tests/training/test_mixed_precision.py."""

import pytest
import test_mixed_precision as of
import torch

from reason.extensions.looped.model import LoopedConfig

of.MODELS["looped"] = LoopedConfig(hidden_size=16, num_heads=2, prelude=1, coda=1, dropout=0)


@pytest.mark.parametrize("half", of.HALVES)
def test_products_are_halved_and_states_are_not(half: torch.dtype) -> None:
    model = of.built("looped", products=half)
    x = model.encode(of.puzzles())
    with of.Products() as products:
        state = model.step(model.initial_state(x), x)
    assert products.seen == {half}
    assert state.z.dtype == torch.float32
    assert model.readout(state, x).logits.dtype == half


def test_jacobians_see_the_float32_map() -> None:
    of.test_jacobians_see_the_float32_map("looped")
