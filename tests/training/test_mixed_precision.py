"""training.precision=amp-…: states, noise and sums in float32, products in half; what halved states lose."""

from pathlib import Path

import pytest
import torch
from conftest import trainer_of
from test_loop import VARIANTS, resumes_to_the_bit
from torch.utils._python_dispatch import TorchDispatchMode

from datasets_gen.structure import Structure
from reason.config.overrides import override
from reason.config.schema import Config
from reason.dynamics.integrate import euler_maruyama
from reason.errors import ConfigError
from reason.models import RecursiveConfig, build_model
from reason.models.base import Batch, Reasoner, Shape
from reason.training import checkpoint
from reason.training.state import restore

LINES = {"row": (0, 0, 0, 1, 1, 1, 2, 2, 2), "column": (0, 1, 2) * 3}
SHAPE = Shape(seq_len=9, vocab_size=5, structure=Structure(grid=(3, 3), groups=LINES, outside=0))
MODELS = {
    "mixer": RecursiveConfig(hidden_size=16, mixer="mlp", positions="none", puzzle_emb_len=2),
    "attention": RecursiveConfig(hidden_size=16, num_heads=2, puzzle_emb_len=2),
    "local": RecursiveConfig(hidden_size=16, mixer="local", positions="none", puzzle_emb_len=0, expansion=2),
    "groups": RecursiveConfig(hidden_size=16, mixer="groups", positions="none", puzzle_emb_len=0, expansion=2),
}


def built(name: str, dtype: torch.dtype = torch.float32, products: torch.dtype | None = None) -> Reasoner:
    torch.manual_seed(4)
    return build_model(MODELS[name], SHAPE, dtype, products).eval()


def puzzles(rows: int = 8) -> Batch:
    tokens = torch.randint(5, (rows, 9), generator=torch.Generator().manual_seed(5))
    return Batch(tokens, tokens, torch.zeros(rows, dtype=torch.int64))


def called(model: Reasoner, x: torch.Tensor) -> torch.Tensor:
    """F at the initial state, as a loss term calls it."""
    f, z = model.map(model.initial_state(x), x, "f_h")
    with model.autocast():
        return f(z)


class Products(TorchDispatchMode):
    """The types of all matrix products within."""

    NAMES = ("mm", "bmm", "addmm", "baddbmm", "convolution", "_scaled_dot_product_flash_attention_for_cpu")

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[torch.dtype] = set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function.overloadpacket.__name__ in self.NAMES:
            self.seen.add(args[0].dtype)
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", MODELS)
def test_products_are_halved_and_states_are_not(name: str) -> None:
    half = torch.float16 if name == "attention" else torch.bfloat16
    model, batch = built(name, products=half), puzzles()
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
def test_jacobians_see_the_float32_map(name: str) -> None:
    mixed, single, batch = built(name, products=torch.bfloat16), built(name), puzzles()
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
def test_the_share_of_entries_that_miss_the_noise(dtypes: tuple[torch.dtype, ...], least: float, most: float) -> None:
    """σ 0.01 beside entries of size 1: a bfloat16 state has 8 digits, and rounds a sixth of the kicks away."""
    model = built("mixer", *dtypes)
    x = model.encode(puzzles(64))
    f = called(model, x)
    missed = (euler_maruyama(f, f, 1.0, "additive", 0.01) == f).float().mean().item()
    assert least <= missed <= most


@pytest.mark.parametrize("family", ["trm-mlp", "hrm"])
def test_every_weight_has_its_gradient(family: str, tiny: Config, tmp_path: Path) -> None:
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


def test_scaled_mixed_training_resumes_to_the_bit(tiny: Config, tmp_path: Path) -> None:
    config = override(tiny, VARIANTS["cmm"] | {"training.precision": "amp-fp16", "training.steps": "4"})
    assert trainer_of(config, tmp_path / "other").scaling.enabled
    resumes_to_the_bit(config, tmp_path, steps=2)
    single = trainer_of(override(config, {"training.precision": "fp16"}), tmp_path / "parts")
    with pytest.raises(ConfigError, match=r"float32, products in float16.*type training\.precision=amp-fp16"):
        restore(single, next(checkpoint.readable(tmp_path / "parts")))
