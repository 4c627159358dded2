"""Cases of sets, command lines, foreign weights and results."""

import itertools
from pathlib import Path

import numpy as np
import torch
from damage import DEEP, POSITIONS, other_array, other_json, other_kind, torn, zipped
from harness import Case
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from world import ARRAYS, BEGIN, BOARD, GENERATED, RESUME, TINY, at

USES = [
    BEGIN, ["generate", "verify", "s4"], ["generate", "show", "s4"], RESUME, RESUME,
    ["evaluate", "done", "steps=1", "name=new", "evaluation.boards=1"],
]  # fmt: skip


@st.composite
def sets(draw: st.DrawFn) -> Case:
    """A puzzle set changed or damaged; a run goes on with the very set that it was started with, or not at all."""
    words = draw(st.sampled_from(USES))
    split = draw(st.sampled_from(["train", "train", "validation", "test"]))
    files = ["dataset.json", "dataset.json", "../identifiers.json", *(f"all__{name}.npy" for name in ARRAYS)]
    file = draw(st.sampled_from(files))
    special = other_json() if file.endswith("json") else other_array()
    what, damage = draw(st.one_of(special, special, torn(), other_kind()))
    owned = ("here/run", "here/new", "here/done/evaluation/new")
    trained = "here/run" if words == RESUME else None
    return Case(f"{split}/{file}: {what}", at(f"s4/{split}/{file}", damage), words, owned, trained)


@st.composite
def generated_sets(draw: st.DrawFn) -> Case:
    """A set of any family, changed or damaged, and what the generators make of it."""
    name = draw(st.sampled_from(list(GENERATED)))
    there = f"sets/{name}"
    commands = [
        ["verify", there], ["show", there, "--index", "1"], ["show", there, "--against", f"good/{name}"],
        ["import", "npy", there, "--output-dir", "new"], ["export", there, "--output", "x.csv"],
    ]  # fmt: skip
    words = draw(st.sampled_from(commands))
    split = draw(st.sampled_from(["train", "test"]))
    others = ["dataset.json", "dataset.json", "../identifiers.json", "../test_puzzles.json", "all__ratings.npy"]
    file = draw(st.sampled_from([*others, *(f"all__{array}.npy" for array in ARRAYS)]))
    special = other_json() if file.endswith("json") else other_array()
    what, damage = draw(st.one_of(special, special, torn(), other_kind()))
    path = f"{there}/{split}/{file}"
    return Case(f"{path}: {what}", at(path, damage), ["generate", *words], ("here/new",))


SOURCES = {
    "sudoku-csv": "sudoku.csv",
    "maze-csv": "maze_train.csv",
    "addition-jsonl": "test_4digit.jsonl",
    "arc": "arc_evaluation_challenges.json",
}
TOKENS = [
    *(b"", b"-1", b"1.7", b"10", b"Infinity", b"NaN", b"null", b"true", b'"x"', b"[]", b"{}", b"[", b"]", b",", b"\n"),
    *(b"\r", b'"', b"\0", b"\xff", b"\xef\xbb\xbf", b"1e999", b"9" * 5000, b"." * 200_000, b"|||", b"\\ud800"),
]


@st.composite
def sources(draw: st.DrawFn) -> Case:
    """A file to import in which one to four places hold something else."""
    kind = draw(st.sampled_from(list(SOURCES)))
    removed = st.sampled_from([0, 1, 1, 10, 1000])
    edits = draw(st.lists(st.tuples(POSITIONS, removed, st.sampled_from(TOKENS)), min_size=1, max_size=4))

    def apply(path: Path) -> None:
        content = bytearray(path.read_bytes())
        for place, gone, token in edits:
            place %= max(1, len(content))
            content[place : place + gone] = token
        path.write_bytes(content)

    words = ["generate", "import", kind, f"sources/{SOURCES[kind]}", "--augmentations", "1", "--output-dir", "new"]
    what = ", ".join(f"{token[:9]!r} for {gone} bytes" for _, gone, token in edits)
    return Case(f"{kind}: {what}", at(f"sources/{SOURCES[kind]}", apply), words, ("here/new",))


FRAGMENTS = [
    "sudoku-4x4", "sudoku-9x9", "run", "done", "a.tar.gz", "s4", "..", ".", "/", "²", "=", "=1", "-", "nan", "x.foo",
    "x.gif", "table", "old", "cmm-1", "1", "0.001", "data=s4", "data=other", "data=.", "data=..", "data=",
    "data=s4,other", "run=new", "run=run", "run=", "run=s4", "run=a.tar.gz", "run=../outside", "run=notes.txt", "run=.",
    "name=../../x", "name=x", "name=old", "name=", "cells=16", "seed=1", "evaluation.split=../..",
    "evaluation.split=../s4/test", "evaluation.split=train", "evaluation.policies=true", "evaluation.checkpoint=best",
    "evaluation.batch_size=100000000", "steps=1", "steps=-1", "steps=99999999999999", "training.batch_size=100000000",
    "training.steps=0", "training.precision=fp16", "training.tracker=tensorboard",
    "model.num_layers=1000000", "model.h_cycles=1000000000", "model.hidden_size=16384", "optimizer.lr=1000",
    "optimizer.lr=nan", "optimizer.betas=[1]", "optimizer.betas=[[[[[", "ema.decay=1e400",
    "rollout.supervision_steps=100000000", "seed=99999999999999999999", "device=cuda:99", "device=meta", "init_from=.",
    "init_from=done", "loss.weights={}", "model={}", "model.kind=x", "data.generate=rm", "weights/w.npz",
    "weights/step_10", "weights/w.safetensors", "--resume", "--max-steps", "--max-minutes", "--memory", "--help",
    "--out", "--gif", "--json", "--name", "--table", "--exact", "--rounds", "--steps", "", BOARD, "init_from=\x1b[31m",
    "\x1b]0;t\x07", "a" * 300, "name=" + "a" * 300, "\udcff", f"optimizer.lr={DEEP}",
]  # fmt: skip
COMMANDS: dict[str, list[list[str]]] = {
    "train": [[], BEGIN[1:], RESUME[1:]],
    "evaluate": [[], ["done", "steps=1"], ["done", "steps=1", "name=new"], ["done/evaluation", "steps=1"]],
    "pack": [[], ["run"], ["."], ["run", "new.tar.gz"]],
    "solve": [["run", BOARD, "--restarts", "8"], ["done", BOARD, "steps=1", "--restarts", "8"]],
    "compare": [["done"], ["done", "--out", "table"], ["done", "--out", "s4"], ["done", "--out", "."]],
    "presets": [[], ["sudoku-4x4"]],
    "import-weights": [["weights/w.npz", "run=new"], ["weights/step_10", "run=new"]],
    "generate": [["show", "s4"], ["verify", "s4"], ["verify"], ["sudoku", "--size", "4", "--output-dir", "s4"]],
}
MAY_WRITE = ("run", "new", "runs", "table", "run/evaluation/new", "done/evaluation/new", "done/evaluation/x")


@st.composite
def command_lines(draw: st.DrawFn) -> Case:
    """Words in any order, most of them wrong."""
    command = draw(st.sampled_from(list(COMMANDS)))
    words = draw(st.sampled_from(COMMANDS[command])) + draw(st.lists(st.sampled_from(FRAGMENTS), max_size=3))
    drop = draw(st.integers(0, 4 * len(words)))
    words = words[:drop] + words[drop + 1 :]
    if command == "train":  # a preset by itself would train for minutes
        words = [*words, *(word for word in TINY if word.split("=")[0] not in " ".join(words))]
        words = [word for word in words if "--resume" not in words or word not in TINY]
    return Case("command line", lambda _: None, [command, *words], tuple(f"here/{name}" for name in MAY_WRITE))


def _laughs(first: str, rest: str) -> str:
    """A few lines of YAML that stand for 9⁸ values."""
    names = "abcdefghi"
    lines = [rest.format(b, ", ".join([f"*{a}"] * 9)) for a, b in itertools.pairwise(names)]
    return first + "".join(lines) + "arch: {num_heads: *i}\n"


YAML = [
    _laughs("a: &a [x, x]\n", "{0}: &{0} [{1}]\n"), _laughs("a: &a {k: 1}\n", "{0}: &{0}\n  <<: [{1}]\n"), "[" * 3000,
    "- 1", "\x00", DEEP, "arch: !!python/object/apply:os.system [id]",
    *(f"arch: {{{setting}}}" for setting in (
        "num_heads: 0", "seq_len: -1", "num_heads: 99999999999", "H_cycles: 1000000000", "seq_len: 1000000000000",
        "expansion: .nan", "loss: {loss_type: [1]}", "num_puzzle_identifiers: 100000000000", "expansion: x",
        "rope_theta: -1", "halt_max_steps: x", "rms_norm_eps: x", "forward_dtype: [1]", "pos_encodings: {a: 1}",
        "puzzle_emb_len: 999999999", "expansion: 1e300")),
]  # fmt: skip
NAMES = [
    "embed_tokens.embedding_weight", "lm_head.weight", "H_init", "q_head.bias", "puzzle_emb.weights",
    "L_level.layers.1000000.mlp.down_proj.weight", "L_level.layers.0.mlp.gate_up_proj.weight",
    "L_level.layers.-1.mlp.down_proj.weight", "L_level.layers.²",
]  # fmt: skip
KINDS = [torch.float32, torch.int64, torch.bool, torch.complex64, torch.bfloat16, torch.float8_e4m3fn]
SHAPES = [(), (0,), (1,), (2, 2), (2, 2, 2), (0, 8), (6, 0)]


@st.composite
def weights(draw: st.DrawFn) -> Case:
    """A checkpoint of the authors' code, damaged or made up."""
    kind = draw(st.sampled_from(["torn", "torn", "other kind", "tensor", "tensor", "yaml", "text", "raw"]))
    cells = draw(st.sampled_from([[], ["cells=16"], ["data=s4"], ["cells=0"], ["cells=100000000000"]]))
    what, file = "", draw(st.sampled_from(["step_10", "w.safetensors", "w.npz"]))
    if kind in ("torn", "other kind"):
        damaged = draw(st.sampled_from([file, file, "all_config.yaml"]))
        what, damage = draw(torn() if kind == "torn" else other_kind())
    elif kind == "tensor":
        file = damaged = "w.safetensors"
        name, shape, dtype = (draw(st.sampled_from(list(these))) for these in (NAMES, SHAPES, KINDS))
        what, damage = f"{name} {shape} {dtype}", lambda path: _replaced(path, name, torch.zeros(shape).to(dtype))
    elif kind == "yaml":
        damaged, text = "all_config.yaml", draw(st.sampled_from(YAML))
        what, damage = text[:40], lambda path: path.write_text(text)
    else:
        file = damaged = "w.npz"
        number = draw(st.integers(0, 20))
        raw = zipped({"param.a.npy": YAML[number % len(YAML)].encode(), "b": b""})
        what, damage = f"{number}", lambda path: _of_text(path, number) if kind == "text" else path.write_bytes(raw)
    words = ["import-weights", f"weights/{file}", "run=new", *cells]
    return Case(f"{damaged}: {kind}, {what}", at(f"weights/{damaged}", damage), words, ("here/new",))


def _replaced(path: Path, name: str, tensor: torch.Tensor) -> None:
    whole = load_file(path)
    key = next((key for key in whole if key.endswith(name)), name)
    save_file(whole | {key: tensor}, path)


def _of_text(path: Path, number: int) -> None:
    with np.load(path) as arrays:
        entries = dict(arrays)
    entries[sorted(entries)[number % len(entries)]] = np.array(["text", "x"], "S4" if number % 2 else "U4")
    np.savez(path, **entries)


@st.composite
def results(draw: st.DrawFn) -> Case:
    """results.json of an evaluation, changed or damaged; and folders to write to that hold other things."""
    what, damage = draw(st.one_of(other_json(), other_json(), torn(), other_kind()))
    out = draw(st.sampled_from(["table", "table", "s4", ".", "a.tar.gz", "done", "new", "/"]))
    again = ["evaluate", "done", "steps=1", "name=old", "evaluation.boards=0"]
    words = draw(st.sampled_from([["compare", "done", "--out", out]] * 3 + [["presets", "--table", "cmm-1"], again]))
    notes = draw(st.sampled_from(["", "table", "done/evaluation/old"]))

    def apply(folder: Path) -> None:
        at("done/evaluation/old/results.json", damage)(folder)
        if notes:
            (folder / "here" / notes / "notes.txt").write_text("mine")

    owned = {"table", "done/evaluation/old"} - {notes}
    what = f"results.json: {what}, notes in {notes or 'none'}"
    return Case(what, apply, words, tuple(f"here/{name}" for name in ("new", *sorted(owned))))
