"""python -m datasets_gen COMMAND: generate, merge, show and verify puzzle sets."""

from __future__ import annotations

import io
import sys

from datasets_gen.terminal import INTERRUPTED, ending_at_once


def main(argv: list[str] | None = None) -> int:
    """Run one command; returns its exit code: 0 done, 1 a fault, 2 a wrong call, 130 interrupted."""
    try:
        from datasets_gen.commands import run  # numpy, numba and scipy take a second to come
    except KeyboardInterrupt:
        print(INTERRUPTED, file=sys.stderr)
        return 130
    return run(argv)


if __name__ == "__main__":
    with ending_at_once():
        import datasets_gen.commands  # noqa: F401
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal that has no ·, a file name that is no text
    sys.exit(main())
