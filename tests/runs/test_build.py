"""What a config says of the data is what the trainer draws."""

import shlex
from pathlib import Path

import pytest
import torch
from conftest import make_set, trainer_of

from datasets_gen.sudoku import Sudoku
from reason.config.overrides import override, validated
from reason.config.schema import Config
from reason.data import Sampler
from reason.errors import ConfigError
from reason.presets import preset
from reason.runs.sets import require_set


def sampler_of(config: Config, run: Path, **changes: str) -> Sampler:
    config = override(config, {f"data.{key}": value for key, value in changes.items()})
    (sampler,) = trainer_of(config, run).samplers
    return sampler


def test_training_draws_under_the_symmetry_of_the_family(tiny: Config, tmp_path: Path) -> None:
    """Of 4×4 Sudoku: digits are renamed, and with augment=false nothing is."""
    augmented = sampler_of(tiny, tmp_path, augment="true")
    assert augmented.symmetry == Sudoku(4).symmetry
    plain = sampler_of(tiny, tmp_path, augment="false")
    assert plain.symmetry is None
    stored = {tuple(row) for row in plain.data.inputs.tolist()}
    assert all(tuple(row) in stored for row in plain.draw().inputs.tolist())
    assert not all(tuple(row) in stored for row in augmented.draw().inputs.tolist())


def test_training_does_not_turn_mazes_whose_label_would_be_another(tmp_path: Path) -> None:
    mazes = make_set("maze --size 5 --min-path 4 --train 12 --validation 0 --test 4", tmp_path / "mazes")
    small = {"data.directory": str(mazes), "training.batch_size": "4", "training.monitor.puzzles": "0"}
    config = override(preset("maze-10x10").config(), small)
    assert sampler_of(config, tmp_path / "run", augment="true").symmetry is None


@pytest.mark.parametrize("hints", [0, 3])
def test_training_draws_with_the_hints_asked_for(hints: int, tiny: Config, tmp_path: Path) -> None:
    sampler = sampler_of(tiny, tmp_path, augment="false", hints=str(hints))
    assert sampler.hints == hints
    fewest, most = (sampler.data.inputs > 1).sum(1).aminmax()
    clues = torch.cat([(sampler.draw().inputs > 1).sum(1) for _ in range(9)])
    assert clues.min() == fewest
    assert (clues.max() > most) == (hints > 0)
    assert clues.max() <= most + hints


def test_a_missing_set_of_several_is_made_by_its_own_command(here: Path) -> None:
    with pytest.raises(ConfigError, match=r"--size 11 .*--output-dir data/maze-11x11"):
        require_set(preset("maze-any").config(), "data/maze-11x11")


def test_options_of_a_generator_are_settings() -> None:
    """One value holds for every set, a list has one for each; a config of an earlier version has a text there."""
    config = override(preset("maze-any").config(), {"data.generate.train": "1000", "data.generate.size": "[7,9,11]"})
    assert [shlex.join(words) for words in config.data.commands] == [
        f"maze --size {size} --min-path {path} --train 1000 --validation 200 --test 500 --seed 0"
        for size, path in ((7, 4), (9, 12), (11, 34))
    ]
    assert validated(Config().model_dump() | {"data": {"generate": "sudoku --size 4"}}).data.commands == []
