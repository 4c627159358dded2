"""Imported by the fork server, so that its forks find numba and the compiled solver loaded."""

import contextlib
import io
import tempfile
import threading
from pathlib import Path

from tqdm import tqdm

from datasets_gen.layout import read_split
from datasets_gen.puzzles import family_of
from reason.cli import main

tqdm.set_lock(threading.RLock())  # its own is shared by all forks, and who is killed holding it stops the others
tqdm.monitor_interval = 0  # no thread, which a fork would lose
with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
    there = Path(folder, "set")
    main(f"generate sudoku --size 4 --train 2 --test 0 --output-dir {there}".split())
    metadata, split = read_split(there, "train")
    family_of(metadata.task, metadata.seq_len, metadata.vocab_size).features(split.inputs, split.labels)
