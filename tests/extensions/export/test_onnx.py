"""reason export --onnx: graphs that ONNX Runtime computes as torch does."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import make_set, output, refusal
from test_queued import some

import reason
from reason.cli import main
from reason.extensions.export.onnx import batch_of, compared, onnx_logits, torch_answers
from reason.plugins import extensions

pytest.importorskip("onnxscript", reason="pip install -e '.[onnx]'")
pytest.importorskip("onnxruntime", reason="pip install -e '.[onnx]'")
NARROW = [
    "model.hidden_size=16", "training.steps=1", "training.batch_size=4", "training.log_every=1", "model.num_layers=1",
]  # fmt: skip
FEW = [*NARROW, "rollout.supervision_steps=3", "model.h_cycles=1", "model.l_cycles=2", "model.num_heads=2"]
SUDOKU, MAZE = "sudoku --size 4 --train 24 --test 12 --seed 1", "maze --size 5 --min-path 4 --train 8 --test 3 --seed 0"
MODELS = {  # a preset, its set and settings
    "attention": ("sudoku-4x4", SUDOKU, [*FEW, "model.mixer=attention", "model.positions=rotary"]),
    "two networks": ("sudoku-6x6-hrm", SUDOKU, [*FEW, "model.expansion=1"]),
    "mlp": ("sudoku-4x4", SUDOKU, [*FEW, "model.mixer=mlp", "model.positions=none", "model.integrator=rk4"]),
    "symbols": ("sudoku-9x9", SUDOKU, FEW[:-1]),
    "open symbols": ("sudoku-9x9", SUDOKU, [*FEW[:-1], "model.open_only=true", "model.initial=buffer"]),
    "local": ("maze-any", MAZE, [*FEW[:-1], "model.initial=random"]),
}
if "declared" in extensions():
    KILLER = "killer --train 6 --test 3 --seed 1"
    MODELS["linear"] = ("killer", KILLER, [*FEW[:-1], "init_from=none"])
if "group_attention" in extensions():
    MODELS["groups"] = ("sudoku-9x9", SUDOKU, [*MODELS["open symbols"][2], "model.mixer=group-attention"])
if "looped" in extensions():
    MODELS["looped"] = ("sudoku-6x6-looped", SUDOKU, [*NARROW, "model.num_heads=2"])


@pytest.fixture(scope="module")
def sets(tmp_path_factory):
    folder = tmp_path_factory.mktemp("onnx-sets")
    return {words: make_set(words, folder / words.split()[0]) for words in {words for _, words, _ in MODELS.values()}}


def run_of(name, sets, folder):
    preset, words, settings = MODELS[name]
    assert main(["train", preset, f"data={sets[words]}", f"run={folder / 'run'}", *settings]) == 0
    return folder / "run"


@pytest.mark.parametrize("name", some(MODELS, "local"))
def test_graphs_answer_as_torch_does(name, sets, tmp_path):
    run, out = run_of(name, sets, tmp_path), tmp_path / "graphs"
    said = output(["export", str(run), str(out), "--onnx"], f"{out}: ")
    card = json.loads((out / "card.json").read_text())
    checked = card["checked"]
    assert f"{checked['equal']} of {checked['answers']} answers equal" in said
    assert checked["equal"] == checked["answers"] == checked["puzzles"] * checked["steps"]
    assert checked["of"].endswith("test split")
    assert checked["largest_relative_difference"] < 2e-5
    assert card["drawn"] == (["z_h", "z_l"][: len(card["state"])] if name in ("local", "symbols", "linear") else [])
    assert str(tmp_path) not in (out / "card.json").read_text()
    graphs = [path.read_bytes() for path in out.glob("*.onnx")]
    assert len(graphs) == 2
    assert not any(b".py" in graph for graph in graphs)  # nothing of this machine's files
    block = re.search(r"```python\n(.*?)```", (Path(__file__).parents[3] / "docs/export.md").read_text(), re.DOTALL)
    program = block[1].replace('f"{name}.onnx"', f'f"{out}/{{name}}.onnx"').replace('"card.json"', f'"{out}/card.json"')
    exec(compile(program, "export.md", "exec"), {"puzzle": [1] * card["shape"]["seq_len"]})
    assert card["any_size"] == (name == "local")
    assert not card["any_size"] or answers_larger_boards(run, out)


def test_logits_that_are_none_are_no_answer():
    logits = np.zeros((1, 1, 2, 3))
    assert compared(logits, logits + 1) == (1, 1)
    for ours, theirs in ((logits * np.nan, logits + 1), (logits, logits * np.nan)):
        assert not compared(ours, theirs)[0] <= 1


def answers_larger_boards(run, out):
    model = reason.load(run, device="cpu", training={"precision": "fp32"}).model
    structure = model.shape.structure.model_copy(update={"grid": (7, 7)})
    model.add_shape(model.shape.model_copy(update={"seq_len": 49, "structure": structure}))
    larger = batch_of(torch.randint(1, 6, (2, 49)))
    expected, card = torch_answers(model, larger, 3, 0), json.loads((out / "card.json").read_text())
    card["shape"]["structure"]["grid"] = [7, 7]
    return compared(onnx_logits(out, card, larger, expected.before), expected.logits)[0] < 2e-5


def test_what_no_graph_can_hold_is_refused_in_a_line(sets, tmp_path, monkeypatch):
    run = run_of("attention", sets, tmp_path)
    words = ["export", str(run), str(tmp_path / "out"), "--onnx"]
    refusal([*words, "--stored", "fp16"], "--stored fp16: the graphs of --onnx are float32")
    monkeypatch.setattr("torch.onnx.export", lambda *_, **__: 1 / 0)
    refusal(words, "cannot become ONNX graphs", "torch's exporter says division by zero")
    assert not (tmp_path / "out").exists()
