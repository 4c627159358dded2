"""The on-disk layout of a puzzle set: HRM's and TRM's, read and written.

    DIR/identifiers.json                       names of the puzzle identifiers (optional when read)
    DIR/SPLIT/dataset.json                     `Metadata`
    DIR/SPLIT/{set}__inputs.npy, __labels      (N, S) tokens
    DIR/SPLIT/{set}__puzzle_identifiers.npy    (P,)   which embedding a puzzle uses
    DIR/SPLIT/{set}__puzzle_indices.npy        (P+1,) puzzle p owns examples [indices[p], indices[p+1])
    DIR/SPLIT/{set}__group_indices.npy         (G+1,) group g owns puzzles [indices[g], indices[g+1])
    DIR/SPLIT/{set}__ratings.npy               (P,)   difficulty, ours, optional
    DIR/SPLIT/{set}__sources.npy               (P,)   index into dataset.json's "sources", ours, optional
    DIR/SPLIT/{set}__relations.npy             (N, M, 1+C+P') instances of each example, ours, optional

A row of relations is one instance: the index of its kind in dataset.json's "structure", C numbers, P' cells; -1 where a
number or a cell is absent, and throughout where an example has fewer than M instances.

N examples, P puzzles, G groups, S cells. A group holds the variants of one base puzzle.
"""

from datasets_gen.layout.files import (
    TOO_DEEP,
    DatasetError,
    begins_with_mark,
    brief,
    check_name,
    distinct,
    read_json,
    text_file,
)
from datasets_gen.layout.mapped import Rows, parts, release
from datasets_gen.layout.reading import (
    check_alike,
    ignored,
    read_identifiers,
    read_metadata,
    read_split,
    splits_of,
    stacked,
    unscored_as_pad,
    unscored_examples,
)
from datasets_gen.layout.schema import (
    ARRAYS,
    MOST,
    OPTIONAL,
    SHARED,
    SPLITS,
    Metadata,
    Split,
    atomic_directory,
    check_free,
    write_dataset,
)

__all__ = [
    "ARRAYS", "MOST", "OPTIONAL", "SHARED", "SPLITS", "TOO_DEEP", "DatasetError", "Metadata", "Rows", "Split",
    "atomic_directory", "begins_with_mark", "brief", "check_alike", "check_free", "check_name",
    "distinct", "ignored", "parts", "read_identifiers", "read_json", "read_metadata", "read_split", "release",
    "splits_of", "stacked", "text_file", "unscored_as_pad", "unscored_examples", "write_dataset",
]  # fmt: skip
