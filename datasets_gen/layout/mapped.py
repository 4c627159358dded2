"""Arrays of large splits stay on disk: they are mapped, and read part by part."""

from __future__ import annotations

import mmap
from collections.abc import Iterator

import numpy as np

LARGE = 2**30  # bytes of a split's files, above which its arrays stay on disk
ROWS = 2**13  # examples that are looked at together


def release(*arrays: np.ndarray | None) -> None:
    """Drop the pages of mapped arrays from this process's memory; the next reader takes them from the page cache.

    The kernel maps the neighbours of every page that is read, so random rows would soon bring in the whole file.
    """
    for array in arrays:
        pages = getattr(array, "_mmap", None)
        if pages is not None and hasattr(mmap, "MADV_DONTNEED"):
            pages.madvise(mmap.MADV_DONTNEED)


def parts(count: int, *arrays: np.ndarray | None) -> Iterator[slice]:
    """`ROWS` rows of `count` after the other; the pages of mapped `arrays` are dropped after each part."""
    for first in range(0, count, ROWS):
        yield slice(first, min(first + ROWS, count))
        release(*arrays)
