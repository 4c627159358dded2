"""benchmarks: variants, the authors' code and the machine's peak in turns; minutes to an accuracy; on a GPU."""

import json
import sys
from pathlib import Path

import pytest
import torch
from conftest import NARROW, output, pairs

from benchmarks import gpu, ladder
from benchmarks.bench import timing
from benchmarks.bench.__main__ import main
from benchmarks.bench.timing import Spread, Turn, in_turns
from reason.cli import guarded
from reason.config.overrides import override
from reason.presets import preset

THEIRS = """
import torch

class TinyRecursiveReasoningModel_ACTV1(torch.nn.Linear):
    def __init__(self, sizes):
        super().__init__(1, 1)
        print(sorted(sizes.items()))

class ACTLossHead(torch.nn.Sequential):
    def __init__(self, model, kind):
        super().__init__(model)

    def initial_carry(self, batch):
        return 0

    def forward(self, carry, batch, return_keys):
        assert batch["inputs"].shape == batch["labels"].shape == (8, 16)
        return carry + 1, self[0].weight.sum(), {}, {}, False
"""


def bench(*words):
    assert guarded(main, [*words, "--json", "bench.json"]) == 0
    return json.loads(Path("bench.json").read_text())["results"]


def test_variants_take_turns(here, capsys):
    rows = bench("sudoku-4x4", *NARROW, "model.l_cycles=1,2", "--rounds", "2", "--steps", "1")
    out = capsys.readouterr().out
    assert all(word in out for word in ("l_cycles=1", "l_cycles=2", "1.00 ×"))
    assert rows[1]["flops"] > rows[0]["flops"] > 0
    for row in rows:
        assert 0 < row["share_of_peak"]["least"] <= row["share_of_peak"]["median"] <= row["share_of_peak"]["most"]
        assert row["seconds"]["median"] * row["puzzle_steps_per_second"] == pytest.approx(row["puzzle_steps"])
        assert row["training_minutes"] == pytest.approx(row["seconds"]["median"] * 4 / 60)  # NARROW's steps
        assert row["evaluated_per_second"] > 0
        assert row["memory_estimated"] > 0
        assert (row["compile"], row["gradient_checkpointing"]) == ("none", False)
    assert rows[0]["ratio"] == {"least": 1, "median": 1, "most": 1}


def test_the_authors_code_is_timed_where_it_lies(here, capsys):
    """With this config's sizes; `models` is theirs while it is imported and no longer."""
    checkout = here / "theirs"
    (checkout / "models/recursive_reasoning").mkdir(parents=True)
    for file in ("recursive_reasoning/trm.py", "losses.py"):
        (checkout / "models" / file).write_text(THEIRS)
    few = ("--rounds", "1", "--steps", "1", "--processor-time", "--original", str(checkout))
    (row,) = bench("sudoku-4x4", *NARROW, "training.precision=fp32", "--training-only", *few)
    sizes = "('hidden_size', 16)", "('mlp_t', True)", "('batch_size', 8)", "('forward_dtype', 'float32')"
    out = capsys.readouterr().out
    assert [size for size in sizes if size not in out] == []
    assert "evaluated_per_second" not in row
    assert row["ratio_to_original"]["median"] > 0
    assert not [name for name in sys.modules if name.split(".")[0] == "models"]
    assert str(checkout) not in sys.path


def test_turns_alternate_and_the_others_products_are_torchs_own():
    order = []
    products = torch.backends.mkldnn.matmul
    before, products.fp32_precision = products.fp32_precision, "bf16"
    turns = {
        "ours": Turn(lambda: order.append(f"ours {products.fp32_precision}")),
        "theirs": Turn(lambda: order.append(f"theirs {products.fp32_precision}"), torchs_own=True),
        "peak": Turn(lambda: order.append("peak"), once=True),
    }
    try:
        seconds = in_turns(turns, 2, 3, torch.device("cpu"))
        assert products.fp32_precision == "bf16"
    finally:
        products.fp32_precision = before
    assert {name: len(times) for name, times in seconds.items()} == {"ours": 2, "theirs": 2, "peak": 2}
    warm = 5
    assert order[warm:] == 2 * (3 * ["ours bf16"] + 3 * ["theirs ieee"] + ["peak"])
    assert Spread.of(seconds["ours"]).least <= Spread.of(seconds["ours"]).most
    assert timing.gemm(torch.device("cpu"), torch.float32)[1] == 2 * 1536**3


def test_a_part_that_fails_is_written_and_the_next_one_runs(tmp_path):
    allowed = []

    def fails(seconds, folder):
        allowed.append(seconds)
        raise RuntimeError("no device")

    def works(seconds, folder):
        allowed.append(seconds)
        assert json.loads((tmp_path / "out.json").read_text())["first"]["error"] == "RuntimeError: no device"
        return 7

    gpu.measure({"first": (0.25, fails), "second": (0.75, works)}, tmp_path / "out.json", minutes=2)
    assert json.loads((tmp_path / "out.json").read_text())["second"]["result"] == 7
    assert allowed == [pytest.approx(30, abs=1), pytest.approx(120, abs=2)], "what one part leaves is the others'"
    assert sum(share for share, _ in gpu.parts(tmp_path).values()) == pytest.approx(1)
    assert gpu.parts(tmp_path).keys() - gpu.parts(None).keys() == {"trm beside compiled original"}
    with pytest.raises(RuntimeError, match="status 2"):
        gpu.run([*gpu.REASON, "no-such-command"], 60, tmp_path)


@pytest.mark.parametrize("rung", ladder.RUNGS)
def test_every_rung_of_the_ladder_is_a_config(rung):
    name, *words = [*ladder.RUNGS[rung], *ladder.FAST]
    config = override(preset(name).config(), pairs(" ".join(words).replace("data=", "data.directory=")))
    assert config.training.compile == "graph"


def test_a_rung_goes_on_until_it_is_finished(here, sudoku_4x4, monkeypatch):
    words = ["rung", *NARROW, "training.compile=none", "training.precision=fp32", "seed=1", "--out", "out"]
    monkeypatch.setattr(ladder, "RUNGS", {"rung": ["sudoku-4x4", f"data={sudoku_4x4}"]})
    monkeypatch.setattr(ladder, "reason", lambda *words: output(words))
    for _ in range(2):
        assert ladder.main([*words, "--evaluate", "steps=2 evaluation.limit=2"]) == 0
    assert {path.name for path in Path("out").iterdir()} == {"rung-seed-1.json", "rung-seed-1.tar.gz.00"}
    assert json.loads(Path("out/rung-seed-1.json").read_text())["checkpoint_step"] == 4
