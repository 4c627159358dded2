"""The rungs of benchmarks/ladder.py are trainings."""

import sys
from pathlib import Path

import pytest
from conftest import pairs

from reason.config.overrides import override
from reason.presets import preset

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import ladder


@pytest.mark.parametrize("rung", ladder.RUNGS)
def test_every_rung_is_a_config(rung):
    name, *words = [*ladder.RUNGS[rung], *ladder.FAST]
    settings = pairs(" ".join(words).replace("data=", "data.directory="))
    config = override(preset(name).config(), settings)
    assert config.training.compile == "graph"
