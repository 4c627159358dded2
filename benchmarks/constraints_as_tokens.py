"""The set of a declared puzzle for a network that reads tokens alone: the constraints of each puzzle follow its cells.

    python -m benchmarks.constraints_as_tokens data/killer --output-dir data/killer-tokens
    python train.py sudoku-6x6 data=data/killer-tokens run=runs/killer-tokens training.steps=1000000 --max-minutes 15

An instance is its kind, its numbers and its cells, each shifted to a token of its own; what all puzzles share goes.
The labels of these tokens are not scored. A set whose constraints are the same for every puzzle needs none of this.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np

from datasets_gen.layout import Split, read_split, splits_of, write_dataset


def with_constraints(split: Split, used: np.ndarray, first: int) -> Split:
    """Inputs (N, S + used) and labels of the same shape; -1 becomes the token `first`."""
    assert split.relations is not None
    rows = split.relations.reshape(len(split.inputs), -1)[:, used].astype(np.int32) + first + 1
    return replace(
        split,
        inputs=np.concatenate([split.inputs, rows], 1),
        labels=np.concatenate([split.labels, np.zeros_like(rows)], 1),
        relations=None,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--output-dir", type=Path, required=True)
    options = parser.parse_args()
    read = {name: read_split(options.directory, name) for name in splits_of(options.directory)}
    metadata, splits = next(iter(read.values()))[0], {name: split for name, (_, split) in read.items()}
    tables = [split.relations for split in splits.values() if split.relations is not None]
    if len(tables) < len(splits):
        parser.error(f"the puzzles of {options.directory} share their constraints; train on it as it is")
    used = np.any([(table != tables[0][0]).any(0).ravel() for table in tables], axis=0)
    first = metadata.vocab_size
    write_dataset(
        options.output_dir,
        {name: with_constraints(split, used, first) for name, split in splits.items()},
        task={"name": f"{metadata.task['name']}, constraints as tokens"},
        vocab_size=first + 2 + max(int(table.max()) for table in tables),
        provenance={"command": f"python -m benchmarks.constraints_as_tokens {options.directory}"},
    )
    shape = f"{metadata.seq_len} cells and {used.sum()} tokens of constraints"
    print(f"{options.output_dir}: {', '.join(splits)}; {shape}")


if __name__ == "__main__":
    main()
