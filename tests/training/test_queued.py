"""What a GPU needs of an optimizer step, shown without one, on fake tensors of a device "gpu" that torch only names.

A step may not wait for the host, read from it, or have shapes that depend on data; and two steps of one form queue the
same operators with the same numbers, so that one can be captured as a graph and replayed. So do steps of an evaluation.
"""

import contextlib
import functools
from pathlib import Path

import pytest
import torch
from conftest import make_set, pairs
from test_loop import VARIANTS
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

from reason.config.overrides import override
from reason.extensions.graph import capture
from reason.runs.build import build_trainer
from reason.runs.sets import load_training_set

DEVICE = "gpu"
SCHEDULED = pairs("optimizer.schedule.kind=cosine optimizer.schedule.warmup_steps=4 ema.warmup=true training.steps=60")
FAMILIES = VARIANTS | {
    # A measured step is eager.
    "cmm": VARIANTS["cmm"] | {"balance.every": "9", "model.gradient_checkpointing": "false"},
    "checkpoints": pairs("model.gradient_checkpointing=true model.noise=multiplicative"),
    "scheduled loss": pairs("model.states=1 loss.weights.rep_z=1 loss.weights.equil_x=1 loss.weights.rh_unstable_x=1")
    | {"loss.schedules": '{"rep_z": {"kind": "cosine"}}'},
    "outside, clipped": pairs("optimizer.kind=adam-atan2-outside optimizer.grad_clip=1 model.puzzle_emb_len=2"),
    "groups, open symbols": pairs(
        "model.mixer=groups model.positions=none model.symbols=true model.open_only=true data.augment=true"
    ),
}
MAZES = {
    "walls left out": pairs("model.mixer=local model.positions=none model.open_only=true"),
    "attention on a grid": pairs("model.mixer=attention model.positions=rotary-2d"),
}


def some(names, *fast):
    """The names, those slow that are not among the fast ones."""
    return [name if name in fast else pytest.param(name, marks=pytest.mark.slow) for name in names]


class Generator(torch.Generator):
    """A generator of the CPU that says to be the device's."""

    device = property(lambda self: torch.device(DEVICE))

    def __new__(cls, device=None):
        return super().__new__(cls)


class Queue(TorchDispatchMode):
    """Records operators, the shapes of their tensors and every other argument; refuses what meets the host."""

    def __init__(self):
        super().__init__()
        self.operators = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        if not function.name().startswith(("prim::", "profiler::")):
            leaves = tree_leaves((args, kwargs))
            devices = {each.device.type for each in [*leaves, *tree_leaves(result)] if isinstance(each, Tensor)}
            assert len(devices - {"meta"}) <= 1, f"{function} copies between {devices}"  # meta: within a fake operator
            plain = [tuple(each.shape) if isinstance(each, Tensor) else str(each) for each in leaves]
            self.operators.append((str(function), *plain))
        return result


@functools.cache
def name_device():
    """torch takes one name, once, for a device that is written in Python."""
    _setup_privateuseone_for_python_backend(DEVICE)
    torch.gpu.get_amp_supported_dtype = lambda: [torch.bfloat16]


@contextlib.contextmanager
def fake_gpu():
    """Fake tensors of this device: it has no memory, so nothing is computed."""
    name_device()
    tensor = torch.tensor

    def on_device(data, device=None, **how):
        held = tensor(data, device="cpu", **how)
        return held if device is None else torch.empty(held.shape, dtype=held.dtype, device=device)

    def buffers_to(model, device):
        for module in model.modules():
            held = {name: each for name, each in module._buffers.items() if each is not None}
            module._buffers |= {name: torch.empty_like(each, device=device) for name, each in held.items()}
        return model

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(capture, "DEVICES", {DEVICE})
        patch.setattr(torch, "Generator", Generator)
        patch.setattr(torch, "tensor", on_device)  # torch's own writes into the memory of the device
        patch.setattr(torch.nn.init, "trunc_normal_", lambda weights, **how: weights)  # looks at numbers
        patch.setattr(torch.nn.Module, "to", buffers_to)  # weights are made on the device
        # One thread: the modes of this one do not hold in the thread that autograd has for a device.
        with torch.autograd.set_multithreading_enabled(False), FakeTensorMode(allow_non_fake_inputs=True) as mode:
            yield mode


def hold_one_queue(config, steps=7, queued=True):
    """Steps of one form queue the same operators, and so do steps of an evaluation; some form comes twice."""
    data = load_training_set(config, torch.device("cpu"))
    with fake_gpu() as mode:
        data.device = torch.device(DEVICE)
        for part in data.parts:
            part.device = data.device
            held = {name: value for name, value in vars(part).items() if isinstance(value, Tensor)}
            vars(part).update({name: mode.from_tensor(value).to(DEVICE) for name, value in held.items()})
        with torch.device(DEVICE):
            trainer = build_trainer(config, Path("no-run"), data)
        captured = capture.Captured(trainer, lambda step: step)
        seen = {}
        again = 0
        for step in range(steps):
            at, queue = capture.form_of(trainer), Queue()
            scalars, _ = captured.prepare(at)
            scalars = scalars if queued else trainer.scalars()
            if step < 2 or any(plan.measure_gradients for plan in at.plans):
                trainer.optimizer_step(scalars)
                continue
            with queue:
                trainer.optimizer_step(scalars)
            again += at in seen
            for now, before in zip(queue.operators, seen.setdefault(at, queue.operators), strict=True):
                assert now == before
        assert again
        model, (carry, *_) = trainer.model.eval(), trainer.carries
        with torch.no_grad():
            state, context = carry.state, model.encode(carry.batch)
            for queue in (read := [Queue(), Queue(), Queue()]):
                with queue:
                    state = model.step(state, context)
        assert read[1].operators == read[2].operators  # the first step makes the geometry


@pytest.mark.parametrize("family", some(FAMILIES, "trm-mlp", "hrm", "cmm", "muon", "scheduled loss"))
def test_steps_of_one_form_queue_the_same_operators(family, tiny):
    hold_one_queue(override(tiny, SCHEDULED | {"model.h_cycles": "2"} | FAMILIES[family]))


@pytest.mark.parametrize("family", some(MAZES, "walls left out"))
def test_steps_on_mazes_queue_the_same_operators(family, tiny, tmp_path):
    mazes = {"data.directory": str(make_set("maze --size 5 --min-path 4 --train 20 --test 0", tmp_path / "mazes"))}
    hold_one_queue(override(tiny, SCHEDULED | mazes | MAZES[family]))


def test_a_number_of_the_host_is_noticed(tiny):
    with pytest.raises(AssertionError, match=r"aten\.mul"):
        hold_one_queue(override(tiny, SCHEDULED), queued=False)


@pytest.mark.parametrize(
    "meets", [lambda x: x.sum().item(), lambda x: x.nonzero(), lambda x: x.cpu(), lambda x: bool(x.any()), torch.unique]
)
def test_what_meets_the_host_is_noticed(meets):
    with fake_gpu():
        there = torch.ones(3, device=DEVICE)
        with pytest.raises((RuntimeError, AssertionError)), Queue():
            meets(there)
