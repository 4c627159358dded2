"""Augmented copies of a puzzle vote: pass@1 and pass@2."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from evaluation.test_evaluator import MORE
from evaluators import evaluator_of, read, small
from rich.console import Console
from test_arc import ARC

from datasets_gen.__main__ import main as generate
from datasets_gen.layout import read_identifiers
from reason.data import PuzzleData
from reason.evaluation.suite import CONSUMERS, print_results, write_report
from reason.extensions.arc.report import Votes
from reason.presets import preset


@pytest.fixture(scope="module")
def arc(tmp_path_factory: pytest.TempPathFactory) -> PuzzleData:
    directory = tmp_path_factory.mktemp("sets") / "arc"
    words = ["import", "arc", *ARC, "--augmentations", "3", "--size", "8", "--output-dir", str(directory)]
    assert generate(words) == 0
    return PuzzleData(directory, "test")


def test_augmented_copies_vote(arc: PuzzleData, tmp_path: Path) -> None:
    """A model that knows three of four copies' answers at the last step, and none before it."""
    model = small(arc.shape, puzzle_emb_len=1)
    labels = torch.where(arc.labels == -100, 0, arc.labels).long()
    numbers = arc.take(torch.arange(len(arc))).identifiers.tolist()
    names = read_identifiers(arc.directory, arc.metadata)
    last = {names[number].partition("|||")[0]: number for number in sorted(numbers)}  # of each task's four copies
    wrong = torch.tensor([number in last.values() for number in numbers])
    rows = {(number, *arc.inputs[i].tolist()): i for i, number in enumerate(numbers)}
    readout, encode = model.readout, model.encode

    def remember(batch: Any) -> torch.Tensor:
        asked = zip(batch.identifiers.tolist(), batch.inputs.tolist(), strict=True)
        model.rows = [rows[number, *question] for number, question in asked]
        return encode(batch)

    def recite(state: Any, context: Any, step: int | None = None) -> Any:
        said = labels[model.rows].clone()
        said[wrong[model.rows] if step == 4 else slice(None)] = 2
        logits = torch.nn.functional.one_hot(said, arc.shape.vocab_size).float()
        return readout(state, context, step)._replace(logits=logits)

    model.encode, model.readout = remember, recite
    results = MORE | {"steps": 4, "trained_steps": 3} | read(model, arc, 4, 5)
    assert [row["step"] for row in results["votes"]] == [3, 4]
    early, late = results["votes"]
    assert early["pass_at"] == {"1": 0.0, "2": 0.0}
    assert (late["pass_at"], late["unanswered"]) == ({"1": 1.0, "2": 1.0}, 0)
    assert results["exact_by_step"][-1] == pytest.approx(1 - wrong.float().mean().item())
    tasks = json.loads((arc.directory / "test_puzzles.json").read_text())
    asked = sum(len(task["test"]) for task in tasks.values())
    assert read(model, arc, 4, 5, limit=1)["votes"][-1]["unanswered"] == asked - 1
    write_report(tmp_path, results)
    assert "pass@2" in (tmp_path / "report.html").read_text()
    console = Console(record=True, width=80)
    print_results(results, console)
    assert "pass@1" in console.export_text()
    assert not CONSUMERS[Votes](evaluator_of(model, PuzzleData(arc.directory, "train"), 4, 5))


def test_a_preset_imports_its_set() -> None:
    few = preset("arc-few").config().data.commands[0]
    assert few[:3] == ["import", "arc", "data/arc-agi_training_challenges.json"]
    assert few[few.index("--size") + 1] == "8"
