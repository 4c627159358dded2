"""Every plot, table and file of a report, from results that a tiny model really gave."""

import csv
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from reason.data import PuzzleData
from reason.evaluation.config import EvaluationConfig
from reason.evaluation.evaluator import Evaluator, evaluate
from reason.evaluation.studies.boards import Boards
from reason.evaluation.suite import CONSUMERS, consumers_of, print_results, write_report
from reason.models import RecursiveConfig, build_model
from reason.models.base import ModelConfig
from reason.report.compare import differences, notes_on, write_comparison
from reason.report.section import headline

SMALL = RecursiveConfig(
    hidden_size=8, num_heads=1, expansion=1, mixer="mlp", positions="none", puzzle_emb_len=0, h_cycles=1, l_cycles=2
)  # fmt: skip
EVERYTHING = EvaluationConfig(batch_size=5)
MORE = {
    "run": "runs <x> $a$", "preset": "p", "dataset": "data/set", "split": "test", "parameters": 10,
    "checkpoint_step": 4, "weights": "ema", "precision": "float32", "device": "cpu", "version": "0",
    "fingerprint": "f0",
}  # fmt: skip


def read(directory: Path, steps: int, settings: EvaluationConfig, config: ModelConfig = SMALL, **changes: Any) -> dict:
    data = PuzzleData(directory, "test")
    torch.manual_seed(0)
    model = build_model(config, data.shape)
    if "known" in changes:
        solve_all(model, data, changes["known"])
    trained = changes.get("trained_steps", 2)
    return MORE | {"steps": steps, "trained_steps": trained} | results_of(model, data, settings, steps, trained)


def results_of(model: Any, data: PuzzleData, settings: EvaluationConfig, steps: int, trained: int) -> dict:
    evaluator = Evaluator(model, data, settings.model_copy(update={"steps": steps}), trained, progress=False)
    return evaluate(evaluator, consumers_of(evaluator))


def solve_all(model: Any, data: PuzzleData, known: int) -> None:
    """Let the model know the answers to the first `known` puzzles by heart."""
    labels = {tuple(q.tolist()): a for q, a in zip(data.inputs[:known], data.labels[:known].long(), strict=True)}
    encode, readout = model.encode, model.readout

    def remember(batch: Any) -> torch.Tensor:
        rows = [labels.get(tuple(q.tolist()), q.clamp(min=1)) for q in batch.inputs]
        model.asked = torch.stack(rows)
        return encode(batch)

    def recite(state: Any, context: Any, step: int | None = None) -> Any:
        out = readout(state, context, step)
        if len(out.logits) != len(model.asked):  # a single row of the batch is probed
            return out
        one_hot = torch.nn.functional.one_hot(model.asked, out.logits.shape[-1])
        return out._replace(logits=10 * one_hot.to(out.logits.dtype) + 0 * out.logits)

    model.encode, model.readout = remember, recite


def check(folder: Path, results: dict) -> str:
    """The files hold what the results say; the page is whole, fetches nothing, and holds every section."""
    write_report(folder, results)
    told = json.loads((folder / "results.json").read_text())
    assert told == json.loads(json.dumps({k: v for k, v in results.items() if k not in ("boards", "training")}))
    rows = list(csv.DictReader((folder / "accuracy_by_step.csv").open()))
    assert [float(row["exact"]) for row in rows] == pytest.approx(results["exact_by_step"], abs=1e-6)
    for picture in folder.glob("*.png"):
        assert picture.read_bytes().startswith(b"\x89PNG")
    page = (folder / "report.html").read_text()
    HTMLParser().feed(page)
    assert page.lstrip().startswith("<!doctype html>")
    assert not re.search(r"https?:|src=\"(?!data:)|@import|url\(", page)  # nothing is fetched
    assert "runs &lt;x&gt; $a$" in page
    assert headline(results) in page.replace("&amp;", "&")
    console = Console(record=True, width=160)
    print_results(results, console)
    assert console.export_text().count("%") >= 4
    return page


def test_everything(whole: dict, tmp_path: Path) -> None:
    page = check(tmp_path, whole)
    assert {path.name for path in tmp_path.iterdir()} >= {
        "results.json", "boards.json", "report.html", "accuracy_by_step.csv", "accuracy_by_step.png", "training.png",
    }  # fmt: skip
    for words in ("step by step", "Training", "Computed in bfloat16."):
        assert words in page


@pytest.mark.parametrize(("steps", "known"), [(1, 0), (3, 12)], ids=["none solved", "all solved"])
def test_all_and_none_solved(steps: int, known: int, sudoku_4x4: Path, tmp_path: Path) -> None:
    results = read(sudoku_4x4, steps, EVERYTHING, known=known)
    assert results["exact_by_step"][-1] == results["valid_by_step"][-1] == (1.0 if known else 0.0)
    check(tmp_path, results)


def test_a_state_that_overflows(sudoku_4x4: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = PuzzleData(sudoku_4x4, "test")
    model = build_model(SMALL, data.shape)
    monkeypatch.setattr(type(model), "step", lambda self, state, x: type(state)(*(1e160 * z for z in state)))
    results = MORE | {"steps": 3, "trained_steps": 2} | results_of(model, data, EVERYTHING, 3, 2)
    assert results["residual_by_step"][-1] is None
    check(tmp_path, results)


def test_mazes(made: Callable[..., Path], tmp_path: Path) -> None:
    results = read(made("maze --size 4 --min-path 4 --train 8 --test 6"), 2, EvaluationConfig())
    assert "maze" in check(tmp_path, results)


def test_a_set_without_rules(sudoku_4x4: Path, tmp_path: Path) -> None:
    data = PuzzleData(sudoku_4x4, "test")
    data.metadata = data.metadata.model_copy(update={"task": {"name": "a family of one's own"}})
    model = build_model(SMALL, data.shape)
    results = results_of(model, data, EvaluationConfig(), 2, 2)
    assert results["valid_by_step"] is None
    assert "boards" not in results
    check(tmp_path, MORE | {"steps": 2, "trained_steps": 2} | results)


def test_valid_counts_what_the_label_does_not(sudoku_4x4: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against a loop over steps and puzzles, and a solution that is not the label counts as valid."""
    data = PuzzleData(sudoku_4x4, "test")
    monkeypatch.delitem(CONSUMERS, Boards)
    data.inputs = torch.ones_like(data.inputs)  # every full grid answers an empty question
    model = build_model(SMALL, data.shape)
    other = torch.roll(data.labels, 1, 0).long()
    turn = torch.nn.functional.one_hot(other, data.shape.vocab_size).float()
    model.readout = lambda state, context, step=None: type(model).readout(model, state, context)._replace(logits=turn)  # type: ignore
    results = results_of(model, data, EvaluationConfig(batch_size=12), 2, 2)
    equal = float((other == data.labels.long()).all(1).float().mean())
    assert (results["valid_by_step"], results["exact_by_step"]) == ([1.0, 1.0], [equal, equal])
    assert equal < 1


def test_runs_compared(whole: dict, tmp_path: Path) -> None:
    evaluations = [{k: v for k, v in whole.items() if k != "boards"} | {"run": name} for name in ("a", "b<c>")]
    assert notes_on(evaluations) == []
    settings = {"model.activation": ["silu", "tanh"], "seed": [0, ...]}
    assert list(differences(evaluations, settings).rows) == [
        ["model.activation", "A: silu; B: tanh"], ["seed", "A: 0; B: –"],
    ]  # fmt: skip
    write_comparison(tmp_path, evaluations, settings)
    told = json.loads((tmp_path / "comparison.json").read_text())
    assert told["differences"] == {"model.activation": ["silu", "tanh"], "seed": [0, None]}
    assert {path.suffix for path in tmp_path.iterdir()} == {".json", ".png", ".html"}
    page = (tmp_path / "comparison.html").read_text()
    assert "b&lt;c&gt;" in page
    assert not re.search(r"https?:|src=\"(?!data:)", page)
    other = evaluations[1] | {"dataset": "data/other"}
    assert notes_on([evaluations[0], other])[0].startswith("different sets: data/other, data/set")
    one, changed = (results | {"fingerprint": digest} for results, digest in zip(evaluations, "01", strict=True))
    split = f"{one['split']} split of {one['dataset']}"
    assert notes_on([one, changed]) == [f"the {split} held other puzzles at one evaluation than at another"]
    assert notes_on([one, evaluations[1] | {"fingerprint": None}]) == notes_on([one, one]) == []
