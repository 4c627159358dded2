"""`python -m reason COMMAND …`, as the command `reason`."""

import sys

from reason.cli import main

if __name__ == "__main__":
    sys.exit(main())
