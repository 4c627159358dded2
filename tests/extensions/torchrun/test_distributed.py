"""Two processes over gloo: one process's loss curve, to the bit over an interruption, and its evaluation."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from conftest import TINY, pairs
from peer import in_world, training
from test_loop import everything, hold_equal, resumed, signalled

from reason.cli import main
from reason.config.overrides import read_config
from reason.errors import ConfigError
from reason.extensions.torchrun import world
from reason.runs.build import build_trainer
from reason.runs.sets import load_training_set
from reason.training.checkpoint import checkpoints, readable
from reason.training.log import read_metrics
from reason.training.world import World, device_of_process, restarted_by_torchrun

# No random draw but the puzzles'; puzzle embeddings; gradients over two supervision steps.
DETERMINISTIC = TINY | pairs(
    "rollout.halt_exploration_prob=0 rollout.grad_steps=2 model.mixer=attention model.positions=rotary "
    "model.puzzle_emb_len=2 loss.weights.equil_z=1 balance.kind=alg-grad-norm training.log_every=1 "
    "training.monitor.every=2"
)

ODD = ["evaluation.limit=3", "evaluation.batch_size=1"]  # how the trained run is read: an odd number of puzzles
PEER = Path(__file__).parent / "peer.py"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_two_processes_are_one(monitored_4x4, tmp_path, capsys):
    """The loss curve within 1e-5; each puzzle read once; resumed by two to the bit, by one within 1e-5."""
    one, two, parts = (training(monitored_4x4, tmp_path / run, DETERMINISTIC) for run in ("one", "two", "parts"))
    commands = [two, [*parts, "--max-steps", "3"], ["train", f"run={tmp_path / 'parts'}", "--resume"]]
    commands += [["evaluate", str(tmp_path / "two"), "name=odd", *ODD]]
    plans = [{"port": free_port(), "words": line} for line in commands]
    (tmp_path / "plan.json").write_text(json.dumps(plans))
    with subprocess.Popen([sys.executable, str(PEER), str(tmp_path / "plan.json")], stdout=subprocess.DEVNULL) as other:
        for plan in plans:
            assert in_world(0, plan["port"], plan["words"]) == 0
            if plan["words"][-2:] == ["--max-steps", "3"]:
                shutil.copytree(tmp_path / "parts", tmp_path / "alone")
        assert other.wait(60) == 0
    assert "2 processes, 4 rows each" in capsys.readouterr().out
    assert main(one) == 0
    assert main(["evaluate", str(tmp_path / "two"), "name=alone", *ODD]) == 0
    assert reading(tmp_path / "two", "odd") == reading(tmp_path / "two", "alone")
    with pytest.warns(UserWarning, match="saved by 2 processes, going on with 1"):
        resumed(read_config(tmp_path / "alone/config.json"), tmp_path / "alone").train()
    for run in ("two", "parts", "alone"):
        for mine, theirs in zip(read_metrics(tmp_path / "one"), read_metrics(tmp_path / run), strict=True):
            for key in ("loss", "loss/lm", "loss/q_halt", "gradient_norm", "weight/equil_z", "norm/lm"):
                if key in mine:
                    assert theirs[key] == pytest.approx(mine[key], abs=1e-5, rel=1e-5), (run, mine["step"], key)
            for key in ("step", "finished", "exact", "mean_steps", "puzzle_steps", "monitor/exact", "monitor/puzzles"):
                assert theirs.get(key) == mine.get(key), (run, mine["step"], key)
    hold_equal(tmp_path / "two", tmp_path / "parts")
    whole, alone = everything(tmp_path / "two"), everything(tmp_path / "one")
    for name in (n for n in alone if n.startswith(("weights", "ema", "state.safetensors//carry"))):
        torch.testing.assert_close(whole[name], alone[name], atol=2e-4, rtol=1e-3, msg=name)


def reading(run, name):
    results = json.loads((run / "evaluation" / name / "results.json").read_text())
    return {key: value for key, value in results.items() if "second" not in key}


def test_a_batch_that_does_not_divide_is_refused(tiny, tmp_path):
    data = load_training_set(tiny, torch.device("cpu"))
    with pytest.raises(ConfigError, match=r"type training\.batch_size=9"):
        build_trainer(tiny, tmp_path / "run", data, World(0, 3))


def test_each_process_has_its_gpu(monkeypatch):
    assert device_of_process("cuda:1") == "cuda:1"
    for name, value in {"WORLD_SIZE": "2", "LOCAL_RANK": "1", "TORCHELASTIC_RUN_ID": "test"}.items():
        monkeypatch.setenv(name, value)
    assert device_of_process("cuda") == "cuda:1"
    assert device_of_process("cpu") == "cpu"
    with pytest.raises(ConfigError, match="type device=cuda"):
        device_of_process("cuda:0")


def test_a_restarted_process_goes_on_with_the_run(monkeypatch, tmp_path):
    (tmp_path / "config.json").touch()
    assert not restarted_by_torchrun(str(tmp_path))
    monkeypatch.setenv("TORCHELASTIC_MAX_RESTARTS", "3")
    assert restarted_by_torchrun(str(tmp_path))
    assert not restarted_by_torchrun(str(tmp_path / "new"))
    with pytest.raises(ConfigError, match=r"--max-restarts=3 of torchrun.*type run=DIR"):
        restarted_by_torchrun(None)
    monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", "True")
    with pytest.raises(ConfigError, match="type TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 before torchrun"):
        restarted_by_torchrun(str(tmp_path))


def test_sparse_gradients_are_made_equally_long(monkeypatch):
    """Sums of sparse gradients merge rows or do not, as the puzzles fall; what is added changes no row."""
    monkeypatch.setattr(world.Processes, "collect", lambda self, lengths: [*lengths, 5])
    rows, values = world.Processes(0, 2)._alike_long(torch.tensor([[7], [2], [7]]), torch.ones(3, 4))
    assert rows.tolist() == [[7], [2], [7], [7], [7]]
    assert values.sum(1).tolist() == [4, 4, 4, 0, 0]


def test_a_carry_with_relations_is_gathered(tmp_path):
    """int16, which gloo does not send, within nested tuples."""
    tables = (torch.tensor([[[5, -1]]], dtype=torch.int16), torch.ones(1, 0, 3, dtype=torch.int16))
    dist.init_process_group("gloo", store=dist.FileStore(str(tmp_path / "store"), 1), rank=0, world_size=1)
    try:
        halted, back = world.Processes(0, 1).gather_rows((torch.ones(1, dtype=torch.bool), tables))
    finally:
        dist.destroy_process_group()
    assert halted.tolist() == [True]
    for mine, theirs in zip(tables, back, strict=True):
        torch.testing.assert_close(theirs, mine)


@pytest.mark.slow
def test_a_partner_that_stops_is_not_waited_for_for_ever(sudoku_4x4, tmp_path, monkeypatch, capsys):
    words = training(sudoku_4x4, tmp_path / "run", TINY | pairs("training.steps=100 training.checkpoint_every=1"))
    plan = {"port": free_port(), "words": words, "stops": 3}
    (tmp_path / "plan.json").write_text(json.dumps([plan]))
    with subprocess.Popen([sys.executable, str(PEER), str(tmp_path / "plan.json")]) as peer:
        try:
            monkeypatch.setattr(world, "PATIENCE", timedelta(seconds=10))
            assert in_world(0, plan["port"], words) == 1
        finally:
            peer.send_signal(signal.SIGCONT)
            peer.kill()
    (error,) = (line for line in capsys.readouterr().err.splitlines() if line.startswith("error: "))
    assert error == (
        "error: another process has not answered in time: it is stopped, stuck or gone; the newest "
        "checkpoint is safe, continue with --resume"
    )
    assert (tmp_path / "run/checkpoints/step-000002/manifest.json").exists()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_torchrun_interrupted_saves_and_names_the_line_that_resumes(number, monitored_4x4, tmp_path):
    """Under torchrun itself, which passes the signal on (and at Ctrl-C repeats it): all stop at one step."""
    root, run = Path(__file__).parents[3], tmp_path / "run"
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    _, *words = training(monitored_4x4, run, DETERMINISTIC | {"training.steps": "100000"})
    command = [*launch, str(root / "train.py"), *words]
    # a terminal sends Ctrl-C to torchrun and its processes alike
    send = os.killpg if number == signal.SIGINT else os.kill
    _, out, err = signalled(command, run, lambda process: send(process.pid, number))
    assert f"python train.py run={run} --resume" in out, err
    assert len(checkpoints(run)) >= 1
    assert next(readable(run)) == checkpoints(run)[-1]
