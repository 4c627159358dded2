"""Settings of the puzzle set: where it lies, how it is made where it is missing, its augmentation."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from reason.settings.base import BaseConfig, Outside, Readable, Resumable

Count = Annotated[int, Field(ge=0)]
OfSets = Count | tuple[Count, ...] | None  # one number for every set, or one for each; none: the generator's default


class GenerateConfig(BaseConfig):
    """How a missing set is made: a generator of `datasets_gen` and the options of its command line."""

    name: str | None = Field(
        None,
        description="the generator: sudoku, maze, addition or one of an extension; with sources, the format that they "
        "have; none: the set is not generated",
    )
    size: OfSets = Field(
        None, description="rows of the board; for several sets one number each, as [7,11,15] (other counts likewise)"
    )
    mix: Literal["extreme"] | None = Field(
        None, description="sudoku: extreme: 73 % of the puzzles have depth 2, as the hardest published ones"
    )
    min_path: OfSets = Field(None, description="maze: smallest number of cells of the shortest path")
    digits: OfSets = Field(None, description="addition: largest number of digits of an operand")
    min_digits: OfSets = Field(None, description="addition: smallest number of digits of an operand")
    mixed_digits: bool = Field(False, description="addition: each operand has its own number of digits")
    zero_pad: bool = Field(False, description="addition: operands and sums have a fixed width")
    no_reverse: bool = Field(False, description="addition: the highest digit of the sum comes first")
    blank_answer: bool = Field(False, description="addition: the answer cells are blank, for models that fill cells")
    sources: tuple[str, ...] = Field((), description="published files that the set is imported from")
    split: str | None = Field(None, description="arc: the split of all tasks; none: derived from the file names")
    tasks: str | None = Field(None, description="arc: only the tasks ID,ID")
    augmentations: Count | None = Field(None, description="arc: augmented copies of every task, besides itself")
    train: OfSets = Field(None, description="training puzzles; none: the generator's default")
    validation: OfSets = Field(None, description="validation puzzles")
    test: OfSets = Field(None, description="test puzzles")
    seed: int = Field(0, ge=0, description="random seed of the generator")

    @model_validator(mode="after")
    def _one_for_each_set(self) -> GenerateConfig:
        if len(lengths := {len(value) for value in self._lists()}) > 1:
            raise ValueError(f"lists of {' and '.join(map(str, sorted(lengths)))} numbers: give one for each set")
        return self

    def _lists(self) -> list[tuple[int, ...]]:
        return [value for key, value in self if isinstance(value, tuple) and key != "sources"]

    @property
    def commands(self) -> list[list[str]]:
        """The words after `python -m datasets_gen` for each set."""
        sets = max(map(len, self._lists()), default=1) if self.name else 0
        return [self._words(number) for number in range(sets)]

    def _words(self, number: int) -> list[str]:
        words = [*(["import"] if self.sources else []), str(self.name), *self.sources]
        for key, value in self:
            own = value[number] if isinstance(value, tuple) and key != "sources" else value
            if key not in ("name", "sources") and own is not None and own is not False:
                words += [f"--{key.replace('_', '-')}", *([] if own is True else [str(own)])]
        return words


class DataConfig(BaseConfig):
    """The puzzle set and its augmentation."""

    directory: Readable[Resumable[str | None]] = Field(
        None, description="folder of the data set (short form: data=DIR); DIR,DIR: sets of several sizes, used in turn"
    )
    generate: Outside[GenerateConfig] = GenerateConfig()
    augment: bool = Field(
        True, description="transform every drawn puzzle by a random symmetry (digits relabelled, grid moved)"
    )
    marks: bool = Field(
        False,
        description="training labels contain more than the answer: in mazes, a separate token marks the free cells of "
        "the other shortest paths",
    )
    hints: int = Field(
        0, ge=0, description="puzzles with digits: show up to this many answer cells in half of the drawn puzzles"
    )

    @field_validator("directory")
    @classmethod
    def _named(cls, value: str | None) -> str | None:
        if value is not None and not all(name.strip() for name in value.split(",")):
            raise ValueError(
                f"data={value} names an empty folder; type data=DIR, or data=DIR,DIR without another comma"
            )
        return value

    @field_validator("generate", mode="before")
    @classmethod
    def _of_an_earlier_version(cls, value: Any) -> Any:
        """Runs of earlier versions have a text there, or none: their sets must be there."""
        return GenerateConfig() if value is None or isinstance(value, str) else value

    @property
    def directories(self) -> list[str]:
        """The folders, one by one."""
        return [] if self.directory is None else [name.strip() for name in self.directory.split(",")]
