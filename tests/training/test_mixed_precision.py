"""Halved numbers: states, noise and sums in float32, products in half; losses scaled, overflow, what is no number."""

import pytest
import torch
from conftest import trainer_of
from evaluators import random_batch
from safetensors.torch import load_file
from test_loop import VARIANTS, resumes_to_the_bit
from torch.utils._python_dispatch import TorchDispatchMode

from datasets_gen.structure import Structure
from reason.config.overrides import override
from reason.errors import ConfigError, Diverged
from reason.models import RecursiveConfig, build_model
from reason.models.base import Shape
from reason.models.recursion import euler_maruyama
from reason.presets import PRESETS
from reason.training.log import read_metrics
from reason.training.precision import dtypes

HALF = {"training.precision": "fp16"}
EACH = {"training.checkpoint_every": "1"}
SELDOM = {"training.log_every": "100", "training.checkpoint_every": "2"}
LINES = {"row": (0, 0, 0, 1, 1, 1, 2, 2, 2), "column": (0, 1, 2) * 3}
SHAPE = Shape(seq_len=9, vocab_size=5, structure=Structure(grid=(3, 3), groups=LINES, outside=0))
MODELS = {
    "mixer": RecursiveConfig(hidden_size=16, mixer="mlp", positions="none", puzzle_emb_len=2),
    "attention": RecursiveConfig(hidden_size=16, num_heads=2, puzzle_emb_len=2),
    "local": RecursiveConfig(hidden_size=16, mixer="local", positions="none", puzzle_emb_len=0, expansion=2),
    "groups": RecursiveConfig(hidden_size=16, mixer="groups", positions="none", puzzle_emb_len=0, expansion=2),
}


def built(name, dtype=torch.float32, products=None):
    torch.manual_seed(4)
    return build_model(MODELS[name], SHAPE, dtype, products).eval()


class Products(TorchDispatchMode):
    """The types of all matrix products within."""

    NAMES = ("mm", "bmm", "addmm", "baddbmm", "convolution", "_scaled_dot_product_flash_attention_for_cpu")

    def __init__(self):
        super().__init__()
        self.seen = set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function.overloadpacket.__name__ in self.NAMES:
            self.seen.add(args[0].dtype)
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", MODELS)
def test_products_are_halved_and_states_are_not(name):
    half = torch.float16 if name == "attention" else torch.bfloat16
    model, batch = built(name, products=half), random_batch(8, 9, 5)
    x = model.encode(batch)
    with Products() as products:
        state = model.step(model.initial_state(x), x)
    assert products.seen == {half}
    out = model.readout(state, x)
    assert {x.x.dtype, *(part.dtype for part in state)} == {torch.float32}
    assert out.logits.dtype == half
    assert out.q_halt is None or out.q_halt.dtype == torch.float32
    if not hasattr(model, "prelude"):  # of a looped model, which is made of products
        assert torch.equal(x.x, built(name).encode(batch).x)


@pytest.mark.parametrize("name", MODELS)
def test_jacobians_see_the_float32_map(name):
    mixed, single, batch = built(name, products=torch.bfloat16), built(name), random_batch(8, 9, 5)
    x = single.encode(batch)
    state = single.initial_state(x)
    for kind in ("f_h", "cycle", "step"):
        (f, z), (g, _) = mixed.map(state, x, kind), single.map(state, x, kind)
        assert torch.equal(f(z), g(z)), kind


@pytest.mark.parametrize(
    ("dtypes", "least", "most"),
    [((torch.bfloat16,), 0.1, 0.25), ((torch.float16,), 0.01, 0.03), ((torch.float32, torch.bfloat16), 0, 1e-4)],
    ids=["bf16", "fp16", "amp-bf16"],
)
def test_the_share_of_entries_that_miss_the_noise(dtypes, least, most):
    """σ 0.01 beside entries of size 1: a bfloat16 state has 8 digits, and rounds a sixth of the kicks away."""
    model = built("mixer", *dtypes)
    x = model.encode(random_batch(64, 9, 5))
    move, z = model.map(model.initial_state(x), x, "f_h")
    with model.autocast():  # as a loss term calls it
        f = move(z)
    missed = (euler_maruyama(f, f, 1.0, 0.01) == f).float().mean().item()
    assert least <= missed <= most


@pytest.mark.parametrize("family", ["trm-mlp", "hrm"])
def test_every_weight_has_its_gradient(family, tiny, tmp_path):
    """The cycles without gradient must not leave halved weights behind, detached, to the one with it."""
    norms = {}
    for precision in ("fp32", "amp-bf16"):
        changes = VARIANTS[family] | {"training.precision": precision, "ema.decay": "none"}
        trainer = trainer_of(override(tiny, changes), tmp_path / precision)
        before = [p.detach().clone() for p in trainer.model.parameters()]
        norms[precision] = trainer.optimizer_step()
        moved = [not torch.equal(a, b) for a, b in zip(before, trainer.model.parameters(), strict=True)]
        assert all(moved), [n for (n, _), m in zip(trainer.model.named_parameters(), moved, strict=True) if not m]
    assert norms["amp-bf16"].item() == pytest.approx(norms["fp32"].item(), rel=5e-2)


def test_scaled_mixed_training_resumes_to_the_bit(tiny, tmp_path):
    config = override(tiny, VARIANTS["cmm"] | {"training.precision": "amp-fp16", "training.steps": "4"})
    assert trainer_of(config, tmp_path / "other").scaling.enabled
    resumes_to_the_bit(config, tmp_path, steps=2)


def test_scaled_training_resumes_to_the_bit(tiny, tmp_path):
    """With a scale so high that the first steps overflow: skips, halvings and growth are part of the state."""

    def begun(*given):
        trainer = trainer_of(*given)
        trainer.scaling.scaler.set_growth_interval(2)
        trainer.scaling.scaler.load_state_dict(trainer.scaling.scaler.state_dict() | {"scale": 2.0**40})
        return trainer

    resumes_to_the_bit(override(tiny, HALF | {"training.log_every": "1"}), tmp_path, begin=begun)
    lines = read_metrics(tmp_path / "whole")
    assert lines[0]["skipped_steps"] == 1
    assert lines[0]["gradient_norm"] is None
    assert lines[1]["loss_scale"] < lines[0]["loss_scale"] <= 2.0**39


def test_a_skipped_step_moves_nothing(tiny, tmp_path):
    trainer = trainer_of(override(tiny, HALF | VARIANTS["trm-attention"]), tmp_path / "run")  # with puzzle embeddings
    trainer.scaling.scaler.load_state_dict(trainer.scaling.scaler.state_dict() | {"scale": 2.0**60})
    before = {name: p.detach().clone() for name, p in trainer.model.named_parameters()}
    trainer.optimizer_step()
    assert trainer.scaling.skipped == 1
    assert all(torch.equal(before[name], p) for name, p in trainer.model.named_parameters())
    assert trainer.optimizers.state_dict() == {}
    trainer.scaling.scaler.load_state_dict(trainer.scaling.scaler.state_dict() | {"scale": 2.0**10})
    trainer.optimizer_step()
    moved = [name for name, p in trainer.model.named_parameters() if not torch.equal(before[name], p)]
    assert "head.weight" in moved
    assert "puzzle_embedding.weight" in moved


def test_overflow_without_end_stops(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr("reason.training.precision.STUCK", 2.0**4)
    trainer = trainer_of(override(tiny, HALF | {"training.steps": "500"}), tmp_path / "run")
    trainer.train(max_steps=3)
    step = trainer.optimizers.step

    def overflowing(factor):
        for parameter in trainer.optimizers.weights:
            if parameter.grad is not None:
                parameter.grad.fill_(float("inf"))
        return step(factor)

    trainer.optimizers.step = overflowing
    expected = r"overflows fp16 .* at step 15; last good checkpoint: .*step-000012.*precision=fp32"
    with pytest.raises(Diverged, match=expected):
        trainer.train()
    assert trainer.scaling.skipped == 12


@pytest.mark.parametrize(
    ("capability", "bf16", "expected"),
    [((9, 0), True, torch.bfloat16), ((7, 0), False, torch.float16), ((6, 1), False, torch.float32)],
    ids=["H100", "V100", "P100"],
)
def test_auto_takes_what_the_gpu_is_fast_in(capability, bf16, expected, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation=True: bf16)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "a GPU")
    assert dtypes("auto", torch.device("cuda")).states == expected
    assert {preset.config().training.precision for preset in PRESETS.values()} <= {"auto", "amp", "fp16", "fp32"}
    with pytest.raises(ConfigError, match="type bf16 or fp32"):
        dtypes("fp16", torch.device("mps"))
    if not bf16:
        for asked, instead in (("bf16", "fp16"), ("amp-bf16", "amp-fp16")):
            with pytest.raises(ConfigError, match=f"a GPU has no bf16; type {instead}"):
                dtypes(asked, torch.device("cuda"))


@pytest.mark.parametrize(("changes", "broken", "step", "value", "said"), [
    ({}, "weight", 0, "nan", r"loss lm is not finite at step 2; last good checkpoint: .*step-000000"),
    (SELDOM, "weight", 2, "nan", r"at step 4; last good checkpoint: .*step-000002"),  # seen where a checkpoint is due
    (EACH, "weight", 1, "inf", r"weight head.weight is not finite at step 2; last good .*step-000001"),  # every loss is
    (EACH, "gradient", 2, "nan", r"the gradient is not finite.* at step 3; last good .*step-000002"),
])  # fmt: skip
def test_what_is_broken_is_never_saved(changes, broken, step, value, said, tiny, tmp_path):
    trainer = trainer_of(override(tiny, changes), tmp_path / "run")
    move, weight = trainer.optimizers.step, trainer.model.head.weight

    def breaks(factor):
        if trainer.step == step and broken == "gradient":
            weight.grad *= float(value)
        norm = move(factor)
        if trainer.step == step and broken == "weight":
            weight.data[0, 0] = float(value)
        return norm

    trainer.optimizers.step = breaks
    with pytest.raises(Diverged, match=said):
        trainer.train()
    for file in tmp_path.glob("run/checkpoints/step-*/*.safetensors"):
        assert all(t.isfinite().all() for t in load_file(file).values() if t.is_floating_point()), file
