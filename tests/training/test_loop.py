"""Training as a whole: it learns, resumes to the bit, stops when asked or killed, its curve is known, no step waits."""

import hashlib
import json
import os
import platform
import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from conftest import TINY, pairs, trainer_of
from survivors import everything as everything

from datasets_gen.layout import Split, write_dataset
from reason.cli import main
from reason.config.overrides import override
from reason.config.schema import Config
from reason.training import checkpoint
from reason.training.checkpoint import checkpoints
from reason.training.log import read_metrics
from reason.training.state import restore

GOLDEN = Path(__file__).parents[1] / "golden"
MEASURED = ("seconds", "puzzle_steps_per_second", "memory_peak", "monitor/seconds")

VARIANTS = {
    "trm-mlp": {},
    "trm-attention": {"model.mixer": "attention", "model.positions": "rotary", "model.puzzle_emb_len": "2"},
    "hrm": pairs(
        "model.mixer=attention model.positions=rotary model.puzzle_emb_len=1 model.separate_networks=true "
        "model.gradient=last-call rollout.halting=q-learning loss.weights.q_continue=0.5"
    ),
    "accumulated": {"rollout.grad_steps": "2", "rollout.accum_steps": "3", "rollout.carry": "same-batch"},
    "one random state, hints": pairs(
        "model.states=1 model.initial=random data.hints=3 rollout.accum_steps=3 rollout.carry=handover"
    ),
    "cmm": pairs(
        "model.noise=additive model.initial=input model.gradient_checkpointing=true loss.weights.equil_z=1 "
        "loss.weights.rh_stable_z=1e4 loss.weights.rep_x=1e3 balance.kind=alg-grad-norm optimizer.eps=1e-12 "
        "optimizer.freeze_embedding_after=0.5"
    )
    | {"loss.schedules": '{"rh_stable_z": {"points": [[0,0],[0.3,1]]}}'},
    "muon": pairs("optimizer.kind=muon optimizer.muon_lr=0.05 rollout.accum_steps=2 rollout.carry=handover"),
    "adamw, bf16, no EMA": {"optimizer.kind": "adamw", "training.precision": "bf16", "ema.decay": "none"},
}


def untimed(run):
    return [{k: v for k, v in line.items() if k not in MEASURED} for line in read_metrics(run)]


def resumed(config, run, device="cpu"):
    """A trainer at the newest checkpoint of a run, whatever another process left in the random generators."""
    torch.manual_seed(12345)
    trainer = trainer_of(config, run, device)
    restore(trainer, next(checkpoint.readable(run)))
    return trainer


def hold_equal(one, other):
    """Two runs ended with the same tensors to the bit, and wrote the same metrics but for times."""
    ours, theirs = everything(one), everything(other)
    assert ours.keys() == theirs.keys()
    assert [name for name in ours if not torch.equal(ours[name], theirs[name])] == []
    assert untimed(one) == untimed(other)


def resumes_to_the_bit(config, folder, steps=3, device="cpu", begin=trainer_of):
    """A training stopped after so many steps comes to the end of one that was not."""
    begin(config, folder / "whole", device).train()
    assert begin(config, folder / "parts", device).train(max_steps=steps).stopped_by == f"--max-steps {steps}"
    assert resumed(config, folder / "parts", device).train().stopped_by is None
    hold_equal(folder / "parts", folder / "whole")


@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS)
def test_resuming_equals_not_stopping(changes, tiny, tmp_path):
    """Stopped at step 3 of 6, between two log lines: weights, EMA, moments, carry, random states and metrics."""
    resumes_to_the_bit(override(tiny, changes), tmp_path)


@pytest.mark.gpu
@pytest.mark.parametrize("family", ["trm-mlp", "cmm", "muon"])
def test_resuming_on_a_gpu_equals_not_stopping(family, tiny, tmp_path):
    """Its random streams are the device's, and AdamW and Muon keep their step count on the host."""
    resumes_to_the_bit(override(tiny, VARIANTS[family]), tmp_path, device="cuda")


def test_averaged_gradients_are_the_mean_over_supervision_steps(tiny, tmp_path):
    grads = {}
    for grad_steps in (1, 3):
        trainer = trainer_of(override(tiny, {"rollout.grad_steps": str(grad_steps)}), tmp_path / str(grad_steps))
        seen = []

        def frozen(factor, trainer=trainer, seen=seen):
            seen.append({name: p.grad.clone() for name, p in trainer.model.named_parameters()})
            trainer.model.zero_grad()
            return torch.zeros(())

        trainer.optimizers.step = frozen
        for _ in range(3 // grad_steps):
            trainer.optimizer_step()
        grads[grad_steps] = seen
    for name, averaged in grads[3][0].items():
        mean = sum(single[name] for single in grads[1]) / 3
        torch.testing.assert_close(averaged, mean, atol=1e-7, rtol=1e-5, msg=name)


def test_gradient_checkpointing_changes_no_gradient(tiny, tmp_path):
    """With noise, Jacobian terms and balancing: the same weights after two steps, and fewer tensors kept."""
    changes = VARIANTS["cmm"] | {"model.mixer": "attention", "loss.schedules": "{}", "model.gradient": "all-cycles"}
    ends, kept = [], []
    for flag in ("false", "true"):
        trainer = trainer_of(override(tiny, changes | {"model.gradient_checkpointing": flag}), tmp_path / flag)
        keep = Mock(side_effect=lambda tensor: tensor)
        torch.manual_seed(1)
        trainer.optimizer_step()
        x = trainer.model.encode(trainer.carries[0].batch)
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            trainer.model.step(trainer.carries[0].state, x)
        kept.append(keep.call_count)
        ends.append([p.detach().clone() for p in trainer.model.parameters()])
    for plain, recomputed in zip(*ends, strict=True):
        torch.testing.assert_close(plain, recomputed)
    assert kept[1] < kept[0] / 2


def signalled(command, run, send):
    """Status, stdout and stderr of a training in `run` that gets a signal after its first line of metrics."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "start_new_session": True}
    process = subprocess.Popen(command, text=True, **pipes)
    metrics, until = run / "metrics.jsonl", time.monotonic() + 120
    try:
        while process.poll() is None and time.monotonic() < until and not (metrics.exists() and metrics.read_bytes()):
            time.sleep(0.05)
        send(process)
        out, err = process.communicate()
    finally:
        process.kill()
    return process.returncode, out, err


def test_ctrl_c_saves_and_names_the_line_that_resumes(tiny, tmp_path):
    run = tmp_path / "run"
    words = [f"data={tiny.data.directory}", f"run={run}", "training.steps=100000", "training.log_every=5"]
    command = [sys.executable, str(Path(__file__).parents[2] / "train.py"), "sudoku-4x4", *words]
    status, out, err = signalled(command, run, lambda process: process.send_signal(signal.SIGINT))
    assert status == 0, err
    assert f"python train.py run={run} --resume" in out
    assert [path.name == "step-000000" for path in checkpoint.checkpoints(run)] == [True, False]


@pytest.mark.parametrize("family", ["trm-mlp", "trm-attention", "hrm"])
def test_golden_curve(family, tmp_path, request):
    """20 steps of a set and settings that depend on no preset, to the bit where torch and processor are the same."""
    tokens = np.arange(24 * 9).reshape(24, 9) ** 2 % 5 + 1
    splits = {"train": Split.of_puzzles(np.where(tokens % 2, tokens, 1), tokens)}
    write_dataset(tmp_path / "set", splits, task={}, vocab_size=6)
    small = pairs("model.mixer=mlp model.positions=none model.puzzle_emb_len=0 model.h_cycles=2 model.l_cycles=2")
    few = {"data.directory": str(tmp_path / "set"), "training.steps": "20", "training.log_every": "1"}
    config = override(Config(), TINY | small | VARIANTS[family] | few)
    trainer_of(config, tmp_path / "run").train()
    losses = [line["loss"] for line in read_metrics(tmp_path / "run")]
    hold_against_golden(family, losses, request.config.getoption("--record-golden"))


def hold_against_golden(family, losses, record):
    file = GOLDEN / f"{family}.json"
    processors = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else platform.processor()
    models = {line for line in processors.splitlines() if line.startswith(("cpu family", "model", "stepping"))}
    processor = hashlib.sha256("".join(sorted(models)).encode()).hexdigest()[:12]
    machine = f"torch {torch.__version__}, {torch.backends.cpu.get_cpu_capability()}, processor {processor}"
    if record:
        file.write_text(json.dumps({"machine": machine, "loss": losses}, indent=1) + "\n")
    golden = json.loads(file.read_text())
    assert losses == (golden["loss"] if golden["machine"] == machine else pytest.approx(golden["loss"], rel=2e-3))


DIES_WITHIN_STEP_10 = """
import os, signal, sys
from reason.cli import main
from reason.training.optim import Optimizers
whole = Optimizers.step
steps = iter(range(100))
Optimizers.step = lambda self, factor: os.kill(os.getpid(), signal.SIGKILL) if next(steps) == 9 else whole(self, factor)
main(["train", *sys.argv[1:]])
"""


def test_twelve_steps_are_six_and_a_kill_and_the_rest(monitored_4x4, tmp_path):
    """The checkpoint of step 6 goes on; weights, EMA, carry and metrics are equal."""
    parts, whole = tmp_path / "parts", tmp_path / "whole"
    pairs = TINY | VARIANTS["hrm"] | {"training.steps": "12", "training.checkpoint_every": "6"}
    words = ["sudoku-4x4", f"data={monitored_4x4}", *(f"{key}={value}" for key, value in pairs.items())]
    command = [sys.executable, "-c", DIES_WITHIN_STEP_10, *words, f"run={parts}"]
    killed = subprocess.run(command, capture_output=True, check=False, cwd=tmp_path, env=os.environ)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert read_metrics(parts)[-1]["step"] == 8
    assert [path.name for path in checkpoints(parts)] == ["step-000000", "step-000006"]
    assert main(["train", f"run={parts}", "--resume"]) == 0
    assert main(["train", *words, f"run={whole}"]) == 0
    hold_equal(parts, whole)


@pytest.mark.gpu
@pytest.mark.parametrize("family", VARIANTS)  # fp16 is not among them: its scaler waits once an optimizer step
def test_no_gpu_step_waits(family, tiny, tmp_path):
    trainer = trainer_of(override(tiny, VARIANTS[family]), tmp_path / "run", "cuda")
    trainer.optimizer_step()
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(4):
            trainer.optimizer_step()
    finally:
        torch.cuda.set_sync_debug_mode("default")
