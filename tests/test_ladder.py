"""The rungs of benchmarks/ladder.py are trainings; one is climbed twice, packed between."""

import json
import sys
from pathlib import Path

import pytest
from conftest import pairs

from reason.config.overrides import override
from reason.presets import preset

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import ladder


@pytest.mark.parametrize("rung", ladder.RUNGS)
def test_every_rung_is_a_config(rung: str) -> None:
    name, *words = [*ladder.RUNGS[rung], *ladder.FAST]
    settings = pairs(" ".join(words).replace("data=", "data.directory="))
    config = override(preset(name).config(), settings)
    assert config.training.compile == "graph"


def test_a_rung_goes_on_from_its_parts(sudoku_4x4: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ladder, "PART", 30_000)
    tiny = (
        "training.compile=none training.precision=fp32 training.batch_size=8 training.steps=4 model.hidden_size=16 "
        f"model.num_heads=2 model.expansion=1 model.h_cycles=2 model.l_cycles=1 data={sudoku_4x4}"
    )
    words = ["trm-mlp", *tiny.split(), "--out", "out", "--evaluate", "steps=2"]
    assert ladder.main([*words, "--minutes", "0.0001"]) == 0
    parts = sorted(map(str, Path("out").glob("*.tar.gz.*")))
    assert len(parts) > 1
    Path("runs").rename("elsewhere")
    assert ladder.main(["trm-mlp", "--out", "out", "--evaluate", "steps=2", "--parts", *parts]) == 0
    assert json.loads(Path("out/trm-mlp.json").read_text())["checkpoint_step"] == 4
