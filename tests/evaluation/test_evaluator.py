"""One pass for all consumers: its numbers, who is stepped, what is random and compiled."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from evaluators import counting, evaluator_of, read, small

from datasets_gen.structure import Structure
from reason.config.describe import halting_read
from reason.config.overrides import derive
from reason.data.puzzles import PuzzleData
from reason.errors import ConfigError
from reason.evaluation.config import STUDIES, EvaluationConfig, Study
from reason.evaluation.evaluator import Consumer, PuzzleSeeds, default_steps, evaluate
from reason.evaluation.studies.boards import Boards
from reason.evaluation.studies.by_step import Rules, halt_signal
from reason.evaluation.suite import CONSUMERS, consumers_of
from reason.models.base import Readout, Shape
from reason.presets import preset
from reason.report.section import shown_steps, wilson_interval
from reason.rollout import exact_logit, unroll
from reason.training.accelerate import compile_networks
from reason.training.world import World

COUNTERS = torch._dynamo.utils.counters


def test_one_pass_equals_a_loop_over_puzzles(trained):
    model, data = trained
    got = read(model, data, 5, 5)
    exact, cell, halted, loss = ([0.0] * 5 for _ in range(4))
    with torch.no_grad():
        for i in range(len(data)):
            batch = data.take(torch.tensor([i]))
            for m, out in enumerate(unroll(model, batch, 5)):
                right = [int(a) == int(b) for a, b in zip(out.logits[0].argmax(-1), batch.labels[0], strict=True)]
                exact[m] += all(right) / len(data)
                cell[m] += sum(right) / len(right) / len(data)
                halted[m] += float(out.q_halt[0] > 0) / len(data)
                loss[m] += torch.nn.functional.cross_entropy(out.logits[0], batch.labels[0]).item() / len(data)
    for name, values in {"exact": exact, "cell": cell, "halted": halted, "loss": loss}.items():
        assert got[f"{name}_by_step"] == pytest.approx(values), name
    assert (got["puzzles"], got["unscored"]) == (len(data), 0)
    assert got["cell_by_step"][0] > 0


def test_wilson_interval_and_telling_steps_of_which_larger_boards_have_more():
    """Against values computed by hand from (p̂ + z²/2n ± z√(p̂(1−p̂)/n + z²/4n²))/(1 + z²/n), z = 1.959964."""
    by_hand = {(0.0, 10): (0.0, 0.2775), (0.5, 10): (0.2366, 0.7634), (0.95, 1000): (0.9347, 0.9618)}
    for (share, count), interval in by_hand.items():
        assert wilson_interval(share, count) == pytest.approx(interval, abs=2e-4)

    def grid(rows, columns):
        return Shape(seq_len=rows * columns, vocab_size=6, structure=Structure(grid=(rows, columns)))

    assert shown_steps(64, 8) == [1, 2, 4, 8, 16, 32, 64]
    assert shown_steps(64, 12) == [1, 2, 4, 8, 12, 16, 32, 64]
    assert shown_steps(20, 8) == [1, 2, 4, 8, 16, 20]
    assert (shown_steps(1, 8), shown_steps(3, 8)) == ([1], [1, 2, 3])
    assert default_steps(16, grid(15, 15), grid(15, 15)) == default_steps(16, grid(7, 7), grid(15, 15)) == 32
    assert default_steps(16, grid(31, 31), grid(15, 15)) == 96
    assert default_steps(4, grid(1, 40), grid(1, 20)) == 8  # a longer text is no larger board
    assert default_steps(4, Shape(seq_len=9, vocab_size=6), grid(1, 9)) == 8


def test_one_pass_whoever_looks_on(trained, monkeypatch):
    """What every evaluation measures shares T steps, but for the boards that are shown."""
    monkeypatch.delitem(CONSUMERS, Boards)
    model, data = trained
    rows = counting(model)
    evaluator = evaluator_of(model, data, 4, 5)
    consumers = consumers_of(evaluator)
    evaluate(evaluator, consumers)
    assert sum(rows) == 4 * len(data)
    assert not any(consumer.cost for consumer in consumers)
    mine = type("Mine", (Consumer,), {"observe": lambda self, record: {"exact": np.zeros(1)}})
    with pytest.raises(ConfigError, match=r"Mine and .*Accuracy return a column exact; give one another name"):
        evaluate(evaluator, [*consumers, mine(evaluator)])


def test_rules_are_asked_again_where_one_cell_changed(sudoku_4x4):
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


def test_puzzles_without_a_scored_cell_are_left_out_and_counted(trained):
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

    def collect(self, items):
        return items


def test_two_processes_keep_what_one_does(trained):
    whole = replace(evaluator_of(*trained, 3, 2), likelihood="stablemax")
    assert {"exact", "valid", "q", "loss"} <= parts_join(whole)


def parts_join(whole):
    """Each its portion, none twice: joined, the columns of one process, whose names are returned; sums add up."""
    evaluators = (replace(whole, world=world) for world in (World(), Part(0, 2), Part(1, 2)))
    with torch.no_grad():
        one, *parts = (each.observe(consumers_of(each))[0] for each in evaluators)
    for name, values in one.items():
        joined = np.concatenate([part[name] for part in parts], axis=-1)
        if "/" in name or name == "caches":
            values, joined = values.sum(-1), joined.sum(-1)
        np.testing.assert_allclose(joined, values, rtol=1e-6, err_msg=name)
        assert parts[0][name].shape[-1] > 0
    return set(one)


def test_what_is_random_comes_from_the_seed(trained):
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


def test_studies_are_asked_for_by_name(monkeypatch):
    monkeypatch.setitem(STUDIES, "tries", Study("more tries", argument=r"\d+"))
    monkeypatch.setitem(STUDIES, "norms", Study("how large states are"))
    assert EvaluationConfig().asked == {}
    assert EvaluationConfig(studies="tries=2,norms").asked == {"tries": "2", "norms": ""}
    for wrong in ("tries", "tries=x", "norms=2", "norm", "norms,"):
        with pytest.raises(ValueError, match=r"unknown study .*; studies are .*tries=…, norms; this installation"):
            EvaluationConfig(studies=wrong)


def test_the_head_is_read_where_a_loss_trains_it():
    """Under Q-learning it is compared with going on; of the q of exactness alone it is the trained probability."""
    off = {"rollout.halting": "none"}
    for changes, trained in (({}, "bce"), (off, "none"), (off | {"loss.weights.q_halt": 0}, None)):
        assert halting_read(derive(preset("sudoku-4x4").config(), changes)) == trained
    both = Readout(torch.zeros(3, 16, 6), torch.full((3,), 4.0), torch.full((3,), 4.0))
    assert exact_logit(both, "q-learning").tolist() == halt_signal(both, "bce").tolist() == [4.0] * 3
    assert halt_signal(both, "q-learning").tolist() == [0.0] * 3
    assert halt_signal(both, None) is exact_logit(both, None) is None


def columns(model, data, batch_size, steps=3, **settings):
    evaluator = evaluator_of(model, data, steps, batch_size, **settings)
    with torch.no_grad(), evaluator.own_randomness():
        return evaluator.observe(consumers_of(evaluator))[0]


def test_boards_show_the_pass(sudoku_4x4):
    data = PuzzleData(sudoku_4x4, "test")
    model = small(data.shape, torch.float64, initial="random").eval()
    evaluator = evaluator_of(model, data, 3, 50)
    seen = columns(model, data, 50)
    with evaluator.own_randomness():
        boards = Boards(evaluator).result(seen)["boards"]["puzzles"]
    assert len(boards) >= 6
    for board in boards:
        right = [a == label for a, label in zip(board["answers"][-1], board["label"], strict=True) if label >= 0]
        assert all(right) == board["solved"]


def test_a_stream_is_of_the_seed_the_purpose_and_the_puzzle():
    z = torch.zeros(2, 5, 4, dtype=torch.float64)
    first = PuzzleSeeds(torch.tensor([3, 8]), 0, 1).normal(z)
    assert first.dtype == z.dtype
    assert torch.equal(first[1:], PuzzleSeeds(torch.tensor([8]), 0, 1).normal(z[:1]))
    for other in (PuzzleSeeds(torch.tensor([3, 8]), 1, 1), PuzzleSeeds(torch.tensor([3, 8]), 0, 2)):
        assert (other.normal(z) != first).all()


def test_compiled_networks_read_what_eager_ones_read(trained):
    """One graph for the pass; drawings, whose shapes are their own, make none."""
    read_by_one_graph(*trained)


def read_by_one_graph(model, data, **asked):
    eager, compiled = (replace(evaluator_of(model, data, 4, 5, limit=11, **asked), fill=fill) for fill in (False, True))
    expected = evaluate(eager, consumers_of(eager))
    torch._dynamo.reset()
    COUNTERS.clear()
    compile_networks(model, "aot_eager")
    compiled.warm_up()
    graphs = COUNTERS["stats"]["unique_graphs"]
    found = evaluate(compiled, consumers_of(compiled))
    assert COUNTERS["stats"]["unique_graphs"] == graphs == len(model.networks())
    assert not COUNTERS["graph_break"]
    assert found["exact_by_step"] == expected["exact_by_step"]
    np.testing.assert_allclose(found["loss_by_step"], expected["loss_by_step"], rtol=1e-5)
