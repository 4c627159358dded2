"""Settings of the puzzle set: its folder, its generator and its augmentation."""

from __future__ import annotations

from typing import Any

from pydantic import Field, field_validator

from reason.settings.base import BaseConfig, Outside, Readable, Resumable


class DataConfig(BaseConfig):
    """The puzzle set and its augmentation."""

    directory: Readable[Resumable[str | None]] = Field(
        None, description="folder of the data set (short form: data=DIR); DIR,DIR: sets of several sizes, used in turn"
    )
    generate: Outside[dict[str, Any]] = Field(
        {},
        description='how a missing set is made: {"name": a generator of `reason generate`, and options of its command '
        "line}; a list has a value, or null, for each of several sets; `sources`: files to import, in the format "
        "`name`; `files`: what the generator reads; `published`: a folder that is taken in its place where it is there",
    )
    augment: bool = Field(
        True, description="transform every drawn puzzle by a random symmetry (digits relabelled, grid moved)"
    )
    marks: bool = Field(
        False,
        description="training labels contain more than the answer: in mazes, a separate token marks the free cells of "
        "the other shortest paths; exact and halting count them in training, not in evaluations",
    )
    hints: int = Field(
        0, ge=0, description="puzzles with digits: show up to this many answer cells in half of the drawn puzzles"
    )

    @field_validator("generate")
    @classmethod
    def _options(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Check the settings that are no options, and drop options that are not set."""
        files = list | tuple, "a list of files"
        for key, (kind, what) in {"sources": files, "files": files, "published": (str, "a folder")}.items():
            if key in given and not isinstance(given[key], kind):
                raise ValueError(f"{key}={given[key]}: {what} is needed")
        options = {key: tuple(value) if isinstance(value, list) else value for key, value in given.items()}
        return {
            key: value for key, value in options.items()
            if value is not False and value not in (None, (), "none") and (key, value) != ("seed", 0)
        }  # fmt: skip

    @property
    def commands(self) -> list[list[str]]:
        """Return the words after `python -m datasets_gen` for each set; empty without a generator."""
        options = dict(self.generate)
        name, sources, files = options.pop("name", None), options.pop("sources", ()), options.pop("files", ())
        options.pop("published", None)
        options.setdefault("seed", 0)
        sets = min((len(value) for value in (name, *options.values()) if isinstance(value, tuple)), default=1)
        names = name if isinstance(name, tuple) else (name,) * sets
        begin = ["import"] if sources else []
        return [[*begin, str(names[n]), *sources, *files, *_words(options, n)] for n in range(sets)] if name else []

    @field_validator("directory")
    @classmethod
    def _named(cls, value: str | None) -> str | None:
        if value is not None and not all(name.strip() for name in value.split(",")):
            raise ValueError(f"data={value} names an empty folder; type data=DIR, or data=DIR,DIR")
        return value

    @property
    def directories(self) -> list[str]:
        """Return the list of folders."""
        return [] if self.directory is None else [name.strip() for name in self.directory.split(",")]


def _words(options: dict[str, Any], number: int) -> list[str]:
    words = []
    for key, value in options.items():
        each = value[number] if isinstance(value, tuple) else value
        if each is not None and each is not False:
            words += [f"--{key.replace('_', '-')}", *([] if each is True else [str(each)])]
    return words
