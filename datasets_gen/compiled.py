"""numba with a cache that never stands in the way, imported when a compiled function is first called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """`numba.njit`, its machine code kept on disk wherever numba finds a folder it may write to.

    A compiled function calls compiled functions of its own file only: numba's cache looks at the time stamp of one file
    and would keep old machine code of a callee that lives elsewhere. The same holds for arrays of another file.
    """
    return _Waiting(function)


class _Waiting:
    """A function that is not compiled yet."""

    def __init__(self, function: Callable[..., Any]):
        self.function, self.__name__, self.__module__ = function, function.__name__, function.__module__

    def __call__(self, *arguments: Any) -> Any:
        """Have it compiled, and all of its file, which machine code may call in no other form."""
        own = self.function.__globals__
        for name, each in list(own.items()):
            if isinstance(each, _Waiting) and each.function.__globals__ is own:
                own[name] = _machine_code(each.function)
        return own[self.__name__](*arguments)


def _machine_code(function: Callable[..., Any]) -> Any:
    from numba import njit

    try:
        return njit(cache=True)(function)
    except RuntimeError:  # neither the package's folder nor the user's cache folder can be written
        return njit(function)
