"""Looped models that read a puzzle's structure: the tests of tests/models/test_structured.py, with this family."""

from typing import Any

import pytest
import test_structured as of

from reason.extensions.looped.model import LoopedConfig

LOOPED: dict[str, Any] = {"causal": False, "dropout": 0, "between": ("injection",), "init_std": 0.3}
of.FAMILIES["looped"] = lambda settings: LoopedConfig(**LOOPED | settings)


@pytest.mark.parametrize("settings", [of.GROUPS, of.SYMBOLS], ids=str)
def test_moving_rows_within_bands_moves_the_logits(settings: dict[str, Any]) -> None:
    of.test_moving_rows_within_bands_moves_the_logits("looped", settings)


def test_renaming_symbols_renames_the_logits() -> None:
    of.test_renaming_symbols_renames_the_logits("looped")


@pytest.mark.parametrize("local", [{"neighbourhood": "von-neumann"}], ids=str)
def test_a_maze_inside_a_larger_walled_one_is_the_same_maze(local: dict[str, Any]) -> None:
    of.test_a_maze_inside_a_larger_walled_one_is_the_same_maze("looped", local)


@pytest.mark.parametrize("settings", [of.GROUPS, of.SYMBOLS, of.LOCAL, of.ROTARY], ids=str)
def test_one_module_serves_several_sizes(settings: dict[str, Any]) -> None:
    of.test_one_module_serves_several_sizes("looped", settings)
