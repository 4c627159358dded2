"""The looped family in training: T loops in one backward pass, resumed to the bit, its curve known, its refusals."""

import numpy as np
import pytest
import torch
from conftest import pairs, trainer_of
from scipy import stats
from test_compiling import both
from test_loop import hold_against_golden, resumes_to_the_bit
from test_model import batch, make
from test_queued import SCHEDULED, hold_one_queue, some

from datasets_gen.layout import Split, write_dataset
from reason.config.overrides import derive, override
from reason.config.schema import Config
from reason.errors import ConfigError
from reason.extensions.looped.model import LoopedConfig
from reason.losses.lm import lm_loss
from reason.models.mixing import MIXERS
from reason.presets import preset
from reason.rollout import first_carry, supervise
from reason.settings.rollout import LoopsConfig, RolloutConfig
from reason.training.log import read_metrics

NARROW = pairs(
    "model.hidden_size=16 model.num_heads=2 training.batch_size=8 training.steps=6 training.log_every=2 "
    "training.checkpoint_every=3 training.precision=fp32"
)
LATE = '{"jsrr": {"points": [[0, 0], [0.05, 1]]}}'
RANDOM = {"rollout.loops.random": '{"law": "uniform", "max": 4}', "rollout.loops.start": "2"}
JSRR = {"loss.weights.jsrr": "0.1", "loss.jsrr.iterations": "2", "loss.schedules": LATE}

VARIANTS = {
    "random loops, JSRR, dropout": RANDOM | JSRR | {"model.dropout": "0.1"},
    "prelude, coda, injection, per-loop": pairs(
        "model.prelude=1 model.coda=1 model.between=injection rollout.loops.supervision=per-loop "
        "training.precision=bf16"
    ),
    "damping, inter-loop norm, L2": pairs("model.between=damping,norm loss.weights.l2=0.1"),
    "log-normal, deep supervision": pairs(
        "rollout.supervision_steps=2 rollout.carry=persistent rollout.grad_steps=2 ema.decay=0.9 "
        'rollout.loops.random={"law":"log-normal","mean":0.7,"sigma":0.7,"max":100}'
    ),
}


@pytest.fixture
def looped(addition):
    return override(preset("stars-small-post-layernorm").config(), NARROW | {"data.directory": str(addition)})


@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS)
def test_resuming_equals_not_stopping(changes, looped, tmp_path):
    resumes_to_the_bit(override(looped, changes), tmp_path)


@pytest.mark.parametrize("name", some([*VARIANTS, "Ouro"], "random loops, JSRR, dropout"))
def test_steps_of_one_form_queue_the_same_operators(name, looped):
    ouro = preset("ouro-small-stage-1").config() if name == "Ouro" else looped
    changes = NARROW | SCHEDULED | VARIANTS.get(name, {}) | {"data.directory": looped.data.directory}
    if "random" in name:
        changes |= {"rollout.loops.random": '{"law": "uniform", "max": 2}'}
    hold_one_queue(override(ouro, changes), steps=8)


def test_golden_curve(tmp_path, request):
    """20 steps in float32 of random loops with JSRR, on a set that depends on no generator."""
    tokens = np.arange(24 * 9).reshape(24, 9) ** 2 % 5 + 1
    splits = {"train": Split.of_puzzles(tokens, np.roll(tokens, -1, 1))}
    write_dataset(tmp_path / "set", splits, task={"causal": True}, vocab_size=6)
    settings = NARROW | RANDOM | JSRR | {"training.steps": "20", "training.log_every": "1"}
    settings |= {"data.directory": str(tmp_path / "set"), "model.dropout": "0.1"}
    trainer_of(override(preset("stars-small-post-sandwich-layernorm").config(), settings), tmp_path / "run").train()
    lines = read_metrics(tmp_path / "run")
    assert {line["loops"] for line in lines[2:]} == {1, 2, 3, 4}
    assert [("loss/jsrr" in line) for line in lines[:3]] == [False, True, True]
    for line in lines[1:]:  # as eq. 4 has it
        assert line["loss"] == pytest.approx(0.9 * line["loss/lm"] + 0.1 * line["loss/jsrr"], rel=1e-5)
    hold_against_golden("looped-jsrr", [line["loss"] for line in lines], request.config.getoption("--record-golden"))


def test_jsrr_on_a_recursive_preset(tiny, tmp_path):
    """Beside the halting loss, it enters the loss as eq. 4 has it."""
    settings = {"loss.weights.jsrr": "0.2", "training.steps": "2", "training.log_every": "1"}
    trainer_of(override(tiny, settings), tmp_path / "short").train()
    for line in read_metrics(tmp_path / "short"):
        total = 0.8 * line["loss/lm"] + 0.5 * line["loss/q_halt"] + 0.2 * line["loss/jsrr"]
        assert line["loss"] == pytest.approx(total, rel=1e-5)


def test_compiled_equals_eager(looped, tmp_path):
    """One graph of the block whatever T is; Jacobian products go past it."""
    _, graphs = both(override(looped, RANDOM | JSRR), tmp_path)
    assert graphs[0] == graphs[-1] > 0


def law(name, **numbers):
    return LoopsConfig(random={"law": name, **numbers})


LAWS = {
    "log-normal, table 1 set 1": law("log-normal", mean=2.62, sigma=0.6, max=40),
    "poisson": law("poisson", mean=5, max=30),
    "poisson, clipped hard": law("poisson", mean=10, max=11),
    "uniform": law("uniform", max=10),
}


def chance(config, t):
    """P(T = t): the law's mass between t − ½ and t + ½, what lies beyond the ends gathered there."""
    numbers = config.random
    if numbers["law"] == "uniform":
        return 1 / config.most
    if numbers["law"] == "poisson":
        below = {t: stats.poisson.cdf(t, numbers["mean"]) for t in (t - 1, t)}
    else:
        known = stats.lognorm(numbers["sigma"], scale=np.exp(numbers["mean"]))
        below = {t: known.cdf(t + 0.5) for t in (t - 1, t)}
    return (1.0 if t == config.most else below[t]) - (0.0 if t == 1 else below[t - 1])


@pytest.mark.parametrize("config", LAWS.values(), ids=LAWS)
def test_random_loops_follow_their_law(config):
    count = 5_000
    drawn = [config.draw(0, index, 0) for index in range(count)]
    support = np.arange(1, config.most + 1)
    chances = np.array([chance(config, int(t)) for t in support])
    assert chances.sum() == pytest.approx(1)
    assert 1 <= min(drawn) <= max(drawn) <= config.most
    seen = np.bincount(drawn, minlength=config.most + 1)[support]
    rare = chances * count < 5  # too few for a χ² cell of their own
    cells = [np.append(values[~rare], values[rare].sum()) for values in (seen, chances * count)]
    observed, expected = (values[cells[1] > 0] for values in cells)
    assert stats.chisquare(observed, expected * observed.sum() / expected.sum()).pvalue > 1e-4


def test_one_draw_depends_only_on_the_seed_and_the_number_of_the_pass():
    config = LoopsConfig(random={"law": "uniform", "max": 1000}, count=4, start=3)
    drawn = [config.draw(7, index, step=10) for index in range(50)]
    assert drawn == [config.draw(7, index, step=99) for index in range(50)]
    assert len(set(drawn)) > 40
    assert drawn != [config.draw(8, index, step=10) for index in range(50)]
    assert [config.draw(7, index, step=index) for index in range(5)] == [4, 4, 4, *drawn[3:5]]
    assert (LoopsConfig(count=6).draw(7, 0, 0), LoopsConfig(count=6).most) == (6, 6)


@pytest.mark.parametrize("supervision", ["terminal", "per-loop"])
def test_the_loss_is_that_of_the_last_loop_or_the_mean_of_all(supervision):
    model, puzzles = make(prelude=1, coda=1), batch(3)
    loops = LoopsConfig(count=3, supervision=supervision)
    config = RolloutConfig(supervision_steps=1, halting="none", loops=loops)
    carry, seen = supervise(model, first_carry(model, puzzles), lambda: puzzles, config, loops=3)
    assert carry.halted.all()
    z, losses = model.encode(puzzles).x, []
    for _ in range(3):
        z = model.block(z)
        logits = torch.nn.functional.linear(model.final_norm(model.coda(z)), model.tokens.weight)
        losses.append(torch.nn.functional.cross_entropy(logits.flatten(0, 1), puzzles.labels.flatten()).item())
    expected = losses[-1] if supervision == "terminal" else np.mean(losses)
    assert lm_loss(seen, "softmax", "row").item() == pytest.approx(expected, rel=1e-5)


def test_another_family_starts_from_its_own_defaults():
    changes = {"model.kind": "looped", "rollout.supervision_steps": 1}
    changes |= {"rollout.halting": "none", "loss.weights.q_halt": 0, "model.prelude": 1}
    assert derive(derive(Config(), {"model.hidden_size": 64}), changes).model == LoopedConfig(prelude=1)
    with pytest.raises(ConfigError, match="a looped model has it"):
        derive(Config(), {"model.causal": True})
    unordered = {"model.causal": False, "model.positions": "none"}
    for mixer in ("mlp", "linear") if "linear" in MIXERS else ("mlp",):
        with pytest.raises(ConfigError, match=f"a looped model has no model.mixer={mixer}"):
            derive(Config(), changes | unordered | {"model.mixer": mixer, "model.symbols": mixer == "linear"})
