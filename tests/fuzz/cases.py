"""What is fuzzed: a set, runs, an archive and foreign weights, and for each family of cases what is done to it."""

from __future__ import annotations

import io
import json
import os
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from damage import DEEP, other_array, other_json, other_kind, other_tensors, torn, zipped
from harness import Case
from hypothesis import strategies as st
from safetensors.torch import save_file

from reason.cli import main
from reason.interop.original import to_foreign
from reason.models.base import Shape
from reason.models.recursive import RecursiveConfig, RecursiveModel

TINY = [
    "model.hidden_size=16",
    "model.num_heads=2",
    "model.num_layers=1",
    "training.steps=4",
    "training.batch_size=4",
    "training.log_every=1",
    "training.checkpoint_every=1",
    "training.keep_checkpoints=2",
    "training.precision=fp32",
    "rollout.supervision_steps=2",
]
SET = ["train", "test", "validation"]
ARRAYS = ["inputs", "labels", "puzzle_identifiers", "puzzle_indices", "group_indices"]
STATE = ["weights.safetensors", "ema.safetensors", "state.safetensors", "state.json"]
RESUME = ["train", "run=run", "--resume"]
SHOWN = "1..4 .... .... 4..1"


def make_world(folder: Path) -> str:
    """The undamaged world; returns the digest of its run where training goes on to the end."""
    here = folder / "here"
    here.mkdir(parents=True)
    (folder / "outside.txt").write_text("not yours")
    (folder / "outside").mkdir()
    (folder / "outside/results.json").write_text("{}")
    before = Path.cwd()
    os.chdir(here)
    try:
        for seed, name in ((1, "s4"), (2, "other")):
            sizes = ["--size", "4", "--train", "6", "--validation", "2", "--test", "3"]
            _do("generate", "sudoku", *sizes, "--seed", str(seed), "--output-dir", name)
        _do("train", "sudoku-4x4", "data=s4", "run=run", *TINY, "training.monitor.every=2", "--max-steps", "3")
        _do("pack", "run", "a.tar.gz")
        shutil.copytree("run", "done")
        _do("train", "run=done", "--resume")
        _do("evaluate", "done", "steps=2", "name=old", "evaluation.boards=1")
        _do("compare", "done", "--out", "table")
        for place in ("run", "run/checkpoints", "done/evaluation", "done/evaluation/old", "table", "s4", "."):
            Path(place, "notes.txt").write_text("mine")
        _foreign(Path("weights"))
    finally:
        os.chdir(before)
    from harness import digest

    return digest(here / "done")


def _do(*words: str) -> None:
    assert main(list(words)) == 0, words


def _foreign(folder: Path) -> None:
    """A model under the authors' names, in each format."""
    folder.mkdir()
    torch.manual_seed(0)
    config = RecursiveConfig(hidden_size=8, num_layers=1, num_heads=2, puzzle_emb_len=1)
    tensors = to_foreign(RecursiveModel(config, Shape(seq_len=16, vocab_size=6)))
    tensors = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
    torch.save(tensors, folder / "step_10")
    save_file(tensors, folder / "w.safetensors")
    np.savez(folder / "w.npz", **{f"param.{name}": tensor.numpy() for name, tensor in tensors.items()})
    (folder / "all_config.yaml").write_text(
        "arch:\n  num_heads: 2\n  H_cycles: 1\n  L_cycles: 1\n  puzzle_emb_len: 1\n  seq_len: 16\n"
    )


def _at(file: str, damage: Callable[[Path], object]) -> Callable[[Path], object]:
    return lambda folder: damage(folder / "here" / file)


# Archives


@st.composite
def repacked(draw: st.DrawFn) -> tuple[str, Callable[[Path], object]]:
    """A tar.gz whose members are not those of a run."""
    kind = draw(
        st.sampled_from(
            [
                "extra",
                "escape",
                "twice",
                "drop",
                "link",
                "hardlink",
                "fifo",
                "device",
                "bomb",
                "rename",
                "content",
                "absolute",
                "folder",
                "control",
                "alone",
                "sparse",
                "deep",
                "raw",
            ]
        )
    )
    at, (text, edit) = draw(st.integers(0, 100)), draw(torn())

    def apply(path: Path) -> None:
        with tarfile.open(path) as archive:
            members = [(m, archive.extractfile(m).read()) for m in archive.getmembers() if m.isfile()]  # type: ignore[union-attr]
        index = at % len(members)
        chosen, content = members[index]
        if kind == "drop":
            del members[index]
        elif kind == "alone":
            members = [(m, data) for m, data in members if m.name in ("config.json", "manifest.json")]
        elif kind in ("extra", "escape", "absolute", "control", "deep"):
            names = {
                "extra": "checkpoints/step-000003/evil.pkl",
                "escape": "../../outside.txt",
                "absolute": "/tmp/outside",
                "control": "config\x1b[31m.json",
                "deep": "checkpoints/step-²/state.json",
            }
            members.append((tarfile.TarInfo(names[kind]), b"{}"))
        elif kind == "twice":
            members.append((chosen, content[::-1]))
        elif kind in ("link", "hardlink", "fifo", "device", "folder"):
            types = {
                "link": tarfile.SYMTYPE,
                "hardlink": tarfile.LNKTYPE,
                "fifo": tarfile.FIFOTYPE,
                "device": tarfile.CHRTYPE,
                "folder": tarfile.DIRTYPE,
            }
            chosen.type, chosen.linkname, content = types[kind], "/etc/hostname", b""
            members[index] = (chosen, content)
        elif kind == "bomb":
            members[index] = (chosen, bytes(30_000_000))
        elif kind == "rename":
            chosen.name = chosen.name.replace("step-000003", "step-000009")
        elif kind == "content":
            scratch = path.with_name("scratch")
            scratch.write_bytes(content)
            edit(scratch)
            members[index] = (chosen, scratch.read_bytes())
            scratch.unlink()
        _tar(path, members, "w" if kind == "raw" else "w:gz")

    return f"{kind} of member {at}, {text}", apply


def _tar(path: Path, members: list[tuple[tarfile.TarInfo, bytes]], mode: Any) -> None:
    with tarfile.open(path, mode) as archive:
        for member, content in members:
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


@st.composite
def archives(draw: st.DrawFn) -> Case:
    """An archive damaged, then unpacked and gone on with."""
    what, damage = draw(st.one_of(torn(), torn(), repacked(), other_kind()))
    line = draw(st.sampled_from([["train", "run=a.tar.gz", "--resume"], ["train", "a.tar.gz", "run=new", "--resume"]]))
    run = "here/new" if "run=new" in line else "here/runs/a"
    return Case(f"archive: {what}", _at("a.tar.gz", damage), line, (run,), trained=run)


# Checkpoints

READERS = [
    *[RESUME] * 6,
    ["solve", "run", SHOWN, "steps=1"],
    ["pack", "run", "b.tar.gz"],
    ["evaluate", "run", "steps=1", "evaluation.boards=0"],
    ["train", "sudoku-4x4", "data=s4", "run=new", "init_from=run", *TINY, "--max-steps", "1"],
    ["solve", "run", SHOWN, "steps=1", "evaluation.checkpoint=best"],
]


def _read(words: list[str]) -> dict[str, Any]:
    return {"words": words, "owned": ("here/run",), "trained": "here/run" if "--resume" in words else None}


@st.composite
def checkpoints(draw: st.DrawFn) -> Case:
    """A checkpoint damaged, then gone on with, evaluated, asked or packed."""
    step = draw(st.sampled_from(["step-000003", "step-000003", "step-000002"]))
    file = draw(st.sampled_from([*STATE, *STATE, *STATE, "manifest.json", "../best.json", "../../metrics.jsonl", "."]))
    damages = [torn(), other_kind()] if file == "." else [torn(), torn(), torn(), other_kind()]
    damages += [other_json()] if file.endswith("json") else [other_tensors()] if file.endswith("safetensors") else []
    what, damage = draw(st.one_of(damages))

    def apply(path: Path) -> None:
        if path.exists():  # a version without a manifest has none to damage
            damage(path)

    path = f"run/checkpoints/{step}/{file}" if file != "." else f"run/checkpoints/{step}"
    return Case(f"{path}: {what}", _at(path, apply), **_read(draw(st.sampled_from(READERS))))


@st.composite
def tampered(draw: st.DrawFn) -> Case:
    """Both checkpoints changed alike and sealed again, as someone would who means it."""
    file = draw(st.sampled_from([*STATE, "state.json"]))
    what, damage = draw(other_json() if file.endswith("json") else other_tensors())
    words = draw(st.sampled_from(READERS))

    def apply(folder: Path) -> None:
        for step in folder.glob("here/run/checkpoints/step-*"):
            damage(step / file)
            _seal(step)

    return Case(f"sealed {file}: {what}", apply, words, ("here/run",))


def _seal(folder: Path) -> None:
    try:
        from reason.training.integrity import seal
    except ImportError:  # a version that keeps no checksums
        return
    seal(folder)


@st.composite
def strange_folders(draw: st.DrawFn) -> Case:
    """Folders and files that lie where checkpoints or runs do, or are gone from there."""
    kind = draw(
        st.sampled_from(
            [
                "step-²",
                "step-٣",
                "step-",
                "step-000009",
                "step-3",
                "moved",
                "dangling",
                "file",
                "renamed",
                "no metrics",
                "nothing but config",
                "a run of ²",
            ]
        )
    )
    words = draw(
        st.sampled_from([*READERS, ["train", "sudoku-4x4", "data=s4", *TINY, "--max-steps", "1"], ["evaluate"]])
    )

    def apply(folder: Path) -> None:
        run = folder / "here/run"
        if kind.startswith("step-"):
            (run / "checkpoints" / kind).mkdir()
            if len(kind) % 2:
                (run / "checkpoints" / kind / "state.json").write_text("{}")
        elif kind in ("moved", "nothing but config"):
            (run / "checkpoints").rename(folder / "here/elsewhere")
        elif kind in ("dangling", "file"):
            shutil.rmtree(run / "checkpoints")
            (run / "checkpoints").symlink_to("nowhere") if kind == "dangling" else (run / "checkpoints").write_text("x")
        elif kind == "renamed":
            (run / "checkpoints/step-000003").rename(run / "checkpoints/step-000007")
        elif kind == "a run of ²":
            (folder / "here/runs/sudoku-4x4-²/checkpoints/step-²").mkdir(parents=True)
            (folder / "here/runs/sudoku-4x4-²/checkpoints/step-²/state.json").write_text("{}")
        if kind in ("no metrics", "nothing but config"):
            (run / "metrics.jsonl").unlink()

    return Case(f"folders: {kind}", apply, words, ("here/run", "here/runs"), trained=_read(words)["trained"])


# Configs

ASKED = [
    RESUME,
    RESUME,
    ["solve", "run", SHOWN, "steps=1"],
    ["solve", "run", SHOWN, "steps=1"],
    ["pack", "run", "b.tar.gz"],
    ["evaluate", "run", "steps=1", "evaluation.boards=0"],
]


@st.composite
def configs(draw: st.DrawFn) -> Case:
    """A run's config.json changed or damaged."""
    what, damage = draw(st.one_of(other_json(), other_json(), other_json(), torn(), other_kind()))
    words = draw(st.sampled_from(ASKED))
    return Case(f"config.json: {what}", _at("run/config.json", damage), **_read(words))


# Sets

USES = [
    ["train", "sudoku-4x4", "data=s4", "run=new", *TINY, "--max-steps", "1"],
    ["generate", "verify", "s4"],
    ["generate", "show", "s4"],
    RESUME,
    RESUME,
    ["evaluate", "done", "steps=1", "name=new", "evaluation.boards=1"],
]


@st.composite
def sets(draw: st.DrawFn) -> Case:
    """A puzzle set changed or damaged."""
    words = draw(st.sampled_from(USES))
    split = draw(st.sampled_from(["train", "train", "validation", "test"] if words[0] == "train" else SET))
    file = draw(
        st.sampled_from(
            ["dataset.json", "dataset.json", *(f"all__{name}.npy" for name in ARRAYS), "../identifiers.json"]
        )
    )
    special = other_json() if file.endswith("json") else other_array()
    what, damage = draw(st.one_of(special, special, torn(), other_kind()))
    owned = ("here/run", "here/new", "here/done/evaluation/new")
    return Case(
        f"{split}/{file}: {what}", _at(f"s4/{split}/{file}", damage), words, owned, trained=_read(words)["trained"]
    )


# Command lines

FRAGMENTS = [
    "sudoku-4x4",
    "sudoku-9x9",
    "run",
    "done",
    "a.tar.gz",
    "s4",
    "data=s4",
    "data=other",
    "data=.",
    "data=..",
    "data=",
    "run=new",
    "run=run",
    "run=",
    "run=s4",
    "run=a.tar.gz",
    "run=../outside",
    "run=notes.txt",
    "name=../../x",
    "name=x",
    "name=old",
    "name=",
    "evaluation.calibration=../..",
    "evaluation.split=../s4/test",
    "evaluation.split=train",
    "evaluation.policies=true",
    "evaluation.checkpoint=best",
    "steps=1",
    "steps=-1",
    "steps=99999999999999",
    "training.batch_size=100000000",
    "evaluation.batch_size=100000000",
    "model.num_layers=1000000",
    "model.h_cycles=1000000000",
    "model.hidden_size=16384",
    "optimizer.lr=1000",
    "optimizer.lr=nan",
    "optimizer.betas=[1]",
    "optimizer.betas=[[[[[",
    "seed=1",
    "seed=99999999999999999999",
    "device=cuda:99",
    "device=meta",
    "training.steps=0",
    "training.monitor.split=../test",
    "training.precision=fp16",
    "init_from=.",
    "init_from=done",
    "init_from=\x1b[31m",
    "loss.weights={}",
    "model={}",
    "model.kind=x",
    "data.generate=rm",
    "--resume",
    "--max-steps",
    "1",
    "--max-minutes",
    "0.001",
    "nan",
    "--memory",
    "--help",
    "--out",
    "table",
    "..",
    ".",
    "/",
    "",
    "²",
    "--gif",
    "x.foo",
    "x.gif",
    "--json",
    SHOWN,
    "-",
    "--name",
    "old",
    "--table",
    "cmm-1",
    "--exact",
    "rollout.supervision_steps=100000000",
    "ema.decay=1e400",
    "training.tracker=tensorboard",
    "weights/w.npz",
    "cells=16",
    "weights/step_10",
    "weights/w.safetensors",
    "--rounds",
    "--steps",
    "\x1b]0;t\x07",
    "a" * 300,
    "name=" + "a" * 300,
    "=",
    "=1",
]
COMMANDS = {
    "train": [[], ["sudoku-4x4", "data=s4", "run=new", *TINY, "--max-steps", "1"], ["run=run", "--resume"]],
    "evaluate": [[], ["done", "steps=1"], ["done", "steps=1", "name=new"], ["done/evaluation", "steps=1"]],
    "pack": [[], ["run"], ["."], ["run", "new.tar.gz"]],
    "solve": [["run", SHOWN], ["done", SHOWN, "steps=1"]],
    "compare": [["done"], ["done", "--out", "table"], ["done", "--out", "s4"], ["done", "--out", "."]],
    "presets": [[], ["sudoku-4x4"]],
    "import-weights": [["weights/w.npz", "run=new"], ["weights/step_10", "run=new"]],
    "generate": [["show", "s4"], ["verify", "s4"], ["verify"], ["sudoku", "--size", "4", "--output-dir", "s4"]],
}


@st.composite
def command_lines(draw: st.DrawFn) -> Case:
    """Words in any order, most of them wrong."""
    command = draw(st.sampled_from(list(COMMANDS)))
    words = draw(st.sampled_from(COMMANDS[command])) + draw(st.lists(st.sampled_from(FRAGMENTS), max_size=3))
    if "bench" in words or ("--max-steps" not in words and command == "train" and "run" in words):
        words = [*words, "--max-steps", "1"]
    drop = draw(st.integers(0, 4 * len(words)))
    words = words[:drop] + words[drop + 1 :]
    owned = (
        "here/run",
        "here/new",
        "here/runs",
        *(f"here/{run}/evaluation/{n}" for run in ("run", "done") for n in ("new", "x")),
    )
    return Case("command line", lambda _: None, [command, *words], owned)


# Foreign weights, results


YAML = [
    "a: &a [x, x, x, x, x, x, x, x, x]\n"
    + "".join(
        f"{b}: &{b} [*{a}, *{a}, *{a}, *{a}, *{a}, *{a}, *{a}, *{a}]\n"
        for a, b in zip("abcdefgh", "bcdefghi", strict=True)
    )
    + "arch: {num_heads: *i}\n",
    "m: &m {k: 1}\n"
    + "".join(
        f"{b}: &{b}\n  <<: [*{a}, *{a}, *{a}, *{a}, *{a}, *{a}, *{a}, *{a}, *{a}]\n"
        for a, b in zip("mnopqrs", "nopqrst", strict=True)
    )
    + "arch:\n  <<: [*t, *t]\n",
    "[" * 3000,
    "arch: !!python/object/apply:os.system [id]",
    "arch: {num_heads: 0}",
    "arch: {seq_len: -1}",
    "arch: {num_heads: 99999999999}",
    "arch: 3",
    "- 1",
    "\x00",
    "arch: {H_cycles: 1000000000}",
    "arch: {seq_len: 1000000000000}",
    "arch: {expansion: .nan}",
    "arch: {loss: {loss_type: [1]}}",
    "arch: {num_puzzle_identifiers: 100000000000}",
    "arch: {expansion: x}",
    "arch: {rope_theta: -1}",
    DEEP,
    "arch: {halt_max_steps: x}",
]


@st.composite
def weights(draw: st.DrawFn) -> Case:
    """A checkpoint of the authors' code, damaged or made up."""
    file = draw(st.sampled_from(["step_10", "w.safetensors", "w.safetensors", "w.npz", "all_config.yaml"]))
    text = draw(st.sampled_from(YAML))
    shape = draw(st.sampled_from([(), (0,), (1,), (2, 2), (2, 2, 2), (0, 8), (6, 0)]))
    name = draw(
        st.sampled_from(
            [
                "embed_tokens.embedding_weight",
                "lm_head.weight",
                "L_level.layers.1000000.mlp.down_proj.weight",
                "H_init",
                "q_head.bias",
                "puzzle_emb.weights",
                "L_level.layers.0.mlp.gate_up_proj.weight",
                "L_level.layers.-1.mlp.down_proj.weight",
                "L_level.layers.²",
            ]
        )
    )
    dtype = draw(
        st.sampled_from([torch.float32, torch.int64, torch.bool, torch.complex64, torch.bfloat16, torch.float8_e4m3fn])
    )

    def replaced(path: Path) -> None:
        from safetensors.torch import load_file

        whole = load_file(path.with_name("w.safetensors"))
        key = next((k for k in whole if k.endswith(name)), name)
        save_file(whole | {key: torch.zeros(shape).to(dtype)}, path.with_name("w.safetensors"))

    def strange(path: Path) -> None:
        path.with_name("all_config.yaml").write_text(text)

    def as_text(path: Path) -> None:
        with np.load(path.with_name("w.npz")) as arrays:
            entries = dict(arrays)
        entries[sorted(entries)[len(text) % len(entries)]] = np.array(["text", "x"], "S4" if len(text) % 2 else "U4")
        np.savez(path.with_name("w.npz"), **entries)

    raw = lambda path: path.with_name("w.npz").write_bytes(zipped({"param.a.npy": text.encode(), "b": b""}))  # noqa: E731
    special = [
        ("tensor " + name, replaced),
        ("yaml " + text[:20], strange),
        ("text in an array", as_text),
        ("raw npz", raw),
    ]
    what, damage = draw(st.one_of(torn(), other_kind(), st.sampled_from(special), st.sampled_from(special)))
    named = {replaced: "w.safetensors", as_text: "w.npz", raw: "w.npz"}.get(
        damage, file if file != "all_config.yaml" else "w.npz"
    )
    cells = draw(st.sampled_from([[], ["cells=16"], ["data=s4"], ["cells=0"], ["cells=100000000000"]]))
    return Case(
        f"{file}: {what}, {shape}, {dtype}",
        _at(f"weights/{file}", damage),
        ["import-weights", f"weights/{named}", "run=new", *cells],
    )


@st.composite
def results(draw: st.DrawFn) -> Case:
    """results.json of an evaluation, changed or damaged, then put beside others; and folders that hold other things."""
    what, damage = draw(st.one_of(other_json(), other_json(), torn(), other_kind()))
    file = draw(st.sampled_from(["evaluation/old/results.json"] * 3 + ["evaluation/old/boards.json", "config.json"]))
    if not file.endswith("results.json"):
        what, damage = draw(torn())
    out = draw(
        st.sampled_from(
            [[], ["--out", "table"], ["--out", "s4"], ["--out", "."], ["--out", "a.tar.gz"], ["--out", "done"]]
        )
    )
    words = draw(
        st.sampled_from(
            [
                ["compare", "done", *out],
                ["compare", "done", "done", *out],
                ["presets", "--table", "cmm-1"],
                ["evaluate", "done", "steps=1", "name=old", "evaluation.boards=0"],
            ]
        )
    )
    old = tuple(f"here/done/evaluation/old/{name}" for name in _written("done/evaluation/old"))
    table = tuple(f"here/table/{name}" for name in _written("table"))
    return Case(f"{file}: {what}", _at(f"done/{file}", damage), words, (*old, *table))


def _written(place: str) -> list[str]:
    names = {"table": "comparison", "done/evaluation/old": "results accuracy_by_step boards report halting difficulty"}[
        place
    ]
    ours = [f"{name}.{kind}" for name in names.split() for kind in ("json", "csv", "png", "html")]
    return [*ours, ".written.json"]


FAMILIES: dict[str, tuple[st.SearchStrategy[Case], int]] = {
    "archives": (archives(), 300),
    "checkpoints": (checkpoints(), 300),
    "tampered checkpoints": (tampered(), 150),
    "strange folders": (strange_folders(), 50),
    "configs": (configs(), 250),
    "sets": (sets(), 200),
    "command lines": (command_lines(), 150),
    "foreign weights": (weights(), 100),
    "results": (results(), 50),
}  # 1,550 cases


def as_json(tree: Any) -> str:
    """For a report."""
    return json.dumps(tree, default=str)
