"""Without an extension's folder the core trains, evaluates, solves and helps; what is asked of it gets one line."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import NARROW

from datasets_gen import plugins as of_sets
from reason import plugins

ROOT = Path(__file__).parents[2]
LACKING = {  # of each extension: words that need it, the exit status, a part of the line that they get
    "ablation": (["ablate", "sudoku-4x4", "model.h_cycles=2,1"], 2, "unknown command ablate"),
    "addition": (["generate", "addition", "--output-dir", "set"], 2, "unknown command addition"),
    "arc": (["generate", "import", "arc", "tasks.json", "--output-dir", "set"], 2, "unknown format arc"),
    "decimation": (["evaluate", "run", "studies=decimation=2"], 1, "unknown study decimation=2"),
    "declared": (["generate", "killer", "--output-dir", "set"], 2, "unknown command killer"),
    "demo": (["demo"], 2, "unknown command demo"),
    "export": (["export", "run", "out"], 2, "unknown command export"),
    "extreme": (["generate", "sudoku", "--mix", "extreme", "--output-dir", "set"], 1, "no extension has this mix"),
    "figures": (["figures", "run"], 2, "unknown command figures"),
    "gif": (["solve", "sudoku-6x6", "1", "--gif", "a.gif"], 1, "the extension gif is needed"),
    "graph": (["train", "sudoku-4x4", "data=whole", "training.compile=graph"], 1, "the extension graph is needed"),
    "group_attention": (["train", "sudoku-4x4", "model.mixer=group-attention"], 1, "got group-attention"),
    "kernels": (["train", "sudoku-4x4", "data=whole", "model.fused=true"], 1, "fused=true: kernels are an extension"),
    "looped": (["train", "stars-small"], 1, "unknown preset stars-small"),
    "memory": (["memory", "sudoku-4x4"], 2, "unknown command memory"),
    "ode": (["train", "sudoku-4x4", "data=whole", "model.integrator=rk4"], 1, "unknown setting model.integrator"),
    "original": (["import-weights", "weights.pt"], 2, "unknown command import-weights"),
    "pack": (["pack", "run"], 2, "unknown command pack"),
    "plain": (["train", "sudoku-4x4", "model.kind=Mine"], 1, "model: a model is recursive"),
    "play": (["play"], 2, "unknown command play"),
    "studies": (["evaluate", "run", "evaluation.studies=policies"], 1, "unknown study policies"),
    "shards": (["generate", "merge", "set"], 2, "unknown command merge"),
    "show": (["generate", "show", "set"], 2, "unknown command show"),
    "text": (["generate", "text", "a.txt", "--output-dir", "set"], 2, "unknown command text"),
    "torchrun": (["WORLD_SIZE=2", "train", "sudoku-4x4"], 1, "the extension torchrun is needed"),
    "trackers": (["train", "sudoku-4x4", "data=whole", "training.tracker=wandb"], 1, "wandb: no tracker is installed"),
}
DECLARED = [  # what else needs declared puzzles: a preset, a set of them, a mixer
    (["train", "sudoku-4x4", "model.mixer=linear"], 1, "; got linear"),
    (["train", "killer"], 1, "unknown preset killer"),
    (["generate", "verify", "killer"], 0, "warning: only the layout was checked: no puzzle family for task"),
]


def package_without(folder, *names):
    """The package below `folder`, its files linked, without some extensions."""
    for package in ("reason", "datasets_gen"):
        for file in (ROOT / package).rglob("*"):
            inside = file.relative_to(ROOT)
            left_out = "__pycache__" in inside.parts or inside.parts[1:3] in {("extensions", name) for name in names}
            if file.is_file() and not left_out:
                (folder / inside).parent.mkdir(parents=True, exist_ok=True)
                (folder / inside).symlink_to(file)
    for file in (folder / "reason/extensions/kernels/cpp").glob("*"):  # the kernels compile beside their sources
        source = file.resolve()
        file.unlink()
        shutil.copy(source, file)
    return folder


RUNNER = """
import contextlib, io, json, os, sys
from reason.cli import main
done = []
for words in json.load(sys.stdin):
    processes, text = words[0] == "WORLD_SIZE=2", io.StringIO()
    os.environ |= {"WORLD_SIZE": "2"} if processes else {}
    with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
        status = main(words[processes:])
    os.environ.pop("WORLD_SIZE", None)
    done.append([status, text.getvalue()])
json.dump(done, sys.stdout)
"""


def check(package, folder, sudoku_4x4, *names):
    """All commands in one process, which imports torch once."""
    shutil.copytree(sudoku_4x4, folder / "whole")
    killer = shutil.copytree(sudoku_4x4, folder / "killer")
    for file in killer.glob("*/dataset.json"):
        file.write_text(json.dumps(json.loads(file.read_text()) | {"task": {"name": "killer"}}))
    works = {
        "train a reasoner": ["--help"],
        "saved": ["train", "sudoku-4x4", f"data={sudoku_4x4}", "run=run", *NARROW, "--max-steps", "2"],
        "exact": ["evaluate", "run", "steps=2"],
        "solved": ["solve", "sudoku-6x6", ".....3 ...4.. 1..... 4..3.. .5.... .3..56"],
    }
    asked = [*(LACKING[name] for name in names), *(DECLARED if "declared" in names else [])]
    words = [*works.values(), *(words for words, _, _ in asked)]
    # compiled code is kept beside its source, and this source is new each time
    environment = os.environ | {"PYTHONPATH": str(package), "NUMBA_DISABLE_JIT": "1"}
    how = {"cwd": folder, "env": environment, "input": json.dumps(words), "text": True}
    done = json.loads(subprocess.check_output([sys.executable, "-P", "-c", RUNNER], **how))
    for (status, text), said in zip(done, works, strict=False):
        assert status == 0, text
        assert said in text
    for (status, text), (words, expected, part) in zip(done[len(works) :], asked, strict=True):
        assert status == expected, (words, text)
        (line,) = [line for line in text.splitlines() if "this installation has the extensions" in line]
        assert part in line
        assert status == 0 or line == text.splitlines()[-1]  # what works without it says more after it


def test_the_core_does_without_any_extension(tmp_path, sudoku_4x4):
    names = {*plugins.extensions(), *of_sets.extensions()}
    assert LACKING.keys() == names
    check(package_without(tmp_path / "package", *names), tmp_path / "work", sudoku_4x4, *names)


@pytest.mark.slow
@pytest.mark.parametrize("name", LACKING)
def test_the_core_does_without_this_extension(name, tmp_path, sudoku_4x4):
    check(package_without(tmp_path / "package", name), tmp_path / "work", sudoku_4x4, name)
