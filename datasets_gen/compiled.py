"""numba with a cache that never stands in the way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """`numba.njit`, its machine code kept on disk wherever numba finds a folder it may write to.

    A compiled function calls compiled functions of its own file only: numba's cache looks at the
    time stamp of one file and would keep old machine code of a callee that lives elsewhere.
    """
    try:
        return njit(cache=True)(function)
    except RuntimeError:  # neither the package's folder nor the user's cache folder can be written
        return njit(function)
