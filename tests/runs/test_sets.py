"""What a config says of the data is what the trainer draws; a run continues with the set that it was started with."""

import json
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import NARROW, make_set, output, refusal, trainer_of
from survivors import array, entry, snapshot

from datasets_gen.layout import Split, write_dataset
from datasets_gen.sudoku import Sudoku
from reason.cli import main
from reason.config.overrides import override, validated
from reason.config.schema import Config
from reason.data.puzzles import PuzzleData
from reason.errors import ConfigError
from reason.presets import preset
from reason.runs.sets import require_set, with_published

FIXTURES = Path(__file__).parents[1] / "datasets_gen/fixtures"
EMBEDDED = ["model.mixer=attention", "model.positions=rotary", "model.num_heads=2", "model.puzzle_emb_len=1"]


def sampler_of(config, run, **changes):
    config = override(config, {f"data.{key}": value for key, value in changes.items()})
    (sampler,) = trainer_of(config, run).samplers
    return sampler


def test_training_draws_under_a_symmetry_that_keeps_labels(tiny, tmp_path):
    augmented = sampler_of(tiny, tmp_path, augment="true")
    assert augmented.symmetry == Sudoku(4).symmetry
    plain = sampler_of(tiny, tmp_path, augment="false")
    assert plain.symmetry is None
    stored = {tuple(row) for row in plain.data.inputs.tolist()}
    assert all(tuple(row) in stored for row in plain.batch(plain.groups()).inputs.tolist())
    assert not all(tuple(row) in stored for row in augmented.batch(augmented.groups()).inputs.tolist())
    mazes = make_set("maze --size 5 --min-path 4 --train 12 --validation 0 --test 4", tmp_path / "mazes")
    small = {"data.directory": str(mazes), "training.batch_size": "4", "training.monitor.puzzles": "0"}
    config = override(preset("maze-10x10").config(), small)
    assert sampler_of(config, tmp_path / "run", augment="true").symmetry is None


@pytest.mark.parametrize("hints", [0, 3])
def test_training_draws_with_the_hints_asked_for(hints, tiny, tmp_path):
    sampler = sampler_of(tiny, tmp_path, augment="false", hints=str(hints))
    assert sampler.hints == hints
    fewest, most = (sampler.data.inputs > 1).sum(1).aminmax()
    clues = torch.cat([(sampler.batch(sampler.groups()).inputs > 1).sum(1) for _ in range(9)])
    assert clues.min() == fewest
    assert (clues.max() > most) == (hints > 0)
    assert clues.max() <= most + hints


def test_a_missing_set_of_several_is_made_by_its_own_command(here):
    with pytest.raises(ConfigError, match=r"--size 11 .*--output-dir data/maze-11x11"):
        require_set(preset("maze-any").config(), "data/maze-11x11")


def test_a_preset_of_the_papers_takes_the_published_files_where_they_are(here):
    """Else the set that is made; their 1,000 puzzles are drawn from CSV files as downloaded; an imported set stays."""
    own = preset("cmm-10-5").config()
    assert with_published(own) is own
    folder = here / "data/sudoku-extreme"
    folder.mkdir(parents=True)
    for name in ("train", "test"):
        shutil.copy(FIXTURES / "sudoku.csv", folder / f"{name}.csv")
    drawn = with_published(own)
    words = "import sudoku-csv data/sudoku-extreme/train.csv data/sudoku-extreme/test.csv --subsample 1000 --seed 0"
    assert (drawn.data.directory, drawn.data.commands) == ("data/sudoku-extreme-1000", [words.split()])
    whole = override(own, {"data.generate": '{"name":"sudoku","published":"data/sudoku-extreme"}'})
    assert with_published(whole).data.directory == "data/sudoku-extreme-all"
    start = ["train", "cmm-10-5", *NARROW, "rollout.grad_steps=1", "training.compile=none", "--max-steps", "1"]
    output([*start, "run=drawn"], "making it: python", "4 steps (0.08 epochs of 25 puzzles)")
    record = json.loads((here / "drawn/config.json").read_text())["config"]["data"]
    assert record["directory"] == "data/sudoku-extreme-1000"
    shutil.copytree("data/sudoku-extreme-1000", folder, dirs_exist_ok=True)
    other = "4 steps (0.08 epochs of 25 puzzles)", "cmm-10-5 states its length for 1,000 puzzles: 0.002 epochs of them"
    output([*start, "run=whole"], *other)
    output([*start, "run=typed", "data=data/sudoku-extreme"], *other)


def test_options_of_a_generator_are_settings():
    """One value holds for every set, a list has one for each; a text is refused."""
    config = override(preset("maze-any").config(), {"data.generate.train": "1000", "data.generate.size": "[7,9,11]"})
    assert [shlex.join(words) for words in config.data.commands] == [
        f"maze --size {size} --min-path {path} --train 1000 --validation 200 --test 500 --seed 0"
        for size, path in ((7, 4), (9, 12), (11, 34))
    ]
    assert config.data.generate["train"] == 1000  # a number
    listed = Config().model_dump() | {"data": {"generate": {"name": "maze", "unique": [True, False]}}}
    assert [len(words) for words in validated(listed).data.commands] == [4, 3]
    for key, value in (("files", 5), ("sources", "a.csv"), ("published", 3)):
        with pytest.raises(ConfigError, match=f"{key}={value}: a "):
            validated(Config().model_dump() | {"data": {"generate": {key: value}}})
    with pytest.raises(ConfigError, match=r"data\.generate=sudoku --size 4: input should be a valid dictionary"):
        validated(Config().model_dump() | {"data": {"generate": "sudoku --size 4"}})


@pytest.fixture
def copied(here):
    """A set with everything that training reads: identifiers, groups of several puzzles of several examples."""
    tokens = np.arange(12 * 16).reshape(12, 16) ** 2 % 5 + 1
    split = Split(tokens, tokens, np.arange(6) % 2, np.array([0, 2, 4, 6, 8, 10, 12]), np.array([0, 2, 4, 6]))
    splits = dict.fromkeys(("train", "validation"), split)
    write_dataset(here / "set", splits, task={}, vocab_size=6, identifiers=["a", "b", "c"])
    return here / "set"


def with_zero(array):
    return np.where(np.arange(array.size).reshape(array.shape) == 5, 0, array).astype(array.dtype)


CHANGES = {
    "inputs": ("train", array("inputs", with_zero)),
    "labels": ("train", array("labels", with_zero)),
    "identifiers": ("train", array("puzzle_identifiers", lambda a: 1 - a)),
    "examples of puzzles": ("train", array("puzzle_indices", lambda _: np.array([0, 1, 4, 6, 8, 10, 12]))),
    "puzzles of groups": ("train", array("group_indices", lambda _: np.array([0, 1, 4, 6]))),
    "ignored label": ("train", entry("train/dataset.json", "ignore_label_id", 3)),
    "task": ("train", entry("train/dataset.json", "task", {"name": "other"})),
    "vocabulary": ("train", entry("train/dataset.json", "vocab_size", 9)),
    "validation inputs": ("validation", array("inputs", split="validation", change=with_zero)),
    "validation gone": ("validation", lambda folder: shutil.rmtree(folder / "validation")),
}


def test_a_set_that_changed_is_seen_and_refused(copied, here):
    for change, (split, apply) in list(CHANGES.items())[:-1]:
        folder = shutil.copytree(copied, here / change)
        was = PuzzleData(folder, split).fingerprint
        apply(folder)
        assert PuzzleData(folder, split).fingerprint != was, change
    words = ["train", "sudoku-4x4", "data=set", *NARROW, *EMBEDDED, "training.monitor.every=2", "run=r"]
    assert main([*words, "--max-steps", "2"]) == 0
    assert set(json.loads((here / "r/config.json").read_text())["training_set"]) == {"train", "validation"}
    before = snapshot(here / "r")
    shutil.copytree(copied, here / "whole")
    for change in ("inputs", "validation inputs", "validation gone"):
        split, apply = CHANGES[change]
        shutil.rmtree(copied)
        shutil.copytree(here / "whole", copied)
        apply(copied)
        told = f"set is not the set that r was started with, or its {split} split has changed since"
        refusal("train run=r --resume", told)
        assert snapshot(here / "r") == before


def test_what_training_does_not_read_may_change(copied, here):
    """Where it lies, who made it, how hard its puzzles are, in which type of number its tokens are stored."""
    was = PuzzleData(copied, "train").fingerprint
    copied.rename(here / "moved")
    entry("train/dataset.json", "provenance", {"command": "other"})(here / "moved")
    entry("train/dataset.json", "mean_puzzle_examples", 9.0)(here / "moved")
    np.save(here / "moved/train/all__ratings.npy", np.arange(6))
    array("inputs", lambda array: array.astype(np.int32))(here / "moved")
    assert PuzzleData(here / "moved", "train").fingerprint == was
