"""Train a reasoner: python train.py PRESET [data=DIR] [run=DIR] [section.key=value …] (see --help)."""

import sys

from reason.cli import main

if __name__ == "__main__":
    sys.exit(main(["train", *sys.argv[1:]]))
