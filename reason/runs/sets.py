"""The sets that a run trains on: made if they are missing, loaded, and identified by their SHA-256."""

from __future__ import annotations

import shlex
from pathlib import Path

import torch

from datasets_gen.layout import check_splits, splits_of
from datasets_gen.typed import typed
from reason.config.overrides import derive
from reason.config.schema import Config
from reason.data.puzzles import AT_ONCE, PuzzleData, TrainingSets
from reason.errors import ConfigError
from reason.models.base import IGNORE
from reason.models.mixing import fits_any_set
from reason.models.recursive_config import takes_marks
from reason.presets import presets
from reason.settings.base import require
from reason.training.loop import Trainer


def names_presets_own_set(config: Config) -> bool:
    """Return whether the config's set is the one that its preset makes, so that any machine can make it."""
    if (named := presets(config.name).get(config.name)) is None:
        return False
    made = named.config().data
    return (made.directory, made.generate) == (config.data.directory, config.data.generate)


def with_published(config: Config) -> Config:
    """Use the published set if its folder exists: a set, or train.csv (`train` rows, or all) and test.csv."""
    generate = config.data.generate
    if "published" not in generate:
        return config
    folder, train = Path(generate["published"]), generate.get("train")
    files = [str(file) for name in ("train", "test") if (file := folder / f"{name}.csv").is_file()]
    if "train" in splits_of(folder):
        return derive(config, {"data.directory": str(folder)})
    if not files:
        return config
    drawn = {"name": f"{generate['name']}-csv", "sources": tuple(files), "subsample": train}
    return derive(config, {"data.directory": f"{folder}-{train or 'all'}", "data.generate": drawn})


def make_data_once(config: Config) -> None:
    """Make the set that a preset names if it does not exist, and print the command."""
    directories, commands = config.data.directories, config.data.commands
    for number, directory in enumerate(directories):
        if Path(directory).exists() and any(Path(directory).iterdir()):
            continue
        if number >= len(commands):
            raise ConfigError(f"preset {config.name} does not say how to make {directory}; type data=DIR")
        arguments = [*commands[number], "--output-dir", directory]
        from datasets_gen.__main__ import main as generate  # which imports every family of puzzles

        print(typed(f"no set at {directory} yet; making it: python -m datasets_gen {shlex.join(arguments)}"))
        status = generate(arguments)
        if status == 130:
            raise KeyboardInterrupt
        if status:
            raise ConfigError(f"the set {directory} could not be made; see above")
    if not directories:
        raise ConfigError(f"preset {config.name} names no data set; type data=DIR")


def require_set(config: Config, directory: str) -> None:
    """Raise ConfigError for a missing set, with the command that makes it if the config has one."""
    commands, folders = config.data.commands, config.data.directories
    if commands and not Path(directory).is_dir():
        number, path = folders.index(directory) if directory in folders else 0, Path(directory)
        words, like, folder = commands[min(number, len(commands) - 1)], " like the preset's", directory
        words = {each[0]: each for each in commands}.get(path.name, words)
        if path.suffix == ".py":  # a file that declares a puzzle
            words, like, folder = [directory], "", f"data/{path.stem}"
        command = shlex.join([*words, "--output-dir", folder])
        made = f"make one{like} with `python -m datasets_gen {command}`"
        raise ConfigError(f"no dataset at {directory}; {made}, or name another with data=DIR")


def load_training_set(config: Config, device: torch.device) -> TrainingSets:
    """Load the train splits to the device. Raises ConfigError or DatasetError if one is unusable for training."""
    if config.data.directory is None:
        raise ConfigError("the run has no data set; type data=DIR")
    for directory in config.data.directories:
        require_set(config, directory)
        check_splits(directory)  # the test split is loaded only after training
    parts = [PuzzleData(directory, "train", device, config.data.marks) for directory in config.data.directories]
    for data in parts:
        if data.groups == 0:
            there = ", ".join(splits_of(data.directory))
            raise ConfigError(f"{data.directory} has an empty train split (splits: {there})")
        # The first examples suffice for almost every set; a large one is searched further only if these score nothing.
        if not any(len(data.scored_examples(count)) for count in (min(len(data), AT_ONCE), len(data))):
            raise ConfigError(
                f"{data.directory}: no label of the train split is scored (each is {IGNORE} or ignore_label_id "
                f"{data.metadata.ignore_label_id}), so there is nothing to learn; name another set with data=DIR"
            )
        refuse_unread(config, data)
        if not fits_any_set(config.model) and data.metadata.task.get("name") != parts[0].metadata.task.get("name"):
            raise ConfigError(
                f"{data.directory} and {parts[0].directory} hold puzzles of two families; train on one of them"
            )
    return TrainingSets(parts)


def refuse_unread(config: Config, data: PuzzleData) -> None:
    """Raise ConfigError if the model cannot use a set: the meaning of its labels, its identifiers, its marks."""
    causal = bool(data.metadata.task.get("causal"))
    labelled = "the token after each cell" if causal else "the answers of the same cells"
    labels = f"{data.directory}, whose labels are {labelled},"
    what = "a causal model" if causal else "a model that sees all cells at once"
    kind = f"model.causal={str(causal).lower()}" if hasattr(config.model, "causal") else ""
    other = f"data=DIR of a set {'made with --blank-answer' if causal else 'of causal labels'}"
    require(getattr(config.model, "causal", False) == causal, labels, what, kind, other)
    if (count := data.shape.num_puzzle_identifiers) > 1:
        identified, without = f"{data.directory}, whose puzzles have {count} identifiers,", "data=DIR of a set without"
        require(hasattr(config.model, "puzzle_emb_len"), identified, "a model that reads puzzle identifiers", without)
    if data.marks:
        symbols = "model.symbols=false" if hasattr(config.model, "symbols") else ""
        require(takes_marks(config.model), "data.marks=true", "a head that can have marks", symbols, "data.marks=false")


def load_monitor_sets(config: Config, sets: TrainingSets) -> list[PuzzleData]:
    """Load the validation splits, which choose the best checkpoint, to the device, of the sets that have one."""
    puzzles = config.training.monitor.puzzles
    sets_watched = [data for data in sets.parts if puzzles and "validation" in splits_of(data.directory)]
    splits = [PuzzleData(data.directory, "validation", data.device) for data in sets_watched]
    return [data for data in splits if len(data.scored_examples(min(len(data), puzzles)))]


def fingerprints(trainer: Trainer) -> dict[str, str]:
    """Return the SHA-256 of each split that training uses: train splits and those that choose the best checkpoint.

    By their names: "train", "train 2" of a second set, "validation".
    """
    digests: dict[str, str] = {}
    for data in (*trainer.data.parts, *(trainer.monitor.sets if trainer.monitor is not None else ())):
        before = sum(name.split()[0] == data.split for name in digests)
        digests[f"{data.split} {before + 1}" if before else data.split] = data.fingerprint
    return digests


def refuse_other_set(trainer: Trainer, recorded: object) -> None:
    """Raise ConfigError if a split of the training differs from that of the run's start."""
    present = fingerprints(trainer)
    if present == recorded:
        return
    before = recorded if isinstance(recorded, dict) else {}
    other = next((split for split in sorted({*present, *before}) if present.get(split) != before.get(split)), "train")
    raise ConfigError(
        f"{trainer.data.directory} is not the set that {trainer.run} was started with, or its {other} split "
        "has changed since; name that one with data=DIR"
    )
