"""Checkpoints and folders of the original code that something is wrong with, and the mend that is said of each."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import output, refusal
from recordings import to_original

from datasets_gen.layout import Split, write_dataset
from reason.models.base import Shape
from reason.models.recursive import RecursiveConfig, RecursiveModel

SMALL = ["model.hidden_size=8", "model.num_layers=1", "model.num_heads=2", "model.h_cycles=1", "model.l_cycles=1"]
SHORT = ["training.steps=2", "training.batch_size=4", "training.compile=none", "rollout.supervision_steps=2"]


def weights(**settings: Any) -> dict[str, torch.Tensor]:
    config = RecursiveConfig(**({"hidden_size": 8, "num_layers": 2, "num_heads": 2, "puzzle_emb_len": 16} | settings))
    model = RecursiveModel(config, Shape(seq_len=16, vocab_size=6))
    return {name: tensor.detach() for name, tensor in to_original(model, "").items()}


def folder(name: str, *splits: str, cells: int = 16, identifiers: int = 1) -> None:
    tokens = np.full((8, cells), 2)
    made = {split: Split.of_puzzles(tokens, tokens) for split in splits}
    write_dataset(name, made, task={}, vocab_size=6, identifiers=[str(n) for n in range(identifiers)])


MLP = {"mixer": "mlp", "positions": "none"}


@pytest.mark.parametrize(
    ("stated", "own", "said"),
    [
        ("hidden_size: 8, L_layers: 2, mlp_t: False, expansion: 4, puzzle_emb_len: 16", {}, ""),
        ("hidden_size: 128", {}, "hidden_size=128, the weights have 8"),
        ("L_layers: 4", {}, "states L_layers=4, the weights have 2; put the config of this checkpoint beside it"),
        ("expansion: 2", {"hidden_size": 256}, "expansion=2, the weights have 4"),
        ("pos_encodings: alibi", {}, "pos_encodings=alibi of the checkpoint is not here; rope, learned and none are"),
    ],
)
def test_a_config_of_another_checkpoint_is_refused(stated: str, own: dict[str, Any], said: str, here: Path) -> None:
    folder("set", "test")
    torch.save(weights(**own), "step_1")
    Path("all_config.yaml").write_text(f"arch: {{{stated}}}")
    words = ["import-weights", "step_1", "run=r", "data=set"]
    if said:
        refusal(words, said)
    else:
        output([*words, "model.num_heads=2"], "next: ")


def cut(names: str) -> dict[str, torch.Tensor]:
    return {name: value for name, value in weights().items() if name != names}


@pytest.mark.parametrize(
    ("content", "words", "said"),
    [
        (b"PK\x03\x04 and no more", [], "step_1 (16 bytes) cannot be read ("),
        (b"version https://git-lfs.github.com/spec/v1", [], "a pointer by `git lfs pull`"),
        (cut("lm_head.weight"), [], 'Missing key(s) in state_dict: "head.weight"'),
        (cut("embed_tokens.embedding_weight"), [], "step_1 is no HRM or TRM, or states other settings than its own ("),
        (weights() | {"lm_head.weight": torch.zeros(8, 6)}, [], "size mismatch for head.weight"),
        (weights() | {"L_level.layers.0.mlp.down_proj.weight": torch.zeros(96, 8)}, [], (
            "(96, 8)}, (width, inner width); are they transposed?"
        )),
        (weights(**MLP), ["data=nine"], "the weights are for 32 positions, a prefix and the cells, and do not tell "),
        (weights(), [], "for any number of positions, a prefix and the cells"),
        (weights() | {"puzzle_emb.weights": torch.zeros(1, 16)}, [], "puzzle_emb_ndim=16 is not here; 8 is"),
    ],
    ids=range(9),
)  # fmt: skip
def test_a_damaged_checkpoint_is_told_apart(content: Any, words: list[str], said: str, here: Path) -> None:
    folder("nine", "test", cells=81)
    Path("all_config.yaml").write_text("data_paths: [data/theirs]\narch: {}")
    if isinstance(content, bytes):
        Path("step_1").write_bytes(content)
    else:
        torch.save(content, "step_1")
    own = words or ([] if "any number" in said else ["cells=16", "model.num_heads=2"])
    refusal(["import-weights", "step_1", "run=r", *own], said)


def test_files_and_words_of_the_original_lead_to_the_import(here: Path) -> None:
    folder("set", "train", "test")
    torch.save({"model": weights(), "ema_helper": weights()}, "step_1")
    for words in (["evaluate", "step_1"], ["evaluate", "checkpoint=step_1"]):
        refusal(
            words, "no run at step_1: step_1/config.json is missing; of a checkpoint of HRM or TRM, `reason import-"
        )
    refusal(["train", "sudoku-4x4", "data=set", "init_from=step_1"], "`reason import-weights step_1` makes one")
    Path("all_config.yaml").write_text("arch:\n  a: [")
    refusal(["import-weights", "step_1", "run=r"], "all_config.yaml, line 2: ")
    Path("all_config.yaml").unlink()
    said = output(
        ["import-weights", "step_1", "run=r", "data=set", "model.num_heads=2"], "from 'model', not from 'ema_he"
    )
    refusal(["import-weights", "step_1", "run=r"], "r already holds a run: type --resume")
    (line,) = (line for line in said.splitlines() if line.startswith("train on: "))
    words = line.partition("train.py ")[2].split()
    output(["train", *words, *SHORT, "run=on", "model.gradient_checkpointing=false"], "trained 2 steps")


@pytest.mark.parametrize(
    ("damage", "words", "said"),
    [
        (lambda: Path("set/test/all__labels.npy").unlink(), [], "set/test/all__labels.npy is missing"),
        (lambda: Path("set/identifiers.json").write_text("[]"), [], "must hold a list of 1 different names"),
        (lambda: None, ["evaluation.checkpoint=best"], "evaluation.checkpoint=best is chosen on a validation split"),
    ],
)
def test_a_training_that_could_not_be_evaluated_does_not_begin(
    damage: Any, words: list[str], said: str, here: Path
) -> None:
    folder("set", "train", "test")
    damage()
    refusal(["train", "sudoku-4x4", "data=set", "run=r", *SMALL, *SHORT, *words], said)


def test_a_test_split_of_other_sizes_is_refused(here: Path) -> None:
    folder("set", "train")
    folder("nine", "test", cells=81)
    Path("nine/test").rename("set/test")
    refusal(["train", "sudoku-4x4", "data=set", *SMALL, *SHORT], "set/test: seq_len is 81, but 16 in train")


def test_what_is_missing_for_the_evaluation_is_said_and_how_much_of_the_start_is_left(here: Path) -> None:
    folder("set", "train", identifiers=3)
    Path("set/identifiers.json").unlink()
    words = ["train", "sudoku-4x4", "data=set", *SMALL, *SHORT]
    said = output([*words, "run=r", "ema.warmup=false", "ema.decay=0.9", "model.puzzle_emb_len=1"])
    assert "warning: set has no test split" in said
    assert "set/identifiers.json is missing; ARC's votes read the task names there" in said
    folder("other", "test", identifiers=3)
    Path("other/identifiers.json").unlink()
    held = "averaged weights still hold 81% of the start: evaluation.weights=raw, or train with ema.warmup=true"
    assert held in output(["evaluate", "r", "data=other", "steps=1"])
    assert "still hold" not in output(["evaluate", "r", "data=other", "steps=1", "evaluation.weights=raw"])
