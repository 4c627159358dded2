"""One pass for all consumers: who is stepped, what is left out, who pays, and one's own consumer on every road."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from evaluators import counting, evaluator_of, read, small
from rich.console import Console

from datasets_gen.structure import Structure
from reason.data import PuzzleData
from reason.errors import ConfigError
from reason.evaluation.config import STUDIES, EvaluationConfig, Study
from reason.evaluation.evaluator import Accuracy, Columns, Consumer, Evaluator, StepColumns, default_steps, evaluate
from reason.evaluation.studies.boards import Boards
from reason.evaluation.studies.by_step import Rules
from reason.evaluation.suite import CONSUMERS, SECTIONS, consumers_of, print_results, write_report
from reason.models.base import Shape
from reason.report.chart import Chart
from reason.report.section import Section, Table
from reason.rollout import StepRecord, unroll
from reason.training.world import World

Trained = tuple[Any, PuzzleData]
FIXTURES = Path(__file__).parents[1] / "datasets_gen/fixtures"
MORE = {"run": "r", "preset": "p", "dataset": "d", "split": "test", "parameters": 1, "checkpoint_step": 1}
MORE |= {"weights": "ema", "precision": "float32", "device": "cpu", "version": "0", "fingerprint": "f0"}


def test_one_pass_whoever_looks_on(trained: Trained, monkeypatch: pytest.MonkeyPatch) -> None:
    """What every evaluation measures shares T steps, but for the boards that are shown."""
    monkeypatch.delitem(CONSUMERS, Boards)
    model, data = trained
    rows = counting(model)
    evaluator = evaluator_of(model, data, 4, 5)
    consumers = consumers_of(evaluator)
    evaluate(evaluator, consumers)
    assert sum(rows) == 4 * len(data)
    assert not any(consumer.cost for consumer in consumers)


def test_rules_are_asked_again_where_one_cell_changed(sudoku_4x4: Path) -> None:
    """Answers that differ in a cell from step to step, against the rules asked of each one."""
    data = PuzzleData(sudoku_4x4, "test")
    evaluator = evaluator_of(None, data, 6, 50)
    rules, batch = Rules(evaluator), data.take(torch.arange(len(data)))
    answers = batch.labels.repeat(6, 1, 1)
    for step, row in ((1, 0), (1, 1), (3, 0), (4, 0), (4, 2), (5, 2)):  # wrong from a step on, or for one alone
        answers[step, row, row] = 2 + (answers[step, row, row] - 1) % 4
    answers[3] = answers[2]
    kept = None
    for step, answer in enumerate(answers, start=1):
        logits = torch.nn.functional.one_hot(answer, data.shape.vocab_size)
        kept = rules.observe(SimpleNamespace(step=step, answer=answer, logits=logits, batch=batch, rows=None))
        assert (kept is None) == (step < 6)
    expected = [evaluator.puzzle.solved(batch.inputs.numpy(), answer.numpy()).tolist() for answer in answers]
    assert kept["valid"].tolist() == expected
    assert rules.result(kept)["valid_by_step"] == pytest.approx([np.mean(row) for row in expected])
    assert len(set(map(tuple, expected))) >= 4


def test_puzzles_without_a_scored_cell_are_left_out_and_counted(trained: Trained) -> None:
    """As if they were not there, in every figure; with a warning, and a refusal where nothing is left."""
    model, data = trained
    left_out = [0, 5, 6, len(data) - 1]
    data.labels = data.labels.clone()
    data.labels[left_out] = data.metadata.ignore_label_id
    with pytest.warns(UserWarning, match=f"4 of {len(data)} puzzles have no scored cell"):
        got = read(model, data, 3, 4)
    kept = [i for i in range(len(data)) if i not in left_out]
    assert (got["puzzles"], got["unscored"]) == (len(kept), 4)
    assert {puzzle["example"] for puzzle in got["boards"]["puzzles"]} <= set(kept)
    for puzzle in got["boards"]["puzzles"]:
        assert puzzle["question"] == data.inputs[puzzle["example"]].tolist()
    for name in ("inputs", "labels"):
        setattr(data, name, getattr(data, name)[kept])
    alone = read(model, data, 3, 4)
    for key in ("exact_by_step", "cell_by_step", "valid_by_step", "loss_by_step"):
        assert got[key] == alone[key], key
    data.labels[:] = data.metadata.ignore_label_id
    with pytest.raises(ConfigError, match=r"no label of the test split of .* is scored; name another"):
        read(model, data, 3, 4)


class Part(World):
    """One of two processes, alone: what it would send is what it has."""

    def collect(self, items: list[Any]) -> list[Any]:
        return items


def test_two_processes_keep_what_one_does(trained: Trained) -> None:
    """Each its portion, none twice: joined, the columns of one process; sums over batches add up to its sums."""
    whole = replace(evaluator_of(*trained, 3, 2), likelihood="stablemax")
    assert {"exact", "valid", "q", "loss"} <= parts_join(whole)


def parts_join(whole: Evaluator) -> set[str]:
    """Whether two processes keep what one does; the names of the columns."""
    with torch.no_grad():
        seen = [
            replace(whole, world=world).observe(consumers_of(replace(whole, world=world)))[0]
            for world in (World(), Part(0, 2), Part(1, 2))
        ]
    one, *parts = seen
    for name, values in one.items():
        joined = np.concatenate([part[name] for part in parts], axis=-1)
        if "/" in name or name == "caches":
            values, joined = values.sum(-1), joined.sum(-1)
        np.testing.assert_allclose(joined, values, rtol=1e-6, err_msg=name)
        assert parts[0][name].shape[-1] > 0
    return set(one)


def test_a_filled_batch_has_one_shape_and_counts_once(trained: Trained) -> None:
    model, data = trained
    plain = evaluator_of(model, data, 2, 5)
    filled = replace(plain, fill=True)
    assert len(data) % 5
    rows = counting(model)
    with torch.no_grad():
        seen, _ = plain.observe([Accuracy(plain)])
        assert set(rows) == {5, len(data) % 5}
        rows.clear()
        again, _ = filled.observe([Accuracy(filled)])
    assert set(rows) == {4}  # three batches of the 12
    for name, values in seen.items():
        assert (again[name] == values).all()


def test_what_is_random_comes_from_the_seed(trained: Trained) -> None:
    """Twice the same figures, another seed others; the caller's stream goes on as if nothing had been drawn."""
    _, data = trained
    model = small(data.shape, initial="random")
    torch.manual_seed(7)
    expected = torch.rand(3)
    found = []
    for seed in (1, 1, 2):
        torch.manual_seed(7)
        evaluator = replace(evaluator_of(model, data, 2, 50), seed=seed)
        found.append(evaluate(evaluator, consumers_of(evaluator))["residual_by_step"])
        assert torch.equal(torch.rand(3), expected)
    assert found[0] == found[1]
    assert found[0] != found[2]


class Norms(Consumer):
    """A consumer of one's own: the mean norm of the state's first part after the first two steps."""

    cost = "norms: nothing"

    def __init__(self, evaluator: Evaluator):
        super().__init__(evaluator)
        self.steps, self.kept = 2, StepColumns(2)

    def observe(self, record: StepRecord) -> Columns | None:
        self.kept.add({"norm": record.state[0].flatten(1).norm(dim=1)})
        return self.kept.take() if record.step == self.steps else None

    def result(self, seen: Columns) -> dict[str, Any]:
        return {"norms": seen["norm"].mean(1).tolist()}


NORMS = Section(
    "norms",
    "How large states are",
    lambda results: [Table("norms by step", ("step", "norm"), [["1", f"{results['norms'][0]:.6f}"]])],
    {"norms": lambda results: [Chart("norm", "by step", lambda axes: axes.plot(results["norms"]))]},
    lambda _: "Of the first part.",
)


def test_a_consumer_of_ones_own_takes_every_road(
    trained: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One class, one section, two entries: results.json, terminal, page and PNG have it."""
    model, data = trained
    monkeypatch.setattr("reason.evaluation.suite.CONSUMERS", CONSUMERS | {Norms: lambda _: True})
    monkeypatch.setattr("reason.evaluation.suite.SECTIONS", (*SECTIONS, NORMS))
    results = MORE | {"steps": 4, "trained_steps": 3} | read(model, data, 4, 5)
    with torch.no_grad():
        records = list(unroll(model, data.take(torch.arange(len(data))), 2))
    expected = [record.state[0].flatten(1).norm(dim=1).mean().item() for record in records]
    assert results["norms"] == pytest.approx(expected)
    write_report(tmp_path, results)
    console = Console(record=True, width=80)
    print_results(results, console)
    said, page = console.export_text(), (tmp_path / "report.html").read_text()
    number = f"{expected[0]:.6f}"
    assert "norms by step" in said
    assert number in said
    assert json.loads((tmp_path / "results.json").read_text())["norms"] == results["norms"]
    for words in ("How large states are", number, "Of the first part."):
        assert words in page
    assert (tmp_path / "norms.png").read_bytes().startswith(b"\x89PNG")


def test_studies_are_asked_for_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(STUDIES, "tries", Study("more tries", argument=r"\d+"))
    monkeypatch.setitem(STUDIES, "norms", Study("how large states are"))
    assert EvaluationConfig().asked == {}
    assert EvaluationConfig(studies="tries=2,norms").asked == {"tries": "2", "norms": ""}
    for wrong in ("tries", "tries=x", "norms=2", "norm", "norms,"):
        with pytest.raises(ValueError, match=r"unknown study .*; studies are .*tries=…, norms; this installation"):
            EvaluationConfig(studies=wrong)


def test_larger_boards_have_more_steps_where_none_are_asked_for() -> None:
    def grid(rows: int, columns: int) -> Shape:
        return Shape(seq_len=rows * columns, vocab_size=6, structure=Structure(grid=(rows, columns)))

    assert default_steps(16, grid(15, 15), grid(15, 15)) == 32
    assert default_steps(16, grid(7, 7), grid(15, 15)) == 32
    assert default_steps(16, grid(31, 31), grid(15, 15)) == 96
    assert default_steps(4, grid(1, 40), grid(1, 20)) == 8  # a longer text is no larger board
    assert default_steps(4, Shape(seq_len=9, vocab_size=6), grid(1, 9)) == 8
