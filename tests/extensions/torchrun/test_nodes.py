"""`torchrun --nnodes 2` over two network namespaces: one process's curve, and what a lost process leads to."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import TINY, pairs
from peer import training
from test_loop import hold_equal

from reason.cli import main
from reason.training.log import read_metrics

ROOT = Path(__file__).parents[3]
NAMESPACES = [f"reason-{os.getpid()}-{node}" for node in "ab"]
ABLE = hasattr(os, "geteuid") and os.geteuid() == 0 and shutil.which("ip") and shutil.which("unshare")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not ABLE, reason="network namespaces need root, ip and unshare")]

# No draw but the puzzles'; a single cycle, because each further cycle amplifies the rounding of sums over rows.
SHALLOW = TINY | pairs(
    "rollout.halt_exploration_prob=0 model.h_cycles=1 model.l_cycles=1 training.log_every=1 training.checkpoint_every=2"
)


def ip(words):
    return subprocess.run(["ip", *words.split()], check=True, capture_output=True, text=True).stdout


@pytest.fixture
def nodes():
    """Two network namespaces, 10.213.0.1 and .2, joined by a cable."""
    wires = [f"v{os.getpid()}{node}" for node in "ab"]
    try:
        for name in NAMESPACES:
            ip(f"netns add {name}")
        ip(f"link add {wires[0]} netns {NAMESPACES[0]} type veth peer name {wires[1]} netns {NAMESPACES[1]}")
        for number, (name, wire) in enumerate(zip(NAMESPACES, wires, strict=True), 1):
            ip(f"-n {name} link set lo up")
            ip(f"-n {name} addr add 10.213.0.{number}/24 dev {wire}")
            ip(f"-n {name} link set {wire} up")
        yield
    finally:
        for name in ip("netns list").split():
            if name in NAMESPACES:
                for pid in ip(f"netns pids {name}").split():
                    os.kill(int(pid), signal.SIGKILL)
                ip(f"netns delete {name}")


def launch(node, words, met, restarts):
    name, interface = f"node-{'ab'[node]}", f"v{os.getpid()}{'ab'[node]}"
    command = ["ip", "netns", "exec", NAMESPACES[node], "unshare", "--uts", "sh", "-c"]
    command += [f'echo {name} > /proc/sys/kernel/hostname; exec "$@"', "sh", sys.executable]
    command += f"-m torch.distributed.run --nnodes 2 --nproc-per-node 1 --max-restarts {restarts}".split()
    command += ["--rdzv-backend", "c10d", "--rdzv-endpoint", "10.213.0.1:29500", "--rdzv-id", "test"]
    # the host of the store by word, since the nodes' names are in no directory
    command += ["--rdzv-conf", f"is_host={1 - node}", "--local-addr", f"10.213.0.{node + 1}"]
    command += [str(ROOT / "tests/extensions/torchrun/peer.py"), *met.split(), *words]
    environment = os.environ | {"GLOO_SOCKET_IFNAME": interface, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"}
    environment["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen(command, env=environment, **pipes)


def trained(words, met="0 0", restarts=0):
    both = [launch(node, words, met, restarts) for node in (0, 1)]
    said = [process.communicate(timeout=240)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], "\n".join(said)
    return said


def test_two_nodes_are_one_process_and_a_killed_one_is_replaced(nodes, monitored_4x4, tmp_path):
    """The loss curve within 1e-6; with rank 1 killed in step 4 and --max-restarts 1, the same bits."""
    one, two, killed = (training(monitored_4x4, tmp_path / run, SHALLOW) for run in ("one", "two", "killed"))
    assert main(one) == 0
    trained(two)
    said = trained(killed, f"{int(signal.SIGKILL)} 3", restarts=1)
    assert "continues at step 2" in said[0]
    one, two = ([line["loss"] for line in read_metrics(tmp_path / run) if "loss" in line] for run in ("one", "two"))
    assert len(one) == 6
    assert max(one) - min(one) > 1e-2
    assert two == pytest.approx(one, abs=1e-6, rel=0)
    hold_equal(tmp_path / "two", tmp_path / "killed")
