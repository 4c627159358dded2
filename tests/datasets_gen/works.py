"""Tasks of worker processes, which import this file: it imports neither torch nor numba, which take seconds."""

import multiprocessing
import os

computed: list[int] = []  # by this process


def square(number: int) -> int:
    computed.append(number)
    return number**2


def answer(task: int) -> bytes:
    """More than a pipe holds; in a worker, task 5 fails and task 7 ends the process."""
    if multiprocessing.parent_process() is not None:
        if task == 5:
            raise ValueError("task 5")
        if task == 7:
            os._exit(1)
    return bytes(200_000 + task)
