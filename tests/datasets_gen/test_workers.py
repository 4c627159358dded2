"""Work on several processes: interrupted, killed, failing, or begun by a script without a guard; its progress."""

import errno
import io
import itertools
import multiprocessing
import os
import signal
import subprocess
import sys

import pytest

from datasets_gen import parallel, progress
from datasets_gen.layout import DatasetError
from datasets_gen.progress import Progress

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
    """After Ctrl-C in its terminal, which all processes receive."""
    (tmp_path / "busy.py").write_text(BUSY)
    process = subprocess.Popen(
        [sys.executable, "busy.py"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.getcwd()},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # a shell's background jobs ignore SIGINT, and their children inherit that
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    workers = [int(process.stdout.readline()) for _ in range(2)]
    os.killpg(process.pid, signal.SIGINT)
    _, error = process.communicate(timeout=120)
    assert (error, process.returncode) == ("interrupted: nothing was written\n", 130)
    assert [path.name for path in tmp_path.iterdir()] == ["busy.py"]
    for worker in workers:
        with pytest.raises(ProcessLookupError):
            os.kill(worker, 0)


def works(task):
    """Larger answers than a pipe holds; in a worker, task 5 fails and task 7 ends the process."""
    if multiprocessing.parent_process() is not None:
        if task == 5:
            raise ValueError("task 5")
        if task == 7:
            os._exit(1)
    return bytes(200_000 + task)


def test_results_come_in_order_and_a_fault_with_its_traceback(monkeypatch):
    monkeypatch.setattr(parallel, "ALONE_SECONDS", 0.0)
    results = parallel.ordered_map(works, itertools.count(), 2)
    assert [len(next(results)) - 200_000 for _ in range(5)] == [0, 1, 2, 3, 4]
    with pytest.raises(ValueError, match="task 5") as caught:
        next(results)
    assert "in works" in caught.value.__notes__[0]
    results = parallel.ordered_map(works, itertools.count(8), 2)
    assert [len(next(results)) - 200_000 for _ in range(3)] == [8, 9, 10]
    results.close()  # in the midst of answers
    assert not multiprocessing.active_children()
    with pytest.raises(DatasetError, match="a worker process was killed"):
        list(parallel.ordered_map(works, [6, 7, 8, 9], 2))


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
        assert 'put what starts the work below `if __name__ == "__main__":`' in ended.stderr
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
    first, *_, last = log.splitlines()
    assert "\r" not in log
    assert first.startswith("training:   0% 0/3 [00:00<")
    assert last.startswith("training: 100% 3/3 [00:00<00:00")
    assert last.endswith(", loss 2]")
    worked()
    assert capsys.readouterr().err.splitlines()[-1].startswith("training: 3step [00:00, ")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    worked(total=3)
    assert "100%|" in capsys.readouterr().err


def test_a_line_waits_for_its_time(capsys, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    bar, lines = Progress(total=10, desc="training", disable=False), []
    for second in (1.0, 29.0, 31.0, 40.0, 60.0, 62.0):
        now[0] = second
        bar.refresh()
        lines.append(len(capsys.readouterr().err.splitlines()))
    assert lines == [0, 0, 1, 0, 0, 1]


def test_work_goes_on_when_the_reader_of_its_log_has_gone(monkeypatch):
    class Broken(io.StringIO):
        def write(self, text):
            raise OSError(errno.EPIPE, "Broken pipe")

    monkeypatch.setattr(progress, "EVERY", 0.0)
    monkeypatch.setattr(sys, "stderr", Broken())
    worked(total=3)
