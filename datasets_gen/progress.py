"""The one progress bar: rate and time left, on the error stream, silent where nobody watches."""

from __future__ import annotations

from typing import Any

from tqdm import tqdm


def progress(total: int, what: str, unit: str) -> Any:
    """A tqdm bar over `total` units; a context manager."""
    return tqdm(total=total, desc=what, unit=unit, disable=None, dynamic_ncols=True, smoothing=0.05)
