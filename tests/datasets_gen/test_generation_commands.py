"""The command line of data sets: bytes, exit codes, nothing half-written, on several processes, with its progress."""

import itertools
import multiprocessing
import os
import re
import signal
import subprocess
import sys
from unittest.mock import Mock

import numpy as np
import pytest
from survivors import snapshot
from works import answer

from datasets_gen import parallel, progress
from datasets_gen.__main__ import main
from datasets_gen.layout import DatasetError, read_metadata, read_split
from datasets_gen.maze.paths import solve
from datasets_gen.progress import Progress


def make(directory, *more, size=4, train=40, test=20, seed=0):
    words = f"sudoku --size {size} --train {train} --test {test} --seed {seed} --output-dir {directory}".split()
    return main([*words, *more])


def test_a_set_is_made_verified_and_shown(tmp_path, capsys):
    assert make(tmp_path / "set", "--validation", "10") == 0
    metadata, split = read_split(tmp_path / "set", "validation")
    assert split.inputs.shape == (10, 16)
    assert split.inputs.dtype == np.uint8
    assert metadata.task == {"name": "sudoku", "size": 4}
    assert main(["verify", str(tmp_path / "set")]) == 0
    assert "no puzzle is in two splits" in capsys.readouterr().out
    assert main(["show", str(tmp_path / "set"), "--split", "test", "--index", "3"]) == 0
    shown = capsys.readouterr().out
    assert all(words in shown for words in ("test 3", "clues", "made by: python -m datasets_gen sudoku --train 40"))


def test_the_recorded_command_makes_the_same_bytes(made, tmp_path):
    made("maze --size 6 --min-path 8 --unique --wall-density 0.4 --train 30 --test 5", name="maze")
    for name in ("train", "test"):
        assert (solve(read_split(tmp_path / "maze", name)[1].inputs)[2] == 1).all()
    made("sudoku --size 6 --clues 12 --train 40 --test 20", name="sudoku")
    for name in ("maze", "sudoku"):
        words = read_metadata(tmp_path / name, "train").provenance["command"].split()
        assert words[:4] == ["python", "-m", "datasets_gen", name]
        assert main([*words[3:], "--output-dir", str(tmp_path / "again" / name)]) == 0
        assert snapshot(tmp_path / name) == snapshot(tmp_path / "again" / name)
    directory = made("maze --size 6 --min-path 4 --wall-density 0 --train 4 --test 0", name="open")
    assert (read_split(directory, "train")[1].inputs != 1).all()


def test_same_seed_same_bytes_other_seed_other_set(tmp_path, monkeypatch):
    make(tmp_path / "one", "--processes", "1", size=6)
    monkeypatch.setattr(parallel, "ALONE_SECONDS", 0.0)
    make(tmp_path / "two", "--processes", "2", size=6)
    make(tmp_path / "three", size=6, seed=1)
    assert snapshot(tmp_path / "one") == snapshot(tmp_path / "two")
    assert (read_split(tmp_path / "one", "train")[1].inputs != read_split(tmp_path / "three", "train")[1].inputs).any()


@pytest.mark.parametrize(("words", "code", "message"), [
    ("--train -1", 2, "--train: -1 is not a whole number from 0"),
    ("--train 0 --test 0", 1, "nothing to make"),
    *((f"--clues {clues}", 1, "choose 4 to 15") for clues in (3, 16)),
    ("--clues 8 --mix extreme", 2, "--mix: not allowed with argument --clues"),
    ("--mix extreme", 1, "--mix extreme is a mix of 9x9 puzzles; remove it, or --size 4"),
    ("--size 5", 2, "invalid choice"),
])  # fmt: skip
def test_bad_calls_say_what_is_wrong_and_write_nothing(tmp_path, capsys, words, code, message):
    assert main(["sudoku", "--size", "4", "--output-dir", str(tmp_path / "set"), *words.split()]) == code
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_nothing(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(np, "save", Mock(side_effect=OSError(28, "No space left on device")))
    assert make(tmp_path / "set") == 1
    assert "No space left on device" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


BUSY = """
import ctypes, multiprocessing, os, sys
from datasets_gen import parallel
from datasets_gen.__main__ import main
from datasets_gen.maze import generate

real = generate.maze_chunk

def busy(chunk):
    if multiprocessing.parent_process() is None:
        return real(chunk)
    os.write(1, b"%d\\n" % os.getpid())  # at once: print writes its newline apart where nothing is buffered
    ctypes.PyDLL(None).sleep(1_000_000)  # as compiled code: no thread of this process runs

if __name__ == "__main__":
    generate.maze_chunk = busy
    parallel.ALONE_SECONDS = 0
    words = "maze --size 6 --min-path 8 --train 1000000 --processes 2 --output-dir set"
    sys.exit(main(words.split()))
"""


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_interrupted_work_ends_its_workers_and_leaves_nothing(tmp_path):
    (tmp_path / "busy.py").write_text(BUSY)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "start_new_session": True}
    env = os.environ | {"PYTHONPATH": os.getcwd()}
    # A shell's background jobs ignore SIGINT, and their children inherit that.
    heeds = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)}
    process = subprocess.Popen([sys.executable, "busy.py"], cwd=tmp_path, env=env, **pipes, **heeds)
    workers = [int(process.stdout.readline()) for _ in range(2)]
    os.killpg(process.pid, signal.SIGINT)
    _, error = process.communicate(timeout=120)
    assert (error, process.returncode) == ("interrupted\n", 130)
    assert [path.name for path in tmp_path.iterdir()] == ["busy.py"]
    for worker in workers:
        with pytest.raises(ProcessLookupError):
            os.kill(worker, 0)


def test_results_come_in_order_and_a_fault_with_its_traceback(monkeypatch):
    monkeypatch.setattr(parallel, "ALONE_SECONDS", 0.0)
    results = parallel.ordered_map(answer, itertools.count(), 2)
    assert [len(next(results)) - 200_000 for _ in range(5)] == [0, 1, 2, 3, 4]
    with pytest.raises(ValueError, match="task 5") as caught:
        next(results)
    assert "in answer" in caught.value.__notes__[0]
    results = parallel.ordered_map(answer, itertools.count(8), 2)
    assert [len(next(results)) - 200_000 for _ in range(3)] == [8, 9, 10]
    results.close()  # in the midst of answers
    assert not multiprocessing.active_children()
    with pytest.raises(DatasetError, match="a worker process was killed"):
        list(parallel.ordered_map(answer, [6, 7, 8, 9], 2))


@pytest.mark.parametrize("own", [False, True], ids=["of the package", "of the script"])
def test_a_script_without_a_guard_may_work_on_several_processes(tmp_path, own):
    """Workers do not run the script again, unless what they apply is defined in it: then an error says what to do."""
    script = tmp_path / "script.py"
    function = "def function(size):\n    return size.bit_length()\n" if own else "function = int.bit_length\n"
    script.write_text(
        "import datasets_gen.parallel as parallel\n"
        "print('once')\n"
        "parallel.ALONE_SECONDS = 0.0\n"
        f"{function}"
        "print(list(parallel.ordered_map(function, range(6), processes=2)))\n"
    )
    ended = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    if own:
        assert 'start the work below `if __name__ == "__main__":`' in ended.stderr
    else:
        assert ended.stdout.split("\n")[:2] == ["once", "[0, 1, 2, 2, 3, 3]"], ended.stderr


def worked(**settings):
    with Progress(unit="step", desc="training", disable=False, **settings) as bar:
        for i in range(3):
            bar.update()
            bar.set_postfix_str(f"loss {i}")


def test_a_log_holds_whole_lines_and_a_terminal_has_a_bar(capsys, monkeypatch):
    worked(total=3)
    assert capsys.readouterr().err == ""  # short work
    monkeypatch.setattr(progress, "EVERY", 0.0)
    worked(total=3)
    log = capsys.readouterr().err
    assert "\r" not in log
    assert re.fullmatch(r"training:   0% 0/3 \[00:00<.*\n(.*\n)*training: 100% 3/3 \[00:00<00:00.*, loss 2\]\n", log)
    worked()
    assert capsys.readouterr().err.splitlines()[-1].startswith("training: 3step [00:00, ")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    worked(total=3)
    assert "100%|" in capsys.readouterr().err
