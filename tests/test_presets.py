"""Presets take two real optimizer steps, at reduced width, on puzzles of their own shape."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import trainer_of

from datasets_gen.layout import Split, write_dataset
from reason.cli import main
from reason.cli.presets import Listed, listing
from reason.config.overrides import override, validated
from reason.presets import LISTS, PRESETS, TABLES, preset
from reason.training.log import read_metrics

NARROW = {"model.hidden_size": "16", "model.num_heads": "2", "model.expansion": "1"}
BRIEF = {"training.batch_size": "2", "training.steps": "2", "training.log_every": "1", "training.compile": "none"}
OTHERS = [name for home, names in LISTS.items() if home.name != "declared" for name in names]
RICHEST = {table.preset_name(max(table.rows, key=lambda row: len(row.changes))) for table in TABLES}
FAST = {n for n, it in PRESETS.items() if (it.row is None or n in RICHEST) and it.shape.seq_len <= 400}
OF_PAPERS = [name for name, it in PRESETS.items() if it.row is not None or "published" in it.config().data.generate]
SETS = {PRESETS[name].config().data.directory for name in OF_PAPERS}
LARGE = 100_000_000  # parameters: larger networks, up to 2.5 billion, are made narrow here


def test_presets_survive_json_and_say_where_they_are_from():
    for name in PRESETS:
        config = preset(name).config()
        assert validated(json.loads(config.model_dump_json())) == config, name
        assert config.name == name
        assert preset(name).summary.endswith((".", ")", ":")), name


def test_the_list_is_what_the_presets_are():
    """After a change of a preset, run with WRITE_LISTS=1."""
    presets = {name: (name, each.parameter_count(), each.summary) for name, each in PRESETS.items()}
    lists = {home: [Listed(*presets[name], title) for name, title in names.items()] for home, names in LISTS.items()}
    for home, entries in lists.items() if "WRITE_LISTS" in os.environ else ():
        lines = ",\n".join(json.dumps(list(filter(None, entry)), ensure_ascii=False) for entry in entries)
        (home / "list.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    assert listing() == [each for entries in lists.values() for each in entries]


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in FAST else pytest.mark.slow) for n in OTHERS])
def test_two_steps(name, tmp_path):
    shape = preset(name).shape
    tokens = np.random.default_rng(0).integers(1, shape.vocab_size, (4, shape.seq_len))
    two_steps(name, {"train": Split.of_puzzles(tokens, tokens)}, tmp_path)


def two_steps(name, sets, tmp_path):
    """The preset trains on the splits, and its weights change."""
    shape = preset(name).shape
    own = preset(name).config()
    few = {"rollout.grad_steps": str(min(2, own.rollout.grad_steps))}  # tables average over as many as 64
    config = override(own, NARROW | BRIEF | few)
    task = {"causal": getattr(config.model, "causal", False)}
    write_dataset(tmp_path / "set", sets, task=task, vocab_size=shape.vocab_size, structure=shape.structure)
    config = override(config, {"data.directory": str(tmp_path / "set")})
    if config.init_from is not None:
        config = override(config, {"init_from": str(_source(config, tmp_path))})
    trainer = trainer_of(config, tmp_path / "run")
    before = [p.detach().clone() for p in trainer.model.parameters()]
    trainer.train()
    lines = read_metrics(tmp_path / "run")
    assert [line["step"] for line in lines] == [1, 2]
    assert all(np.isfinite(line["loss"]) for line in lines)
    assert any(not torch.equal(a, b) for a, b in zip(before, trainer.model.parameters(), strict=True))


def _source(config, tmp_path):
    """A run for a preset that starts from one: its own model, its layers halved where they are duplicated."""
    own = {"init_from": "none"} | ({"model.only": "all"} if config.model.kind == "looped" else {})
    if config.name.endswith("upcycled"):
        own["model.num_layers"] = str(config.model.num_layers // 2)
    trainer_of(override(config, own), tmp_path / "source").train()
    return tmp_path / "source"


@pytest.mark.slow
@pytest.mark.parametrize("directory", sorted(SETS))
def test_every_preset_of_the_papers_starts_in_five_minutes(directory, here):
    """In an empty folder: the first makes their set; a step of two rows, uncompiled, at full width.

    Two rows, since a step of a paper's batch takes two cores minutes to hours. Text is of a corpus that is there; ARC's
    tasks are downloaded by hand. The five minutes are of two cores, as processor time, whatever else runs on them.
    """
    for page in Path(__file__).parents[1].glob("docs/**/*.md"):
        (here / "corpus").mkdir(exist_ok=True)
        shutil.copy(page, here / "corpus" / f"{page.parent.name}-{page.stem}.txt")
    configs = {name: preset(name).config() for name in OF_PAPERS}
    own = {name: config for name, config in configs.items() if config.data.directory == directory}
    begun_from = {config.init_from for config in own.values()}
    for name in sorted(own, key=lambda name: own[name].init_from is not None):
        narrow = ["model.hidden_size=192", "model.num_layers=2"] if preset(name).parameter_count() > LARGE else []
        few = ["training.batch_size=2", "rollout.grad_steps=1", "training.compile=none", "--max-steps", "1"]
        begun, run = sum(os.times()[:4]), f"runs/{name}-1"
        assert main(["train", name, *few, *narrow, f"run={run}"]) == 0, name
        assert sum(os.times()[:4]) - begun < 2 * 300, name
        if run not in begun_from:
            shutil.rmtree(run)
