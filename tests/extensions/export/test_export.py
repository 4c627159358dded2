"""reason export and reason models: weights without a training, and what their card says."""

import json
from pathlib import Path

import pytest
import torch
from conftest import COMMIT, output, refusal
from huggingface_hub import ModelCard
from safetensors.torch import load_file

import reason
from reason.cli import main
from reason.config.overrides import override, read_config
from reason.errors import ConfigError
from reason.extensions.export.card import markdown
from reason.extensions.export.hub import Reasoner
from reason.extensions.export.model import export_run


@pytest.fixture(scope="module")
def run(sudoku_4x4, tmp_path_factory):
    brief = {"training": {"steps": 4, "batch_size": 8, "precision": "fp32"}, "model": {"hidden_size": 16}}
    return reason.train("sudoku-4x4", data=sudoku_4x4, run=tmp_path_factory.mktemp("export") / "run", **brief)


@pytest.fixture(scope="module")
def exported(run, tmp_path_factory):
    out = tmp_path_factory.mktemp("models") / "mine"
    words = ["--stored", "fp16", "evaluation.weights=ema", "steps=3", "evaluation.limit=6"]
    assert main(["export", str(run.directory), str(out), *words]) == 0
    return out


def test_an_exported_model_is_the_run_rounded(run, exported):
    model = reason.load(exported)
    assert (model.step, model.weights) == (4, "ema")
    for (name, ours), theirs in zip(model.model.named_parameters(), run.model.parameters(), strict=True):
        assert torch.equal(ours, theirs.half().float()), name
    assert {path.name for path in exported.iterdir()} == {"config.json", "card.json", "README.md", "checkpoints"}
    stored = load_file(exported / "checkpoints" / "step-000004" / "weights.safetensors")
    assert {tensor.dtype for tensor in stored.values()} == {torch.float16}
    for file in exported.rglob("*.json"):  # nothing of this machine
        assert str(run.directory) not in file.read_text()


def test_the_card_states_what_was_measured_and_how(run, exported, sudoku_4x4):
    card = json.loads((exported / "card.json").read_text())
    measured = run.evaluate(steps=3, name="again", evaluation={"limit": 6})
    one = card["evaluations"][0]
    assert one["exact_by_step"] == measured["exact_by_step"]
    assert (one["puzzles"], one["steps"], one["set"]) == (6, 3, "sudoku-4x4")
    assert card["summary"].startswith("TRM with an MLP mixer")
    assert (card["step"], card["parameters"], card["seed"]) == (4, measured["parameters"], 0)
    assert card["data"][0]["made_by"].endswith("sudoku --train 24 --validation 0 --test 12 --seed 1 --size 4")
    assert card["command"].startswith("python train.py sudoku-4x4 data=data/sudoku-4x4 model.hidden_size=16 ")
    assert (exported / "README.md").read_text() == markdown(card)
    card["data"][0]["made_by"] = "made\n```\n<script>alert(1)</script>"  # no HTML of a set
    assert "\nmade\\n```\\n&lt;script>" in markdown(card)


def test_the_command_of_the_card_gives_the_config(run, exported, sudoku_4x4, here):
    (here / "data").mkdir()
    (here / "data/sudoku-4x4").symlink_to(sudoku_4x4)
    words = json.loads((exported / "card.json").read_text())["command"].split()[2:]
    assert main(["train", *words, "run=again"]) == 0
    again = reason.load("again")
    assert all(torch.equal(a, b) for a, b in zip(run.model.parameters(), again.model.parameters(), strict=True))


def test_what_cannot_be_exported_is_refused(run, exported, tmp_path):
    with pytest.raises(ConfigError, match="is there already"):
        export_run(run.directory, exported, read_config(run.directory / "config.json"), "fp32", [])
    raw = override(read_config(exported / "config.json"), {"evaluation.weights": "raw"})
    with pytest.raises(ConfigError, match=r"evaluation\.weights=raw: .* keeps none"):
        export_run(exported, tmp_path / "raw", raw, "fp32", [])
    assert not list(tmp_path.iterdir())


def test_a_model_goes_to_the_hub_and_back(run, sudoku_4x4, hub):
    there = Path(hub, "models--you--first/snapshots", COMMIT)
    assert Reasoner(**vars(run)).push_to_hub("you/first", private=True).endswith(COMMIT)
    card = ModelCard.load(there / "README.md")
    assert card.data.tags == ["recursive-reasoning", "TRM", "arxiv:2510.04871"]
    (result,) = card.data.eval_results
    assert (card.data.license, result.dataset_name, result.metric_name) == ("mit", "sudoku-4x4", "step 16")
    for loaded in (Reasoner.from_pretrained("you/first"), *map(reason.load, ("hf:you/first", "hf:you/first@main"))):
        assert loaded.directory == Path("runs/you--first-0123456")
        assert all(torch.equal(a, b) for a, b in zip(loaded.model.parameters(), run.model.parameters(), strict=True))
    assert main(["evaluate", "hf:you/first", f"data={sudoku_4x4}", "steps=1", "name=there"]) == 0
    assert not (there / "evaluation").exists()
    assert Reasoner.from_pretrained(loaded.directory).step == 4
    refusal("evaluate hf:you/second", "hf:you/second cannot be fetched")
    refusal("evaluate hf:you/first/third", "hf:you/first/third cannot be fetched")


def test_models_of_the_package(exported, sudoku_4x4, here, monkeypatch):
    monkeypatch.setattr("reason.pretrained.FOLDER", exported.parent)
    monkeypatch.setattr("reason.runs.evaluation.FOLDER", exported.parent)
    monkeypatch.setenv("COLUMNS", "160")
    refusal(["train", f"run={exported}", "--resume"], "no training state to resume")
    output("models", "mine")
    output("models mine", "python train.py sudoku-4x4")
    refusal("models mind", "did you mean mine?")
    assert main(["solve", "mine", "1... ..2. .3.. ...4", "--restarts", "2"]) in (0, 1)
    assert main(["solve", "mine", "1" * 36]) == 1
    assert main(["evaluate", "mine", f"data={sudoku_4x4}", "steps=1", "name=there"]) == 0
    assert (here / "runs" / "mine" / "evaluation" / "there" / "results.json").is_file()
    assert not (exported / "evaluation").exists()
    assert reason.load("mine").step == 4
