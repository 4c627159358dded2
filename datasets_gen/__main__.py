"""python -m datasets_gen COMMAND: generate, import, show and verify puzzle sets."""

import io
import sys

from datasets_gen.commands import main as main

if __name__ == "__main__":
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal may lack ·, and a file name may not be UTF-8
    sys.exit(main())
