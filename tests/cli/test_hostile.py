"""Words, files and folders that are not what they should be: one line on stderr, status 1, nothing touched."""

import contextlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from conftest import NARROW, make_set, one_line
from safetensors.torch import load_file, save_file
from survivors import STEP, content, entry, flip, gone, snapshot

from reason import Dataset
from reason.cli import guarded, main
from reason.training.checkpoint import seal

ROOT = Path(__file__).parents[2]
RESUME, EVALUATE, PACK = "train run=half --resume", "evaluate half steps=1", "pack half"
SOLVE = ["solve", "half", "1..............."]
CTRL_C = SystemError("returned a result with an exception set")  # as numba, and imports, pass it on
CTRL_C.__context__ = KeyboardInterrupt()
ALL = (RESUME, EVALUATE, SOLVE, PACK)


def begin(*words):
    return ["train", "sudoku-4x4", "data=set", *NARROW, *words]


WORDS = [
    *((begin(word), word) for word in ("name=../../x", "evaluation.split=../s/test")),
    *((f"{EVALUATE} {word}", word) for word in ("name=../../x", "name=", "name=.")),
    (begin("optimizer.lr=nan"), "optimizer.lr"),
    (begin("training.steps=1" + "0" * 5000), "training.steps"),
    (begin("seed=99999999999999999999"), "seed"),
    (begin("init_from=\x1b[31m"), r"init_from=\x1b[31m holds control characters"),
    (begin("data.marks=true"), "holds no mazes; type data.marks=false"),
    ("train sudoku-4x4 data=set,", "data=set, names an empty folder; type data=DIR"),
    ("train sudoku-4x4 data=half", "half has no split 'train'; splits with a dataset.json: none"),
    ("train run=half data=other --resume", "other is not the set that half was started with"),
    ("evaluate half evaluation.split=validation", "has no split 'validation'; splits with a dataset.json: train, test"),
    ([*SOLVE, "--gif", "x.foo"], "name a .gif file"),
    ([*SOLVE, "--gif", "folder.gif"], "name a .gif file"),
    ([*SOLVE, "studies=policies"], "studies=policies: for evaluations"),
    ("pack half mine.zip", "an archive ends in .tar.gz"),
]


@pytest.fixture(scope="session")
def world(stopped, sudoku_4x4, tmp_path_factory):
    """A run with an evaluation, its archive, and two sets."""
    world = tmp_path_factory.mktemp("world")
    run = shutil.copytree(stopped, world / "half")
    shutil.copytree(sudoku_4x4, world / "set")
    (world / "folder.gif").mkdir()
    make_set("sudoku --size 4 --train 24 --test 12 --seed 2", world / "other")
    assert main(["evaluate", str(run), "steps=1", "name=e"]) == 0
    assert main(["pack", str(run)]) == 0
    return world


@pytest.mark.parametrize(("words", "said"), WORDS, ids=[str(said)[:40] for _, said in WORDS])
def test_wrong_words_are_refused(words, said, world, here):
    shutil.copytree(world, here, dirs_exist_ok=True)
    before = snapshot(here)
    one_line(words, said)
    assert snapshot(here) == before


def not_finite(run):
    for file in (run / STEP).glob("[we]*.safetensors"):  # weights and their averages
        broken = load_file(file)
        broken["head.weight"][0, 0] = float("nan")
        save_file(broken, file)
    seal(run / STEP)


LINE = {"points": [[0, 1]]}
CONFIG, STATE = "config.json", f"{STEP}/state.json"
RUNS = {  # what is done to a run, who reads it, what is said
    "nested too deep": (content(CONFIG, '{"config":' * 5000), ALL, "half/config.json"),
    "no config": (gone(CONFIG), ALL, "no run at half"),
    "a cell too many": (entry(CONFIG, "shape.seq_len", 17), (EVALUATE,), "grid 4x4 does not have 17 cells"),
    "imports a number": (entry(CONFIG, "imports", 3), (EVALUATE, RESUME), "is not a run's config"),
    "controls": (entry(CONFIG, "config.init_from", "\x1b]0;t\x07"), (EVALUATE,), r"\x1b]0;t\x07 holds control char"),
    "an unknown key": (entry(CONFIG, "config.optimizer.a", 1.27), (RESUME,), "unknown setting optimizer.a"),
    "another rate": (entry(CONFIG, "config.optimizer.lr", 0.5), (RESUME,), "config.json has 0.5: put 0.001 back"),
    "a schedule": (entry(CONFIG, "config.loss.schedules", {"lm": LINE}), (EVALUATE, RESUME), "loss.schedules={}"),
    "another model": (entry(CONFIG, "config.model.l_cycles", 9), (EVALUATE, SOLVE), "was made with model.l_cycles="),
    "a missing study": (entry(CONFIG, "config.evaluation.gone", True), (EVALUATE,), "unknown setting evaluation.gone"),
    "another version": (entry(STATE, "scaling.scaler"), (RESUME,), "lacks 'scaler', so another version wrote it"),
    "NaN": (not_finite, (EVALUATE, SOLVE), "weight head.weight holds a number that is infinite or NaN"),
    "torn": (lambda run: [file.write_bytes(b"torn") for file in run.glob("checkpoints/*/*.safetensors")], ALL, "half"),
    "no checkpoints": (lambda run: shutil.rmtree(run / "checkpoints"), (EVALUATE, SOLVE), "put half/checkpoints back"),
}


def nothing_scored(folder):
    shutil.rmtree(folder)
    Dataset.from_arrays(str(folder), train=(np.ones((8, 16), int), np.full((8, 16), -100)))


def generated(words):
    return lambda folder: (shutil.rmtree(folder), make_set(f"{words} --train 4 --test 4", folder))


BEGIN, READ = (begin("run=r"),), ("evaluate half data=set",)
SETS = {
    "a missing file": (gone("train/all__labels.npy"), BEGIN, "all__labels.npy is missing"),
    "nothing to learn": (nothing_scored, BEGIN, "no label of the train split is scored"),
    "causal labels": (generated("addition --digits 2"), BEGIN, "data=DIR of a set made with --blank-answer"),
    "another shape": (generated("sudoku --size 6"), READ, "set has 36 cells"),
    "another family": (generated("maze --size 4 --min-path 3"), READ, "set holds puzzles of name"),
}


@pytest.mark.parametrize("case", RUNS | SETS)
@pytest.mark.filterwarnings("ignore:.*is torn")
def test_a_run_or_a_set_that_cannot_be_used_is_refused(case, half, sudoku_4x4, here):
    shutil.copytree(sudoku_4x4, here / "set")
    damage, commands, said = (RUNS | SETS)[case]
    damage(here / "half" if case in RUNS else here / "set")
    before = snapshot(here)
    for words in commands:
        one_line(words, said)
    assert snapshot(here) == before


DAMAGES = {
    "missing": Path.unlink,
    "cut": lambda file: file.write_bytes(file.read_bytes()[: file.stat().st_size // 2]),
    "a flipped bit": lambda file: flip(file, 4 * file.stat().st_size),
    "other text": lambda file: file.write_bytes(b'{"a": [NaN, 1e999, null]}\xff'),
}
READERS = [
    ("half/config.json", EVALUATE), ("half/metrics.jsonl", RESUME), ("half/evaluation/e/results.json", "compare half"),
    (f"half/{STEP}/manifest.json", EVALUATE), (f"half/{STATE}", RESUME), (f"half/{STEP}/state.safetensors", RESUME),
    ("half.tar.gz", "train run=half.tar.gz --resume"), ("set/train/dataset.json", "generate verify set"),
    ("set/train/all__inputs.npy", begin("run=r")),
]  # fmt: skip


@pytest.mark.parametrize(("file", "words"), READERS, ids=[file for file, _ in READERS])
@pytest.mark.filterwarnings("ignore")
def test_any_damage_is_worked_around_or_refused(file, words, world, here, capsys):
    """One error at most, no traceback, and what is refused changes no file."""
    for name, damage in DAMAGES.items():
        folder = shutil.copytree(world, here / name)
        damage(folder / file)
        before = snapshot(folder)
        with contextlib.chdir(folder):
            status = main(words.split() if isinstance(words, str) else words)
        lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
        assert len(lines) == status <= 1, name
        assert not any("fault of the program" in line for line in lines), name
        assert not status or snapshot(folder) == before, name


@pytest.mark.parametrize("size", ["two", "2"])
def test_a_world_that_torchrun_did_not_make(size, half, monkeypatch):
    for name, value in {"WORLD_SIZE": size, "RANK": "2", "LOCAL_RANK": "0", "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)
    for words in (RESUME, EVALUATE):
        one_line(words, f"WORLD_SIZE={size} in the environment, and ", "with torchrun")


def test_an_error_that_nobody_foresaw_is_one_line_and_a_file(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def fails(_):
        raise ZeroDivisionError("by \x1b[31mzero\nand more")

    assert guarded(fails, []) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(r"error: ZeroDivisionError: by \x1b[31mzero; this is a fault of the program")
    (file,) = tmp_path.iterdir()
    assert str(file) in line
    assert "in fails" in file.read_text()


@pytest.mark.parametrize(("error", "status", "said"), [
    (MemoryError(), 1, "out of memory"),
    (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"), 1, "out of memory"),
    (RuntimeError("CUDA out of memory. Tried to allocate 2 GB"), 1, "out of memory"),
    (FileNotFoundError(2, "No such file", "x\ny"), 1, r"No such file (x\ny)"),
    (CTRL_C, 130, "interrupted"),
])  # fmt: skip
def test_errors_of_the_machine_are_one_line(error, status, said, capsys):
    assert guarded(Mock(side_effect=error), []) == status
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line


@pytest.mark.parametrize(("command", "status", "said"), [
    ("set -o pipefail; {} presets | head -1", 0, ""),  # output that nobody reads
    ("{} presets > /dev/full", 1, "error: No space left on device\n"),
])  # fmt: skip
@pytest.mark.skipif(os.name == "nt", reason="a shell, and a folder that is removed while it is in use")
def test_the_shell_around_it(command, status, said, tmp_path):
    ended = {"capture_output": True, "text": True, "cwd": tmp_path, "env": {**os.environ, "PYTHONPATH": str(ROOT)}}
    done = subprocess.run(["bash", "-c", command.format(f"{sys.executable} -m reason")], **ended)
    assert (done.returncode, done.stderr) == (status, said)
