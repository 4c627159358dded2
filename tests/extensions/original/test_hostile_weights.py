"""Weights that anyone may have made: counted and checked before a model is built of them, one line each."""

import itertools
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import refusal
from safetensors.torch import save_file

from reason.cli import main
from reason.extensions.original.weights import to_original
from reason.models.base import Shape
from reason.models.recursive import RecursiveConfig, RecursiveModel

Weights = dict[str, torch.Tensor]
Write = Callable[[Weights], str]  # writes files, and says which one to import
LAYER = "L_level.layers.0.mlp.down_proj.weight"


@pytest.fixture
def weights(here: Path) -> Weights:
    config = RecursiveConfig(hidden_size=8, num_layers=2, num_heads=2, puzzle_emb_len=1)
    tensors = to_original(RecursiveModel(config, Shape(seq_len=16, vocab_size=6)), prefix="")
    return {name: tensor.detach().contiguous() for name, tensor in tensors.items()}


def saved(weights: Weights, file: str = "w.safetensors") -> str:
    torch.save(weights, file) if file == "w.pt" else save_file(weights, file)
    return file


def of_tensor(name: str, tensor: torch.Tensor) -> Write:
    return lambda weights: saved(weights | {name: tensor}, "w.pt")


def of_text(file: str, text: str) -> Write:
    return lambda _: (Path(file).write_text(text), file)[1]


def of_yaml(text: str) -> Write:
    """Settings beside whole weights."""
    return lambda weights: (Path("all_config.yaml").write_text(text), saved(weights))[1]


def of_words(weights: Weights) -> str:
    """A .npz in which one weight is text."""
    arrays = {f"param.{name}": tensor.numpy() for name, tensor in weights.items()}
    np.savez("w.npz", **arrays | {"param.H_init": np.array(["none"])})
    return "w.npz"


def of_no_arrays(_: Weights) -> str:
    with zipfile.ZipFile("w.npz", "w") as archive:
        archive.writestr("param.a.npy", b"not an array")
        archive.writestr("b", b"")
    return "w.npz"


NINES = [(b, ", ".join([f"*{a}"] * 9)) for a, b in itertools.pairwise("abcdefghi")]
LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(f"{b}: &{b} [{nine}]\n" for b, nine in NINES)
MERGES = "a: &a {k: 1}\n" + "".join(f"{b}: &{b}\n  <<: [{nine}]\n" for b, nine in NINES)
EMBEDDING, FAR = "embed_tokens.embedding_weight", "L_level.layers.{}.mlp.down_proj.weight"
CASES: list[tuple[Write, str]] = [
    (of_tensor(FAR.format(1000000), torch.zeros(8, 8)), "have layer 1000000 of f_l and no layer 2"),
    (of_tensor(FAR.format(99999999999), torch.zeros(8, 8)), "belongs to neither HRM nor TRM"),
    (of_tensor(EMBEDDING, torch.zeros(48)), "float32 of shape [48]; 2 dimensions of real numbers"),
    (of_tensor(EMBEDDING, torch.zeros(0, 8)), "float32 of shape [0, 8]; 2 dimensions of real numbers"),
    (of_tensor("lm_head.weight", torch.zeros(2, 3, 8)), "weight lm_head.weight is float32 of shape [2, 3, 8]"),
    (of_tensor("H_init", torch.zeros(2, 4)), "weight H_init is float32 of shape [2, 4]; 1 dimensions"),
    (of_tensor("q_head.weight", torch.zeros(2, 8, dtype=torch.complex64)), "weight q_head.weight is complex64"),
    (of_tensor(LAYER, torch.full((8, 256), float("nan"))), f"weight {LAYER} holds a number that is infinite or NaN"),
    (of_tensor("H_init\x1b[31m", torch.zeros(8)), r"weight H_init\x1b[31m belongs to neither"),
    (of_words, "w.npz cannot be read as weights"),
    (of_no_arrays, "w.npz cannot be read as weights"),
    *(
        (of_text(file, text), f"{file} cannot be read as weights")
        for file in ("w.pt", "w.safetensors")
        for text in ("none", "f" * 100)
    ),
    (of_yaml(f"{LAUGHS}arch: {{num_heads: *i}}"), "all_config.yaml has YAML aliases, which are not read"),
    (of_yaml(f"{MERGES}arch:\n  <<: *i"), "all_config.yaml has YAML aliases, which are not read"),
    (of_yaml("[" * 1000), "all_config.yaml is not YAML"),
    (of_yaml("arch: {num_heads: ["), "all_config.yaml is not YAML"),
    (of_yaml("arch: !!python/object/apply:os.getcwd []"), "all_config.yaml is not YAML"),
    (of_yaml("arch: {num_heads: 2.5}"), "num_heads=2.5: a whole number from 1"),
    (of_yaml("arch: {num_heads: 99999999999}"), "num_heads=99999999999: a whole number"),
    (of_yaml("arch: {H_cycles: 999999999}"), "model.h_cycles=999999999"),
    (of_yaml("arch: {num_puzzle_identifiers: many}"), "num_puzzle_identifiers=many: a whole number"),
    (of_yaml("arch: {rope_theta: x}"), "rope_theta=x: a finite number is needed"),
    (of_yaml("arch: {expansion: '1 000'}"), "expansion=1 000: a finite number is needed"),
    (of_yaml("arch: {expansion: .nan}"), "expansion=nan: a finite number is needed"),
    (of_yaml("arch: {expansion: .inf}"), "expansion=inf: a finite number is needed"),
    (of_yaml("x" * 1_000_001), "1,000,000 at most are read"),
]


@pytest.mark.parametrize(("write", "said"), CASES, ids=range(len(CASES)))
def test_weights_that_make_no_model(write: Write, said: str, weights: Weights, here: Path) -> None:
    file = write(weights)
    before = sorted(here.iterdir())
    (line,) = refusal(["import-weights", file, "run=r", "cells=16"]).splitlines()
    assert said in line
    assert sorted(here.iterdir()) == before


def test_whole_weights_are_imported_within_bounds(weights: Weights, here: Path) -> None:
    words = ["import-weights", saved(weights), "run=r", "model.num_heads=2"]
    refusal([*words, "cells=99999999"], "seq_len 99999999: input should be less")
    assert main([*words, "cells=16"]) == 0
