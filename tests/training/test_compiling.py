"""torch.compile: whole graphs, none made again, the numbers of eager mode."""

from unittest.mock import Mock

import pytest
import torch
from conftest import pairs, trainer_of
from test_loop import VARIANTS

from reason.config.overrides import override
from reason.errors import ConfigError
from reason.nn.linear import Linear
from reason.training import accelerate
from reason.training.accelerate import compile_networks

COUNTERS = torch._dynamo.utils.counters
LOCAL, GROUPS = {"model.mixer": "local"}, {"model.mixer": "groups", "model.symbols": "true"}
SHORT = {"model.h_cycles": "1", "model.l_cycles": "1", "model.num_layers": "1"}
LOSS, WEIGHTS = 1e-4, 1e-3  # relative, after 5 optimizer steps in float32 (docs/log/performance.md)


def both(config, folder, steps=5, backend="aot_eager", device="cpu"):
    """The losses of eager and compiled training over the same draws, and the graphs that there were at each step.

    aot_eager traces the graphs and generates no code, which inductor takes half a minute for.
    """
    torch._dynamo.reset()
    COUNTERS.clear()
    eager = trainer_of(config, folder / "eager", device)
    other = trainer_of(config, folder / "compiled", device)
    compile_networks(other.model, backend)
    graphs = []
    for _ in range(steps):
        for trainer in (eager, other):
            torch.manual_seed(1)  # the same exploration for both
            trainer.optimizer_step()
        if other.monitor is not None:  # readings between steps make no graph of their own at every one
            other.monitor.validate(other.model, other.ema, other.step)
        graphs.append(COUNTERS["stats"]["unique_graphs"])
    distance = max(
        ((a - b).norm() / (1e-3 + a.norm())).item()
        for a, b in zip(eager.model.parameters(), other.model.parameters(), strict=True)
    )
    losses = [trainer.meters.read()["loss/lm"] for trainer in (eager, other)]
    assert losses[1] == pytest.approx(losses[0], rel=LOSS)
    assert distance < WEIGHTS
    assert not COUNTERS["graph_break"]
    return [value or 0.0 for value in losses], graphs


@pytest.mark.parametrize("changes", [VARIANTS["hrm"], LOCAL, GROUPS], ids=["hrm", "local", "groups"])
def test_compiled_equals_eager(changes, watched, tmp_path):
    """With a monitor's readings in between; nothing is compiled after the second step.

    Groups are summed over axes when compiled, and by products with constant matrices when not.
    """
    _, graphs = both(override(watched, SHORT | changes), tmp_path, steps=3)
    assert graphs[1] == graphs[-1] > 0


def test_balancing_and_jacobian_terms_live_beside_compiled_networks(tiny, tmp_path):
    terms = pairs("loss.weights.rh_stable_z=1e4 balance.kind=alg-grad-norm balance.every=2")
    more = pairs("model.gradient_checkpointing=true optimizer.freeze_embedding_after=0.5")
    both(override(tiny, VARIANTS["trm-attention"] | SHORT | terms | more), tmp_path, steps=4)


@pytest.mark.parametrize("over_sequence", [False, True])
def test_products_of_bfloat16_in_float32_are_the_same_products(over_sequence):
    """Equal up to one rounding of the result; only where compiled, and only of bfloat16."""
    torch.manual_seed(0)
    linear, x = Linear(48, 32, bias=not over_sequence), torch.randn(48, 5, 48).bfloat16()
    call = linear.over_sequence if over_sequence else linear
    expected = call(x)
    linear.widened = True
    assert torch.equal(call(x), expected)  # eager
    graphs = []

    def backend(module, _):
        graphs.append(module.code)
        return module.forward

    compiled = torch.compile(call, backend=backend, dynamic=False, fullgraph=True)
    torch.testing.assert_close(compiled(x), expected, rtol=2.0**-7, atol=1e-3)
    assert compiled(x).dtype == torch.bfloat16
    assert graphs[0].count(".float()") >= 2
    compiled(x.float())
    assert ".float()" not in graphs[-1].replace("float32", "")


def test_inductor_is_refused_where_no_code_can_be_generated(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(torch, "compile", Mock(side_effect=RuntimeError("no C++ compiler")))
    assert not accelerate.inductor_works(torch.device("cpu"))
    with pytest.raises(ConfigError, match=r"makes no code for cpu here .*; type training\.compile=none"):
        trainer_of(override(tiny, {"training.compile": "inductor"}), tmp_path / "run")


@pytest.mark.gpu
def test_inductor_equals_eager_on_a_gpu(tiny, tmp_path):
    both(tiny, tmp_path, steps=8, backend="inductor", device="cuda")
