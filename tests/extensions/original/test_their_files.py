"""Checkpoints and folders of the original code that something is wrong with, puzzle identifiers, and what is said."""

import argparse
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import output, refusal
from recordings import to_original

from datasets_gen.layout import Split, write_dataset
from reason.config.overrides import read_config
from reason.models.base import Shape
from reason.models.recursive import RecursiveConfig, RecursiveModel
from reason.runs.directory import load_run

SMALL = ["model.hidden_size=8", "model.num_layers=1", "model.num_heads=2", "model.h_cycles=1", "model.l_cycles=1"]
SHORT = ["training.steps=2", "training.batch_size=4", "training.compile=none", "rollout.supervision_steps=2"]


def weights(identifiers=1, prefix="", **settings):
    config = RecursiveConfig(**({"hidden_size": 8, "num_layers": 2, "num_heads": 2, "puzzle_emb_len": 16} | settings))
    model = RecursiveModel(config, Shape(seq_len=16, vocab_size=6, num_puzzle_identifiers=identifiers))
    return {name: tensor.detach() for name, tensor in to_original(model, prefix).items()}


def folder(name, *splits, cells=16, tokens=6, identifiers=("0",)):
    board = np.full((8, cells), 2)
    made = {split: Split.of_puzzles(board, board) for split in splits}
    write_dataset(name, made, task={}, vocab_size=tokens, identifiers=[*identifiers])


def imported(content, *words, run="r"):
    torch.save(content, "step_1")
    return output(["import-weights", "step_1", f"run={run}", "model.num_heads=2", "model.puzzle_emb_len=16", *words])


ALIKE = "the checkpoint does not say which puzzles its 3 identifiers belong to"


@pytest.mark.parametrize(("in_weights", "in_set"), [(3, 11), (11, 1)])
def test_other_identifiers_get_the_mean_embedding(in_weights, in_set, here):
    """As in HRM's issue 2, 1,045,829 in the checkpoint and 1,921,253 in a set built again: all else is loaded."""
    folder("set", "test", identifiers=map(str, range(in_set)))
    embedding, prefix = torch.randn(in_weights, 8), "_orig_mod.model.inner."
    said = imported(weights(in_weights, prefix) | {f"{prefix}puzzle_emb.weights": embedding}, "data=set")
    assert f"ignored: the embeddings of {in_weights} puzzle identifiers; each of the {in_set} of set has" in said
    state = load_run(Path("r"), torch.device("cpu"), read_config(Path("r/config.json"))).model.state_dict()
    assert torch.allclose(state["puzzle_embedding.weight"], embedding.mean(0).expand(in_set, 8))
    output(["evaluate", "r", "data=set", "steps=1"])


def test_what_a_number_that_agrees_does_not_tell_is_said(here):
    folder("set", "test", identifiers=("<blank>", "a", "b"))
    assert f"{ALIKE}; only their number agrees with set" in imported(weights(3), "data=set")
    assert "not known" not in imported(weights(), "cells=16", run="one")


def test_an_evaluation_names_identifiers_that_differ(here):
    sets = {"own": "_ab", "more": "_abcdefghij", "fewer": "_a", "renamed": "_ba", "without": "_"}
    for name, identifiers in sets.items():
        folder(name, "train", "test", identifiers=identifiers)
    assert f"{ALIKE}; evaluate on the set of its training" in imported(weights(3), "cells=16")
    refusal("evaluate r", "has no data set; type data=DIR")
    refusal("train run=r data=own --resume", "no training state to resume (imported)")
    imported(weights(3), "data=own", run="own-set")
    for run in ("r", "own-set"):
        for name, count in (("more", 11), ("fewer", 2)):
            message = f"{name} has {count} puzzle identifiers, the model was built for 3 ({run})"
            refusal(["evaluate", run, f"data={name}", "steps=1"], message)
        for name in ("own", "without"):
            output(["evaluate", run, f"data={name}", "steps=1"])
    refusal(["evaluate", "own-set", "data=renamed"], "renamed/identifiers.json has as many puzzle identifiers as own/")


MLP = {"mixer": "mlp", "positions": "none"}


@pytest.mark.parametrize(("text", "own", "said"), [
    ("arch: {hidden_size: 8, L_layers: 2, mlp_t: False, expansion: 4, puzzle_emb_len: 16}", {}, ""),
    ("arch: {hidden_size: 128}", {}, "hidden_size=128, the weights have 8"),
    ("arch: {L_layers: 4}", {}, "states L_layers=4, the weights have 2; replace it by the config of this checkpoint"),
    ("arch: {expansion: 2}", {"hidden_size": 256}, "expansion=2, the weights have 4"),
    ("arch: {pos_encodings: alibi}", {}, "the checkpoint has pos_encodings=alibi; supported: rope, learned, none"),
    ("arch: {rms_norm_eps: 0.1}", {}, "states rms_norm_eps=0.1; only 1e-05 is supported"),
    ("arch:\n  a: [", {}, "all_config.yaml, line 2: "),
    ("arch: !!python/object/apply:os.getcwd []", {}, "all_config.yaml, line 1: could not determine a constructor"),
    ("x" * 1_000_001, {}, "1,000,000 at most are read"),
], ids=range(9))  # fmt: skip
def test_a_config_that_is_not_of_the_checkpoint_is_refused(text, own, said, here):
    folder("set", "test")
    torch.save(weights(**own), "step_1")
    Path("all_config.yaml").write_text(text)
    words = ["import-weights", "step_1", "run=r", "data=set"]
    if said:
        refusal(words, said)
    else:
        output([*words, "model.num_heads=2"], "next: ")
    refusal(["import-weights", "."], "is a folder; type a file of it: all_config.yaml")


class Touching:
    """Read by pickle, it makes a folder."""

    def __reduce__(self):
        return os.mkdir, ("touched",)


INNER, FAR = "L_level.layers.0.mlp.down_proj.weight", "L_level.layers.1000000.mlp.down_proj.weight"


@pytest.mark.parametrize(("content", "words", "said"), [
    (b"", [], "step_1 (0 bytes) cannot be read (EOFError); copy it again"),
    (b"PK\x03\x04 and no more", [], "step_1 (16 bytes) cannot be read ("),
    (b"version https://git-lfs.github.com/spec/v1", [], "; copy it again, a pointer by `git lfs pull`, or save"),
    ({"model": weights(), "args": Touching()}, [], "it contains more than names and values"),
    ({"args": argparse.Namespace(lr=1)}, [], "step_1 contains no state_dict, names to tensors"),
    ({"a": weights(), "b": weights()}, [], "step_1 contains 'a', 'b'; save only the weights of one model"),
    ({"somebody.else": torch.zeros(2)}, [], "weight somebody.else belongs to neither HRM nor TRM"),
    (weights() | {FAR: torch.zeros(8, 8)}, [], 'Missing key(s) in state_dict: "f_l.blocks.2.attention.qkv.'),
    (weights() | {"q_head.weight": torch.full((2, 8), float("nan"))}, [], "q_head.weight contains infinity or NaN"),
    (weights() | {"lm_head.weight": torch.zeros(8, 6)}, [], "size mismatch for head.weight: copying a param with"),
    (weights() | {INNER: torch.zeros(96, 8)}, [], "(96, 8)}, (width, inner width); are they transposed?"),
    (weights(**MLP), ["data=nine"], "for 32 positions of prefix and cells, and the number of cells is unknown"),
    (weights(), ["data=seven", "model.num_heads=2"], "the weights are for 16 cells, 6 tokens"),
    (weights(positions="learned"), [], "for 32 positions of prefix and cells, and the number of cells is unknown"),
    (weights(), [], "and the number of cells is unknown, or the set has more; type data=data/theirs, the set of their"),
    (weights() | {"puzzle_emb.weights": torch.zeros(1, 16)}, [], "puzzle_emb_ndim=16; supported: 8"),
], ids=range(16))  # fmt: skip
def test_what_is_no_checkpoint_is_told_apart_and_not_unpickled(content, words, said, here):
    folder("nine", "test", cells=81)
    folder("seven", "test", tokens=7)
    Path("all_config.yaml").write_text("data_paths: [data/theirs]\narch: {}")
    if isinstance(content, bytes):
        Path("step_1").write_bytes(content)
    else:
        torch.save(content, "step_1")
    own = words or ([] if "cells is unknown" in said else ["cells=16", "model.num_heads=2"])
    (_,) = refusal(["import-weights", "step_1", "run=r", *own], said).splitlines()
    assert {path.name for path in here.iterdir()} == {"nine", "seven", "all_config.yaml", "step_1"}


def test_files_and_words_of_the_original_lead_to_the_import(here):
    folder("set", "train", "test")
    torch.save({"model": weights(), "ema_helper": weights()}, "step_1")
    for words in (["evaluate", "step_1"], ["evaluate", "checkpoint=step_1"]):
        refusal(words, "no run at step_1: step_1/config.json is missing; of a checkpoint of HRM or TRM, `reason imp")
    refusal(["train", "sudoku-4x4", "data=set", "init_from=step_1"], "`reason import-weights step_1` makes one")
    words = ["import-weights", "step_1", "run=r", "data=set", "model.num_heads=2"]
    said = output(words, "weights from 'model', not from 'ema_he")
    refusal(words[:3], "r already holds a run: type --resume to continue it, or another run=DIR")
    (line,) = (line for line in said.splitlines() if line.startswith("train on: "))
    words = line.partition("train.py ")[2].split()
    output(["train", *words, *SHORT, "run=on", "model.gradient_checkpointing=false"], "trained 2 steps")


@pytest.mark.parametrize(("damage", "words", "said"), [
    (lambda: Path("set/test/all__labels.npy").unlink(), [], "set/test/all__labels.npy is missing"),
    (lambda: Path("set/identifiers.json").write_text("[]"), [], "must hold a list of 1 different names"),
    (lambda: Path("set/test").rename("old") and Path("nine/test").rename("set/test"), [], "seq_len is 81, but 16 in t"),
    (lambda: None, ["evaluation.checkpoint=best"], "is chosen on a validation split, and set has none; type"),
    (lambda: None, ["evaluation.checkpoint=best", "training.monitor.puzzles=0"], "puzzles=0 reads none of it"),
])  # fmt: skip
def test_a_training_that_could_not_be_evaluated_does_not_begin(damage, words, said, here):
    folder("set", "train", "test")
    folder("nine", "test", cells=81)
    damage()
    refusal(["train", "sudoku-4x4", "data=set", "run=r", *SMALL, *SHORT, *words], said)


def test_what_is_missing_for_the_evaluation_is_said_and_how_much_of_the_start_is_left(here):
    folder("set", "train", identifiers="abc")
    Path("set/identifiers.json").unlink()
    words = ["train", "sudoku-4x4", "data=set", *SMALL, *SHORT]
    said = output([*words, "run=r", "ema.warmup=false", "ema.decay=0.9", "model.puzzle_emb_len=1"])
    assert "warning: set has no test split" in said
    assert "set/identifiers.json is missing; ARC's votes read the task names there" in said
    folder("other", "test", identifiers="abc")
    Path("other/identifiers.json").unlink()
    held = "averaged weights still hold 81% of the initial ones: evaluation.weights=raw, or train with ema.warmup=true"
    assert held in output(["evaluate", "r", "data=other", "steps=1"])
    assert "still hold" not in output(["evaluate", "r", "data=other", "steps=1", "evaluation.weights=raw"])
