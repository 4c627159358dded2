"""Evaluate a run: python evaluate.py [RUN] [data=DIR] [steps=64] [section.key=value …] (see --help)."""

import sys

from reason.cli import main

if __name__ == "__main__":
    sys.exit(main(["evaluate", *sys.argv[1:]]))
