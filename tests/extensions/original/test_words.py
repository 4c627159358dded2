"""Command lines of the original code in this package's words: each is a config that validates."""

import shlex

import pytest

from reason.cli import main
from reason.config.describe import describe_settings
from reason.config.overrides import override, split_arguments
from reason.extensions.original.words import SAME, VALUES, is_theirs, spelled
from reason.presets import preset

TRM = (
    "arch=trm data_paths=[data/sudoku-extreme-1k-aug-1000] evaluators=[] epochs=50000 eval_interval=5000 lr=1e-4 "
    "puzzle_emb_lr=1e-4 weight_decay=1.0 puzzle_emb_weight_decay=1.0 arch.mlp_t=True arch.pos_encodings=none "
    "arch.L_layers=2 arch.H_cycles=3 arch.L_cycles=6 +run_name=mine ema=True"
)
HRM = "data_path=data/mine arch=hrm_v1 epochs=20000 eval_interval=2000 lr=7e-5 puzzle_emb_lr=7e-5 global_batch_size=384"


def test_trms_command_for_sudoku() -> None:
    line, left = spelled(TRM.split())
    words = shlex.split(line)
    assert words[:4] == ["python", "train.py", "trm-mlp-sudoku", "data=data/sudoku-extreme-1k-aug-1000"]
    chosen, pairs = split_arguments(words[2:], {"data": "data.directory"})
    assert pairs.pop("run") == "runs/mine"
    config = override(preset(chosen[0]).config(), pairs)
    assert (config.training.steps, config.training.monitor.every) == (65_104, 6_510)
    assert (config.model.h_cycles, config.model.l_cycles, config.model.mixer) == (3, 6, "mlp")
    assert config.optimizer.weight_decay == 1
    assert left == ["evaluators=[]"]


def test_hrms_command() -> None:
    line, left = spelled(HRM.split())
    assert "train.py hrm-sudoku data=data/mine training.steps=52083" in line
    assert left == []


def test_every_word_of_ours_is_a_setting() -> None:
    ours = {*SAME.values(), *(word.partition("=")[0] for words in VALUES.values() for word in words.split())}
    assert ours <= {setting.key for setting in describe_settings()}


def test_whose_words_they_are() -> None:
    assert is_theirs(["arch.H_cycles=3"])
    assert is_theirs(["+run_name=x"])
    assert not is_theirs(["sudoku-4x4", "model.h_cycles=3", "seed=1"])


def test_train_answers_with_the_line_to_type(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", *TRM.split()]) == 1
    assert "type: python train.py trm-mlp-sudoku data=data/sudoku-extreme-1k-aug-1000 " in capsys.readouterr().err
