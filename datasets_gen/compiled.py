"""`compiled`: numba.njit that imports numba at the first call of a compiled function."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function compiled by `numba.njit`; the machine code is stored on disk if a folder is writable.

    The function may call compiled functions of another file. Arrays of another file become constants; numba's cache
    does not notice their changes.
    """
    return _Waiting(function)


class _Waiting:
    """A function that is not compiled yet."""

    def __init__(self, function: Callable[..., Any]):
        self.function, self.__name__, self.__module__ = function, function.__name__, function.__module__

    def __call__(self, *arguments: Any) -> Any:
        """Compile the function, and call it."""
        return self.compile()(*arguments)

    def compile(self) -> Any:
        """Compile this and all other waiting functions of its file; return this one compiled."""
        names = self.function.__globals__
        waiting = {name: each for name, each in names.items() if isinstance(each, _Waiting)}
        files = {each.function.__code__.co_filename for each in waiting.values()}
        for name, each in waiting.items():
            foreign = each.function.__globals__ is not names
            names[name] = each.compile() if foreign else _machine_code(each.function, files)
        return names[self.__name__]


def _machine_code(function: Callable[..., Any], files: set[str]) -> Any:
    import numba

    try:
        made: Any = numba.njit(cache=True)(function)
    except RuntimeError:  # neither the package's folder nor the user's cache folder can be written
        return numba.njit(function)
    if len(files) > 1 and made is not function:  # with NUMBA_DISABLE_JIT
        # numba compares the time of one file, and would keep old code of a callee elsewhere
        made._cache._cache_file._source_stamp = sorted((file, os.stat(file).st_mtime_ns) for file in files)
    return made
