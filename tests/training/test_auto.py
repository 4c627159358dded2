"""What `auto` means: rules by device, size and mixer; types of numbers."""

import json

import pytest
import torch

from reason.cli import main
from reason.config.overrides import override, read_config
from reason.presets import PRESETS
from reason.training import accelerate, auto, device, precision
from reason.training.accelerate import Accelerator
from reason.training.auto import LONG, resolve, resolve_compile
from reason.training.device import float32_by_onednn
from reason.training.precision import dtypes

CPU = torch.device("cpu")
SHAPE = PRESETS["sudoku-4x4"].shape


def written(config):
    """Positions × width × layer calls of a step, by hand."""
    c = config.model
    cells = SHAPE.seq_len + c.puzzle_emb_len
    return cells * c.hidden_size * c.h_cycles * (c.l_cycles + 1) * c.num_layers * c.repeats


@pytest.mark.parametrize(("works", "enough"), [(True, True), (True, False), (False, True)])
def test_long_work_is_compiled_where_code_can_be_generated(works, enough, tiny, monkeypatch):
    expected = "inductor" if works and enough else "none"
    monkeypatch.setattr(auto, "inductor_works", lambda _: works)
    a_step = written(tiny) * tiny.training.batch_size * tiny.rollout.grad_steps
    steps = int(LONG["cpu"] / a_step) + 1 if enough else int(LONG["cpu"] / a_step)
    asked = override(tiny, {"training.steps": str(steps), "training.compile": "auto"})
    config, reasons = resolve(asked, [SHAPE, SHAPE], CPU)
    assert config.training.compile == expected
    assert len(reasons) == enough
    puzzles = 3 * int(LONG["cpu"] / written(tiny)) + (3 if enough else -3)
    asked = override(tiny, {"evaluation.compile": "auto"})
    config, _ = resolve_compile(asked, "evaluation.compile", puzzles * written(tiny) / 3, CPU)
    assert config.evaluation.compile == expected


def test_an_accelerator_of_whole_steps_leaves_nothing_to_compile(monkeypatch):
    by_steps = Accelerator(lambda *_: None, lambda _: None)
    monkeypatch.setattr(accelerate, "ACCELERATORS", {"any": by_steps})
    preset = PRESETS["sudoku-6x6-groups"]
    asked = override(preset.config(), {"training.steps": "1000000", "training.compile": "auto"})
    config, reasons = resolve(asked, [preset.shape], CPU)
    assert (config.model.fused, config.training.compile, reasons) == (True, "none", [])


def test_a_run_records_and_keeps_what_auto_came_to(half):
    recorded = read_config(half / "config.json")
    assert recorded.training.compile == "none"
    older = json.loads((half / "config.json").read_text())
    older["config"]["training"]["compile"] = "auto"
    (half / "config.json").write_text(json.dumps(older))
    assert main(["train", "run=half", "--resume", "--max-steps", "3"]) == 0
    assert read_config(half / "config.json") == recorded
    assert main(["train", "run=half", "--resume", "model.gradient_checkpointing=true"]) == 0
    assert read_config(half / "config.json").model.gradient_checkpointing is True


@pytest.mark.parametrize(("bf16", "amx", "maker", "faster"), [
    (True, True, "GenuineIntel", True),
    (True, False, "GenuineIntel", False),
    (True, False, "AuthenticAMD", True),
    (False, False, "AuthenticAMD", False),
])  # fmt: skip
def test_auto_takes_bfloat16_where_it_is_faster(bf16, amx, maker, faster, monkeypatch):
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: bf16)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: amx)
    monkeypatch.setattr(precision, "_processor", lambda: f"vendor_id : {maker}")
    monkeypatch.setattr(precision, "bfloat16_is_faster", precision.bfloat16_is_faster.__wrapped__)
    assert dtypes("auto", CPU) == (torch.bfloat16 if faster else torch.float32, None)
    assert dtypes("amp", CPU) == (torch.float32, torch.bfloat16 if faster else None)


def test_float32_products_stay_float32(monkeypatch):
    """oneDNN computes them where it does not round the factors; where it would, torch's setting stays as it was."""
    products = torch.backends.mkldnn.matmul
    monkeypatch.setattr(device, "_exact_by_onednn", device._exact_by_onednn.__wrapped__)
    float32_by_onednn()
    for rows, inner, columns in ((7, 5, 3), (300, 81, 512)):
        a, b = torch.randn(rows, inner), torch.randn(inner, columns)
        torch.testing.assert_close(a @ b, (a.double() @ b.double()).float(), rtol=1e-5, atol=1e-4)
    before, products.fp32_precision = products.fp32_precision, "ieee"
    monkeypatch.setattr(torch, "allclose", lambda *_, **__: False)  # where oneDNN rounds
    float32_by_onednn()
    after, products.fp32_precision = products.fp32_precision, before
    assert after == "ieee"
