"""Work on several processes: interrupted, killed, failing, or begun by a script without a guard."""

import itertools
import multiprocessing
import os
import signal
import subprocess
import sys
import threading

import pytest

from datasets_gen import parallel
from datasets_gen.layout import DatasetError
from datasets_gen.terminal import held_back

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


STUCK = """
import sys

try:
    print("importing", flush=True)
    sys.stdin.read()
except BaseException:  # as some extension modules
    pass
"""


def interrupted(words, tmp_path, lines, **environment):
    """What a command has written and its exit code, after Ctrl-C in its terminal once it has printed some lines."""
    process = subprocess.Popen(
        [sys.executable, *words],
        cwd=tmp_path,
        env=os.environ | environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # a shell's background jobs ignore SIGINT, and their children inherit that
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    printed = [process.stdout.readline().strip() for _ in range(lines)]
    os.killpg(process.pid, signal.SIGINT)
    _, error = process.communicate(timeout=120)
    return printed, error, process.returncode


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_interrupted_work_ends_its_workers_and_leaves_nothing(tmp_path):
    (tmp_path / "busy.py").write_text(BUSY)
    workers, error, code = interrupted(["busy.py"], tmp_path, 2, PYTHONPATH=os.getcwd())
    assert error == "interrupted: nothing was written\n"
    assert code == 130
    assert [path.name for path in tmp_path.iterdir()] == ["busy.py"]
    for worker in workers:
        with pytest.raises(ProcessLookupError):
            os.kill(int(worker), 0)


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_interrupted_imports_end_in_one_line(tmp_path):
    (tmp_path / "tqdm.py").write_text(STUCK)
    path = os.pathsep.join([str(tmp_path), os.getcwd()])
    words = ["-m", "datasets_gen", "addition", "--output-dir", "set"]
    said = interrupted(words, tmp_path, 1, PYTHONPATH=path)
    assert said == (["importing"], "interrupted: nothing was written\n", 130)
    assert not (tmp_path / "set").exists()


@pytest.fixture
def listening():
    """Ctrl-C interrupts, also where a shell has started the tests in the background and had it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_ctrl_c_can_be_held_back(listening):
    done = []

    def interrupted_twice():
        with held_back():
            for _ in range(2):
                signal.pthread_kill(threading.get_ident(), signal.SIGINT)  # another thread might take it, and later
                done.append(1)

    with pytest.raises(KeyboardInterrupt):
        interrupted_twice()
    assert len(done) == 2
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


def dies(task):
    if multiprocessing.parent_process() is not None:
        os._exit(1)
    return task


def test_a_worker_that_is_killed_is_one_line(monkeypatch):
    monkeypatch.setattr(parallel, "ALONE_SECONDS", 0.0)
    with pytest.raises(DatasetError, match="a worker process was killed"):
        list(parallel.ordered_map(dies, range(9), 2))


def large(task):
    return bytes(50_000_000 if task else 0)  # more than a pipe holds


def test_closing_ends_workers_in_the_midst_of_an_answer(monkeypatch):
    monkeypatch.setattr(parallel, "ALONE_SECONDS", 0.0)
    results = parallel.ordered_map(large, itertools.count(), 2)
    assert [len(next(results)) for _ in range(2)] == [0, 50_000_000]
    results.close()
    assert not multiprocessing.active_children()


def fails(task):
    if task == 3:
        raise ValueError("task 3")
    return task


def test_what_a_task_raises_comes_with_its_traceback(monkeypatch):
    monkeypatch.setattr(parallel, "ALONE_SECONDS", 0.0)
    results = parallel.ordered_map(fails, range(9), 2)
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ValueError, match="task 3") as caught:
        next(results)
    assert "in fails" in caught.value.__notes__[0]


class Wanting(Exception):
    def __init__(self, place, reason):
        super().__init__(f"{place}: {reason}")


def fails_beyond_pickle(task):
    if task == 3:
        raise Wanting("task 3", "wanting")
    return task


def test_an_error_that_pickle_cannot_carry_keeps_its_text(monkeypatch):
    monkeypatch.setattr(parallel, "ALONE_SECONDS", 0.0)
    results = parallel.ordered_map(fails_beyond_pickle, range(9), 2)
    with pytest.raises(RuntimeError, match="Wanting: task 3: wanting") as caught:
        list(results)
    assert "in fails_beyond_pickle" in caught.value.__notes__[0]


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
