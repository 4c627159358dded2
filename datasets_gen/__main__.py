"""python -m datasets_gen COMMAND: generate, import, show and verify puzzle sets."""

import io
import sys

from datasets_gen.commands import main as main

if __name__ == "__main__":
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal that has no ·, a file name that is no text
    sys.exit(main())
