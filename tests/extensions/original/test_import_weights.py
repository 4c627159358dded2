"""Checkpoints in the wrappings that people save, and puzzle identifiers."""

import argparse
import os
from pathlib import Path
from typing import Any

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

Weights = dict[str, torch.Tensor]
TYPED = ["model.num_heads=2", "model.puzzle_emb_len=1"]


def weights_of(identifiers: int = 1, prefix: str = "") -> Weights:
    config = RecursiveConfig(hidden_size=8, num_layers=1, num_heads=2, puzzle_emb_len=1)
    model = RecursiveModel(config, Shape(seq_len=16, vocab_size=6, num_puzzle_identifiers=identifiers))
    return {name: tensor.detach() for name, tensor in to_original(model, prefix).items()}


def made_set(directory: str, *identifiers: str) -> None:
    tokens = np.ones((3, 16), np.int64)
    splits = {"test": Split.of_puzzles(tokens, tokens)}
    write_dataset(directory, splits, task={}, vocab_size=6, identifiers=list(identifiers))


def imported(content: Any, *words: str, run: str = "r") -> str:
    torch.save(content, "w.pt")
    return output(["import-weights", "w.pt", f"run={run}", *TYPED, *words])


ALIKE = "not known: which puzzles the 3 identifiers are, since a checkpoint has no names of them"


@pytest.mark.parametrize(("in_weights", "in_set"), [(3, 11), (11, 3), (1, 3), (3, 1)])
def test_other_identifiers_get_the_mean_embedding(in_weights: int, in_set: int, here: Path) -> None:
    """As in HRM's issue 2, 1,045,829 in the checkpoint and 1,921,253 in a set built again: all else is loaded."""
    made_set("set", *map(str, range(in_set)))
    embedding = torch.randn(in_weights, 8)
    content = weights_of(in_weights, "_orig_mod.model.inner.") | {"_orig_mod.model.inner.puzzle_emb.weights": embedding}
    said = imported(content, "data=set")
    assert f"left out: the embeddings of {in_weights} puzzle identifiers; each of the {in_set} of set has" in said
    state = load_run(Path("r"), torch.device("cpu"), read_config(Path("r/config.json"))).model.state_dict()
    assert torch.allclose(state["puzzle_embedding.weight"], embedding.mean(0).expand(in_set, 8))
    output(["evaluate", "r", "data=set", "steps=1"])


def test_a_set_of_other_boards_is_refused(here: Path) -> None:
    tokens = np.ones((3, 16), np.int64)
    write_dataset("set", {"test": Split.of_puzzles(tokens, tokens)}, task={}, vocab_size=7)
    torch.save(weights_of(), "w.pt")
    refusal(["import-weights", "w.pt", "run=r", "data=set", *TYPED], "the weights are for 16 cells, 6 tokens")
    assert not (here / "r").exists()


def test_what_a_number_that_agrees_does_not_tell_is_said(here: Path) -> None:
    made_set("set", "<blank>", "a", "b")
    assert f"{ALIKE}; the number alone agrees with set" in imported(weights_of(3), "data=set")
    assert "not known" not in imported(weights_of(1), "cells=16", run="one")


def test_an_evaluation_names_identifiers_that_differ(here: Path) -> None:
    made_set("own", "<blank>", "a", "b")
    made_set("more", *map(str, range(11)))
    made_set("fewer", "<blank>", "a")
    made_set("renamed", "<blank>", "b", "a")
    made_set("without", "<blank>")
    assert f"{ALIKE}; evaluate on the set of its training" in imported(weights_of(3), "cells=16")
    imported(weights_of(3), "data=own", run="own-set")
    for run in ("r", "own-set"):
        for name, count in (("more", 11), ("fewer", 2)):
            message = f"{name} has {count} puzzle identifiers, the model was built for 3 ({run})"
            refusal(["evaluate", run, f"data={name}", "steps=1"], message)
        for name in ("own", "without"):
            output(["evaluate", run, f"data={name}", "steps=1"])
    refusal(["evaluate", "own-set", "data=renamed"], "renamed/identifiers.json has as many puzzle identifiers as own/")


@pytest.mark.parametrize("key", ["state_dict", "model", "net"])
def test_weights_in_a_wrapper_are_found_and_named(key: str, here: Path) -> None:
    content = {key: weights_of(), "optimizer": {"state": {0: {"exp_avg": torch.zeros(2)}}}, "step": 3}
    assert f"weights taken from '{key}'\n" in imported(content, "cells=16")


class Touching:
    """Read by pickle, it makes a folder."""

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.mkdir, ("touched",)


EMBEDDING, FAR = "embed_tokens.embedding_weight", "L_level.layers.1000000.mlp.down_proj.weight"


def changed(name: str, tensor: torch.Tensor) -> Weights:
    return weights_of() | {name: tensor}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"model": weights_of(), "args": Touching()}, "it holds more than names and values"),
        ({"args": argparse.Namespace(lr=1)}, "w.pt holds no state_dict, names to tensors"),
        ({"a": weights_of(), "b": weights_of()}, "w.pt holds 'a', 'b'; save the weights of one model alone"),
        (weights_of() | {"step": 3}, "w.pt holds no state_dict, names to tensors"),
        (b"", "w.pt (0 bytes) cannot be read ("),
        ({"somebody.else": torch.zeros(2)}, "weight somebody.else belongs to neither HRM nor TRM"),
        (changed(FAR, torch.zeros(8, 8)), 'Missing key(s) in state_dict: "f_l.blocks.1.'),
        (changed("q_head.weight", torch.full((2, 8), float("nan"))), "weight q_head.weight holds a number that is inf"),
    ],
    ids=range(8),
)
def test_what_is_no_checkpoint_is_refused_and_not_unpickled(content: Any, said: str, here: Path) -> None:
    if isinstance(content, bytes):
        Path("w.pt").write_bytes(content)
    else:
        torch.save(content, "w.pt")
    (_,) = refusal(["import-weights", "w.pt", "run=r", "cells=16", *TYPED], said).splitlines()
    assert not (here / "r").exists()
    assert not (here / "touched").exists()
    refusal(["import-weights", str(here)], "is a folder; name a file of it: w.pt")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("arch: !!python/object/apply:os.getcwd []", "all_config.yaml, line 1: could not determine a constructor"),
        ("arch: {rms_norm_eps: 0.1}", "states rms_norm_eps=0.1; only 1e-05 is supported"),
        ("arch: {pos_encodings: rope2d}", "pos_encodings=rope2d of the checkpoint is not here"),
        ("x" * 1_000_001, "1,000,000 at most are read"),
    ],
)
def test_settings_beside_the_weights_that_cannot_be(text: str, said: str, here: Path) -> None:
    torch.save(weights_of(), "w.pt")
    Path("all_config.yaml").write_text(text)
    (_,) = refusal(["import-weights", "w.pt", "run=r", "cells=16", *TYPED], said).splitlines()
    assert not (here / "r").exists()
    refusal(["import-weights", ".", "run=r"], "is a folder; name a file of it: all_config.yaml")
