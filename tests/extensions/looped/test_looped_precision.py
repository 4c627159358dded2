"""Mixed precision of looped models, as in tests/training/test_mixed_precision.py."""

import test_mixed_precision as of

from reason.extensions.looped.model import LoopedConfig

of.MODELS["looped"] = LoopedConfig(hidden_size=16, num_heads=2, prelude=1, coda=1, dropout=0)


def test_products_are_halved_and_states_are_not() -> None:
    of.test_products_are_halved_and_states_are_not("looped")


def test_jacobians_see_the_float32_map() -> None:
    of.test_jacobians_see_the_float32_map("looped")
