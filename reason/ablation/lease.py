"""Who works on a run: a lease, which the process renews, and which others take where nobody has renewed it for long.

filelock's SoftFileLease, a file that is created exclusively. No machine's clock is compared with another's.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from filelock import LeaseCompromise, SoftFileLease, Timeout

from reason.files import naming

# Seconds without a renewal after which a lease is free. Renewals are 40 s apart, and NFS may show a file's time 60 s
# late (acregmax).
LEASE = 120.0
TAKEN = 75  # exit status of a process that has no lease of its run: EX_TEMPFAIL of sysexits.h


def lease_of(run: Path) -> SoftFileLease:
    """The lease of a run; where it is lost to another process, this one ends at once."""
    return _lease(run.with_name(f".{run.name}.lease"))


def acquired(lease: SoftFileLease) -> bool:
    """Take a lease if no other process holds it; whether it is held now."""
    try:
        with naming(Path(lease.lock_file)):
            lease.acquire()
    except Timeout:
        _remove_unsigned(Path(lease.lock_file))
        return False
    return True


def is_free(lease: SoftFileLease) -> bool:
    """Whether no other process holds a lease."""
    free = acquired(lease)
    if free:
        lease.release()
    return free


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Read or write what a folder says of all its runs, while no other process does."""
    lease, told = _lease(folder / ".lease"), False
    while not acquired(lease):
        if not told:
            print(f"another reason ablate reads or writes {folder}; waiting for it", flush=True)
            told = True
        time.sleep(0.1)
    try:
        yield
    finally:
        lease.release()


def _remove_unsigned(file: Path) -> None:
    """Remove the lease of a process that died before it had written who it is; filelock would wait for it for ever."""
    with contextlib.suppress(FileNotFoundError):
        there = file.stat()
        if there.st_size == 0:
            with tempfile.TemporaryFile(dir=file.parent) as now:  # both times are of the file server's clock
                if os.fstat(now.fileno()).st_mtime - there.st_mtime > LEASE:
                    file.unlink()


def _lease(file: Path) -> SoftFileLease:
    return SoftFileLease(file, lease_duration=LEASE, timeout=0, on_compromise=_end_process)


def _end_process(lost: LeaseCompromise) -> None:
    """End without saving: what the lease was for may be another process's now."""
    print(f"error: the lease {lost.lock_file} is lost ({lost.reason}): another process may work there", file=sys.stderr)
    sys.stderr.flush()
    os._exit(TAKEN)
