"""One kernel for the calls without gradient, beside the calls one by one: interpreted here, compiled on a GPU."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator

import pytest
import torch
from pydantic import ValidationError

from reason.config.overrides import derive
from reason.errors import ConfigError
from reason.models import RecursiveConfig, RecursiveModel, Shape
from reason.models.base import Batch
from reason.models.recursive import RecursiveState
from reason.nn.dtypes import Dtypes
from reason.nn.fused import calls_in_turn
from reason.presets import preset
from reason.runs.work import work_of

SHAPE = Shape(seq_len=19, vocab_size=7, num_puzzle_identifiers=3)
SMALL = {"hidden_size": 32, "num_heads": 1, "expansion": 1.0, "puzzle_emb_len": 2, "h_cycles": 2, "l_cycles": 2}
MLP = {"mixer": "mlp", "positions": "none"}
VARIANTS = {
    "attention": {"hidden_size": 64, "num_heads": 2},
    "mlp": MLP,
    "hrm": {"separate_networks": True, "gradient": "last-call", "puzzle_emb_len": 1},
    "identical layers, tanh": MLP | {"num_layers": 1, "repeats": 2, "activation": "tanh"},
    "single z": MLP | {"states": 1},
    "no positions": {"positions": "none"},
}


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[torch.device]:
    """CUDA, or the CPU with Triton's interpreter."""
    if importlib.util.find_spec("triton") is None:
        pytest.skip("pip install -e '.[triton]'")
    if torch.cuda.is_available():
        yield torch.device("cuda")
        return
    monkeypatch.setenv("TRITON_INTERPRET", "1")  # read while Triton is imported
    for name in [name for name in sys.modules if name.partition(".")[0] == "triton" and "._C" not in name]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "reason.nn.fused_kernel", raising=False)
    yield torch.device("cpu")


def pair(device: torch.device, dtype: torch.dtype, **changes: object) -> tuple[RecursiveModel, RecursiveModel]:
    """The same weights, call by call and in one kernel."""
    torch.manual_seed(0)
    models = [
        RecursiveModel(RecursiveConfig(**SMALL | changes | {"recursion": how}), SHAPE, dtype).to(device)
        for how in ("torch", "triton")
    ]
    models[1].load_state_dict(models[0].state_dict())
    return models[0], models[1]


def puzzles(device: torch.device) -> Batch:
    tokens = torch.randint(0, 7, (3, 19), generator=torch.Generator().manual_seed(0)).to(device)
    return Batch(tokens, tokens, torch.arange(3, device=device))


def states(model: RecursiveModel, batch: Batch) -> RecursiveState:
    """After a supervision step without gradient."""
    with torch.no_grad():
        x = model.encode(batch)
        return model.step(model.initial_state(x), x)


@pytest.mark.slow
@pytest.mark.gpu
@pytest.mark.parametrize("variant", VARIANTS)
def test_one_kernel_computes_what_the_calls_do(variant: str, device: torch.device) -> None:
    plain, fused = pair(device, torch.float32, **VARIANTS[variant])
    for one, other in zip(states(plain, puzzles(device)), states(fused, puzzles(device)), strict=True):
        torch.testing.assert_close(other, one, rtol=0, atol=1e-4)
        assert one.std() > 0.5


@pytest.mark.slow
@pytest.mark.gpu
@pytest.mark.parametrize("variant", ["attention", "mlp"])
def test_in_sixteen_bits_it_is_as_near_to_float32_as_the_calls_are(variant: str, device: torch.device) -> None:
    exact = states(pair(device, torch.float32, **VARIANTS[variant])[0], puzzles(device))
    half = torch.bfloat16 if device.type == "cuda" else torch.float16  # which the interpreter rounds, not cuts
    plain, fused = pair(device, half, **VARIANTS[variant])
    theirs, ours = (
        (states(model, puzzles(device)).z_h.float() - exact.z_h).square().mean().sqrt() for model in (plain, fused)
    )
    assert 0 < ours <= 1.25 * theirs
    assert theirs < 0.2


@pytest.mark.slow
@pytest.mark.gpu
@pytest.mark.parametrize("changes", [{"gradient": "last-cycle"}, {"gradient": 4}, {"gradient": "all-cycles"}], ids=str)
def test_gradients_are_those_of_the_calls(changes: dict[str, object], device: torch.device) -> None:
    gradients = []
    for model in pair(device, torch.float32, **changes):
        x = model.encode(puzzles(device))
        once = model.step(model.initial_state(x), x)
        model.readout(model.step(once, x)).logits.square().mean().backward()  # through both where no call is without
        gradients.append({name: p.grad for name, p in model.named_parameters() if p.grad is not None})
    assert len(gradients[0]) > 8
    torch.testing.assert_close(gradients[1], gradients[0], rtol=0, atol=1e-5)


@pytest.mark.slow
@pytest.mark.gpu
@pytest.mark.parametrize("noise", ["additive", "multiplicative"])
def test_noise_is_normal_and_new_in_every_call(noise: str, device: torch.device) -> None:
    model = pair(device, torch.float32, **MLP, hidden_size=64, states=1)[1]
    sigma = 0.01

    def moved(z: torch.Tensor, calls: int, noise: str = noise) -> torch.Tensor:
        torch.manual_seed(1)
        return calls_in_turn([model.f_l], z, z, x, None, calls, 5, 1, torch.float32, noise, sigma)[0]

    with torch.no_grad():
        x = model.encode(puzzles(device))
        start = model.initial_state(x).z_h
        exact, first, second = moved(start, 1, "none"), moved(start, 1), moved(start, 2)
        onward = moved(first, 1, "none")
    scales = (exact, onward) if noise == "multiplicative" else (torch.ones_like(exact), torch.ones_like(onward))
    kept = (scales[0].abs() > 0.1) & (scales[1].abs() > 0.1)  # where float32 does not round the kick away
    kicks = [
        ((end - mean) / (sigma * scale))[kept]
        for end, mean, scale in zip((first, second), (exact, onward), scales, strict=True)
    ]
    for kick in kicks:
        assert kick.std() == pytest.approx(1, abs=0.06)
        assert kick.mean() == pytest.approx(0, abs=0.06)
    assert torch.corrcoef(torch.stack(kicks))[0, 1].abs() < 0.08
    assert torch.equal(first, moved(start, 1)), "the default generator decides"


@pytest.mark.slow
@pytest.mark.gpu
def test_a_compiled_step_holds_the_kernel(device: torch.device) -> None:
    _, fused = pair(device, torch.float32, **MLP)
    eager = states(fused, puzzles(device))
    fused.step = torch.compile(fused.step, backend="aot_eager", dynamic=False, fullgraph=True)  # type: ignore[method-assign]
    for one, other in zip(eager, states(fused, puzzles(device)), strict=True):
        torch.testing.assert_close(other, one)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"mixer": "local", "positions": "none", "puzzle_emb_len": 0}, "does not know the mixer local"),
        ({"hidden_size": 48}, "knows D of 32, 64, 128, not 48"),
        ({"num_heads": 2}, "type model.num_heads=1"),
        ({"separate_networks": True, "num_h_layers": 3}, "networks of one depth"),
        ({"integrator": "rk4"}, "takes whole Euler steps"),
        ({"dt": 0.5}, "takes whole Euler steps"),
        ({"dt": 0.5, "substeps": 2}, "takes whole Euler steps"),
        ({"equation": "averaged"}, "takes whole Euler steps"),
    ],
    ids=str,
)
def test_what_it_does_not_compute_is_refused(changes: dict[str, object], reason: str) -> None:
    RecursiveConfig(**SMALL | changes)
    with pytest.raises(ValidationError, match=reason):
        RecursiveConfig(**SMALL | changes | {"recursion": "triton"})


def test_large_puzzles_are_refused() -> None:
    config = RecursiveConfig(**SMALL | {"recursion": "triton"})
    with pytest.raises(ConfigError, match="holds 128 positions of a puzzle, this one has 132"):
        RecursiveModel(config, Shape(seq_len=130, vocab_size=7, num_puzzle_identifiers=1))


def test_a_cpu_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    config = RecursiveConfig(**SMALL | {"recursion": "triton"})
    with pytest.raises(ConfigError, match=r"type model\.recursion=torch"):
        config.refuse_device(torch.device("cpu"))
    RecursiveConfig(**SMALL).refuse_device(torch.device("cpu"))


def test_an_old_gpu_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (7, 5))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Tesla T4")
    with pytest.raises(ConfigError, match=r"needs compute capability 8\.0, which Tesla T4 has not"):
        RecursiveConfig(**SMALL | {"recursion": "triton"}).refuse_device(torch.device("cuda"))


def test_its_work_is_counted_as_that_of_the_calls() -> None:
    config = derive(preset("sudoku-4x4").config(), {"model.hidden_size": 32, "training.batch_size": 4})
    works = [
        work_of(derive(config, {"model.recursion": how}), SHAPE, Dtypes(torch.float32), "cpu")
        for how in ("torch", "triton")
    ]
    assert works[0] == works[1]
    assert works[0].flops > 1e6
