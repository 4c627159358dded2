"""Checkpoints in the wrappings that people save, and puzzle identifiers, which a checkpoint has no names for."""

import argparse
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import output, refusal

from datasets_gen.layout import Split, write_dataset
from reason.config.overrides import read_config
from reason.extensions.original.weights import to_original
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


def head_of(run: str) -> float:
    """The bias of the halting head, by which the tests tell weights apart."""
    model = load_run(Path(run), torch.device("cpu"), read_config(Path(run, "config.json"))).model
    return model.state_dict()["q_head.bias"][0].item()


ALIKE = "not known: which puzzles the 3 identifiers are, since a checkpoint has no names of them"


@pytest.mark.parametrize(("in_weights", "in_set"), [(3, 11), (11, 3), (1, 3), (3, 1)])
def test_identifiers_are_counted_at_import(in_weights: int, in_set: int, here: Path) -> None:
    made_set("set", *map(str, range(in_set)))
    torch.save(weights_of(in_weights), "w.pt")
    ours, theirs = (f"16 cells, 6 tokens and {count} puzzle identifiers" for count in (in_weights, in_set))
    refusal(["import-weights", "w.pt", "run=r", "data=set", *TYPED], f"for {ours}, set has {theirs}; name the set")
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


MARKED: dict[str, Callable[[Weights], Any]] = {
    "'net'": lambda own: {"net": own, "epoch": 3},
    "'state_dict'": lambda own: {"state_dict": own, "optimizer": {"state": {0: {"exp_avg": torch.zeros(2)}}}},
    "'model'": lambda own: {"discriminator": {"a": torch.zeros(2)}, "model": own},
    "'ema'": lambda own: {"ema": own, "step": 3},
    "'ema', and from 'model' what it lacks": lambda own: {
        "ema": {f"module.{name}": value for name, value in own.items() if not name.endswith("init")},
        "model": {f"_orig_mod.{name}": value - 1 for name, value in own.items()},
    },
    "'net_ema', and from 'net' what it lacks": lambda own: {"net": dict.fromkeys(own, torch.zeros(1)), "net_ema": own},
}


@pytest.mark.parametrize("taken", MARKED)
def test_weights_in_a_wrapper_are_found_and_named(taken: str, here: Path) -> None:
    own = weights_of() | {"q_head.bias": torch.tensor([7.0, 0.0])}
    assert f"weights taken from {taken}\n" in imported(MARKED[taken](own), "cells=16")
    assert head_of("r") == 7


@pytest.mark.parametrize(
    "prefix", ["", "_orig_mod.", "model.", "module.", "module._orig_mod.model.", "model.module._orig_mod.model.inner."]
)
def test_prefixes_stack_in_any_order(prefix: str, here: Path) -> None:
    own = weights_of(prefix=prefix)
    said = imported(own | {f"{prefix}q_head.bias": torch.tensor([7.0, 0.0])}, "cells=16")
    assert "taken from" not in said
    assert head_of("r") == 7


ARGUMENTS = argparse.Namespace(lr=1)
REFUSED = (
    ", and only tensors and plain values are unpickled; where it can be loaded, save the tensors alone: "
    "torch.save(model.state_dict(), FILE)"
)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"args": ARGUMENTS}, f"w.pt holds argparse.Namespace{REFUSED}"),
        ({"loss": np.float64(1.5)}, f"multiarray.scalar{REFUSED}"),
        ({"curve": np.zeros(3)}, f"multiarray._reconstruct{REFUSED}"),
        (torch.nn.Linear(2, 2), f"w.pt holds torch.nn.modules.linear.Linear{REFUSED}"),
        ({"a": weights_of(), "b": weights_of()}, "holds several models: 'a', 'b'; save the weights of one alone"),
        (
            weights_of() | {"step": 3},
            "not a state_dict, names to tensors: 'step' is int; save model.state_dict()",
        ),
        ([1, 2], "names to tensors: 'it' is list"),
        ({}, "names to tensors: empty"),
        (weights_of() | weights_of(prefix="model."), "is there twice, under two prefixes; save one model alone"),
    ],
)
@pytest.mark.parametrize("zipped", [True, False])
def test_what_else_is_in_a_file_is_named_and_not_unpickled(content: Any, said: str, zipped: bool, here: Path) -> None:
    torch.save(content, "w.pt", _use_new_zipfile_serialization=zipped)
    (_,) = refusal(["import-weights", "w.pt", "run=r", "cells=16", *TYPED], said).splitlines()
    assert not (here / "r").exists()


def test_a_plain_pickle_and_a_folder_are_named(here: Path) -> None:
    (here / "w.pkl").write_bytes(pickle.dumps({"args": ARGUMENTS}))
    (line,) = refusal(["import-weights", "w.pkl", "run=r"]).splitlines()
    assert "w.pkl holds a pickle that torch.save did not write" in line
    (here / "run/empty").mkdir(parents=True)
    (here / "run/all_config.yaml").write_text(json.dumps({"arch": {}}))
    torch.save(weights_of(), "run/step_10")
    refusal(["import-weights", "run", "run=r"], "run is a folder; name the weights file in it, perhaps run/step_10")
    refusal(["import-weights", "run/empty", "run=r"], "run/empty is a folder; name the weights file in it")
