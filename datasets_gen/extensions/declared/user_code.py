"""Errors in a user's puzzle file: the line that fails, and Boolean operators that Python evaluates before CPMpy."""

from __future__ import annotations

import contextlib
import dis
import sys
import traceback
from collections.abc import Iterator
from functools import cache
from typing import Any

from datasets_gen.extensions.declared.rules import cp
from datasets_gen.extensions.declared.solver import NoPuzzle
from datasets_gen.layout import DatasetError


@contextlib.contextmanager
def user_code(file: str) -> Iterator[None]:
    """Add the failing line of the file to errors; refuse Python's `or`, `and`, `not` and `if` over constraints."""
    comparison = cp.expressions.core.Comparison
    known = comparison.__bool__

    def decided(each: Any) -> bool:
        frame = sys._getframe(1)
        asks = dis.opname[frame.f_code.co_code[frame.f_lasti]]  # `in` and index(…) may compare cells
        if frame.f_code.co_filename == file and ("JUMP" in asks or asks in ("UNARY_NOT", "TO_BOOL")):
            raise TypeError(
                f"Python evaluates `or`, `and`, `not`, `if` and `a < b < c` without CPMpy, here on {each}: write "
                "a | b, a & b, ~a, cp.any([a, b]) or cp.all([a, b]), each constraint in brackets"
            )
        return bool(known(each))

    comparison.__bool__ = decided
    try:
        yield
    except (DatasetError, NoPuzzle):
        raise
    except Exception as error:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
        if isinstance(error, SyntaxError) and error.filename == file:
            lines.append(error.lineno)
        if not lines:
            raise
        message = (str(error) or "no message").splitlines()[0]
        raise DatasetError(f"{file}, line {lines[-1]}: {type(error).__name__}: {message}") from error
    finally:
        comparison.__bool__ = known


def file_of(page: type) -> str:
    """Return the path of the file that defines a class, "" if there is none."""
    return getattr(sys.modules.get(page.__module__), "__file__", None) or ""


@cache
def note(text: str) -> None:
    """Print a note to stderr, once for each text."""
    print(f"note: {text}", file=sys.stderr)
