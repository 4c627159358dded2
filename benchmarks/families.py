"""One set of several sets of puzzles on one board, each puzzle with the constraints of its own.

    python -m benchmarks.families data/sudoku data/sudoku-diagonal data/sudoku-jigsaw --output-dir data/families
    python train.py declared-puzzle data=data/families run=runs/families
    python evaluate.py runs/families evaluation.split=sudoku-jigsaw

What every puzzle of all the sets has in common stays with the set; the rest stands beside each puzzle. The test puzzles
of each set become a split of its name.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from datasets_gen.declared import Declared
from datasets_gen.declared.expressions import Instance
from datasets_gen.declared.relations import DIFFERENT, IN_GROUPS, gather, partitioned, rows
from datasets_gen.layout import Split, read_split, write_dataset
from datasets_gen.structure import Structure, units


def of_every_puzzle(structure: Structure) -> list[Instance]:
    """The constraints of every puzzle of a set, its groups among them."""
    groups = [np.flatnonzero(np.equal(ids, n)) for ids in structure.groups.values() for n in range(max(ids) + 1)]
    found = [Instance(DIFFERENT, tuple(cells.tolist())) for cells in groups]
    read = [relation for relation in structure.relations if not relation.name.endswith(IN_GROUPS)]
    return found + [Instance(r.rule, cells, (), r.places, r.seen) for r in read for cells in r.instances]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directories", type=Path, nargs="+")
    parser.add_argument("--output-dir", type=Path, required=True)
    options = parser.parse_args(arguments)
    names = [directory.name for directory in options.directories]
    read = {name: [read_split(directory, name) for directory in options.directories] for name in ("train", "test")}
    metadata = [metadata for metadata, _ in read["train"]]
    structures = [each.structure or Structure() for each in metadata]
    boards = [(each.grid, each.symbols, each.values) for each in structures]
    if any(board != boards[0] for board in boards):
        parser.error(f"the boards of {', '.join(names)} differ: {boards}; name sets of one grid and one alphabet")
    every = [of_every_puzzle(structure) for structure in structures]
    always = [each for each in every[0] if all(each in others for others in every)]
    drawn: dict[tuple[str, int], list[list[Instance]]] = {}
    for name, parts in read.items():
        for number, (_, split) in enumerate(parts):
            rest = [each for each in every[number] if each not in always]
            board = Declared(structures[number])
            drawn[name, number] = [rest + board.own(split.relations_of(each)) for each in range(len(split.inputs))]
    puzzles = [own for some in drawn.values() for own in some]
    grid, cells = structures[0].grid, metadata[0].seq_len
    of_grid = {} if grid is None else units(grid, None)
    groups, relations = partitioned(gather(always, puzzles), puzzles, cells, of_grid)

    def joined(name: str, numbers: Sequence[int]) -> Split:
        parts = [read[name][number][1] for number in numbers]
        return Split.of_puzzles(
            np.concatenate([split.inputs for split in parts]),
            np.concatenate([split.labels for split in parts]),
            relations=rows(relations, [own for number in numbers for own in drawn[name, number]]),
        )

    splits = {"train": joined("train", range(len(names)))}
    splits |= {name: joined("test", [number]) for number, name in enumerate(names)}
    facts = next(each.task for each in metadata if "values" in each.task)
    write_dataset(
        options.output_dir,
        splits,
        task={key: value for key, value in facts.items() if key != "form"} | {"name": "families"},
        vocab_size=metadata[0].vocab_size,
        structure=structures[0].model_copy(update={"groups": groups, "relations": relations}),
        provenance={"command": f"python -m benchmarks.families {' '.join(map(str, options.directories))}"},
    )
    print(f"{options.output_dir}: {', '.join(f'{len(s.inputs):,} {name}' for name, s in splits.items())} puzzles")


if __name__ == "__main__":
    main()
