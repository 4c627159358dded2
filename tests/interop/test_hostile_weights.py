"""Weights that anyone may have made: counted and checked before a model is built of them, one line each."""

import itertools
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import refusal
from safetensors.torch import save_file

from reason.cli import main
from reason.interop.original import to_original
from reason.models.base import Shape
from reason.models.recursive import RecursiveConfig, RecursiveModel

Weights = dict[str, torch.Tensor]
Refusal = Callable[..., str]
LAYER = "L_level.layers.0.mlp.down_proj.weight"


@pytest.fixture
def weights(here: Path) -> Weights:
    config = RecursiveConfig(hidden_size=8, num_layers=2, num_heads=2, puzzle_emb_len=1)
    tensors = to_original(RecursiveModel(config, Shape(seq_len=16, vocab_size=6)), prefix="")
    return {name: tensor.detach().contiguous() for name, tensor in tensors.items()}


@pytest.fixture
def refused(here: Path) -> Refusal:
    """Imports a file that must be refused in one line, and writes nothing: the line."""

    def run(file: str, *words: str) -> str:
        before = sorted(here.iterdir())
        (line,) = refusal(["import-weights", file, "run=r", *(words or ["cells=16"])]).splitlines()
        assert sorted(here.iterdir()) == before
        return line

    return run


def test_it_is_imported_where_it_is_whole(weights: Weights, here: Path) -> None:
    save_file(weights, here / "w.safetensors")
    assert main(["import-weights", "w.safetensors", "run=r", "cells=16", "model.num_heads=2"]) == 0


@pytest.mark.parametrize(
    ("name", "tensor", "said"),
    [
        ("L_level.layers.1000000.mlp.down_proj.weight", torch.zeros(8, 8), "have layer 1000000 of f_l and no layer 2"),
        ("L_level.layers.99999999999.mlp.down_proj.weight", torch.zeros(8, 8), "belongs to neither HRM nor TRM"),
        ("embed_tokens.embedding_weight", torch.zeros(48), "float32 of shape [48]; 2 dimensions of real numbers"),
        ("embed_tokens.embedding_weight", torch.zeros(0, 8), "float32 of shape [0, 8]; 2 dimensions of real numbers"),
        ("lm_head.weight", torch.zeros(2, 3, 8), "weight lm_head.weight is float32 of shape [2, 3, 8]"),
        ("H_init", torch.zeros(2, 4), "weight H_init is float32 of shape [2, 4]; 1 dimensions"),
        ("q_head.weight", torch.zeros(2, 8, dtype=torch.complex64), "weight q_head.weight is complex64"),
        (LAYER, torch.full((8, 256), float("nan")), f"weight {LAYER} holds a number that is infinite or NaN"),
        ("H_init\x1b[31m", torch.zeros(8), r"weight H_init\x1b[31m belongs to neither"),
    ],
)
def test_weights_that_make_no_model(name: str, tensor: Any, said: str, weights: Weights, refused: Refusal) -> None:
    torch.save(weights | {name: tensor}, "w.pt")
    assert said in refused("w.pt")


@pytest.mark.parametrize("text", ["none", "f" * 100])
def test_text_is_no_weight(text: str, weights: Weights, here: Path, refused: Refusal) -> None:
    arrays = {f"param.{name}": tensor.numpy() for name, tensor in weights.items()}
    np.savez(here / "w.npz", **arrays | {"param.H_init": np.array([text])})
    assert "cannot be read as weights" in refused("w.npz")
    (here / "w.pt").write_text(text)
    (here / "w.safetensors").write_text(text)
    for file in ("w.pt", "w.safetensors"):
        assert f"{file} cannot be read as weights" in refused(file)


def test_an_npz_whose_members_are_none(refused: Refusal) -> None:
    with zipfile.ZipFile("w.npz", "w") as archive:
        archive.writestr("param.a.npy", b"not an array")
        archive.writestr("b", b"")
    assert "w.npz cannot be read as weights" in refused("w.npz")


NINES = [(b, ", ".join([f"*{a}"] * 9)) for a, b in itertools.pairwise("abcdefghi")]
LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(f"{b}: &{b} [{nine}]\n" for b, nine in NINES)
MERGES = "a: &a {k: 1}\n" + "".join(f"{b}: &{b}\n  <<: [{nine}]\n" for b, nine in NINES)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"{LAUGHS}arch: {{num_heads: *i}}", "all_config.yaml has YAML aliases, which are not read"),
        (f"{MERGES}arch:\n  <<: *i", "all_config.yaml has YAML aliases, which are not read"),
        ("[" * 1000, "all_config.yaml is not YAML"),
        ("arch: {num_heads: [", "all_config.yaml is not YAML"),
        ("arch: !!python/object/apply:os.getcwd []", "all_config.yaml is not YAML"),
        ("arch: {num_heads: 2.5}", "num_heads=2.5: a whole number from 1"),
        ("arch: {num_heads: 99999999999}", "num_heads=99999999999: a whole number"),
        ("arch: {H_cycles: 999999999}", "model.h_cycles=999999999"),
        ("arch: {num_puzzle_identifiers: many}", "num_puzzle_identifiers=many: a whole number"),
        ("arch: {rope_theta: x}", "rope_theta=x: a finite number is needed"),
        ("arch: {expansion: '1 000'}", "expansion=1 000: a finite number is needed"),
        ("arch: {expansion: .nan}", "expansion=nan: a finite number is needed"),
        ("arch: {expansion: .inf}", "expansion=inf: a finite number is needed"),
        ("x" * 1_000_001, "1,000,000 at most are read"),
    ],
)
def test_settings_beside_them_are_bounded(text: str, said: str, weights: Weights, here: Path, refused: Refusal) -> None:
    """A few lines of YAML can stand for more than memory holds."""
    (here / "w").mkdir()
    save_file(weights, here / "w/w.safetensors")
    (here / "w/all_config.yaml").write_text(text)
    assert said in refused("w/w.safetensors")


def test_a_model_of_terabytes_is_counted_not_built(weights: Weights, here: Path, refused: Refusal) -> None:
    save_file(weights, here / "w.safetensors")
    (here / "all_config.yaml").write_text("arch: {pos_encodings: learned}")
    words = ["model.positions=learned", "model.hidden_size=16384", "model.num_layers=1024", "model.num_heads=2"]
    assert "seq_len 99999999: input should be less" in refused("w.safetensors", "cells=99999999", *words)
    told = refused("w.safetensors", "cells=9999999", *words)
    assert "the weights of this model for 9999999 cells" in told
