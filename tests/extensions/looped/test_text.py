"""Looped models on text: the loss of a large vocabulary, perplexity by document, writing on, recomputed loops."""

import json
import math

import numpy as np
import pytest
import torch
from conftest import make_set, output, refusal
from evaluators import random_batch
from test_decoding import anew, make

import reason
from reason.data.puzzles import PuzzleData
from reason.errors import ConfigError
from reason.evaluation.config import EvaluationConfig
from reason.evaluation.evaluator import Accuracy, Evaluator, evaluate
from reason.evaluation.studies.by_step import Signals
from reason.extensions.looped import softmax
from reason.extensions.looped.decoding import generate
from reason.extensions.looped.model import LoopedConfig, LoopedModel
from reason.extensions.looped.solve import sampled
from reason.extensions.looped.studies.perplexity import Perplexity, sources_of
from reason.losses.lm import cell_loss
from reason.models.base import IGNORE
from reason.report.section import headline
from reason.rollout import unroll

SMALL = ["model.hidden_size=16", "model.num_heads=2", "training.steps=3", "training.batch_size=4"]


@pytest.fixture(scope="module")
def text_set(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    for number in range(40):
        (folder / f"{number}.txt").write_text(f"Document {number}: " + "the cat sat. " * (1 + number % 3))
    return make_set(f"text {folder} --window 24 --stride 12 --test 0.2", folder / "set")


@pytest.fixture(scope="module")
def run(text_set, tmp_path_factory):
    run = tmp_path_factory.mktemp("runs") / "text"
    words = ["train", "ouro-text-small-stage-1", f"data={text_set}", f"run={run}", *SMALL]
    output([*words, "model.gradient_checkpointing=true", "loss.schedules={}"])
    return run


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_a_large_softmax_is_the_cross_entropy(dtype, monkeypatch):
    """Value and gradient against float64, in pieces, ignored cells 0."""
    monkeypatch.setattr(softmax, "PIECE", 4)
    logits, labels = 3 * torch.randn(3, 5, 1100, dtype=dtype), torch.randint(0, 1100, (3, 5))
    labels[0, 2] = IGNORE
    weights = torch.rand(3, 5, dtype=torch.float64)
    found, right = logits.clone().requires_grad_(), logits.double().requires_grad_()
    loss = cell_loss(found, labels, "softmax")
    (loss * weights).sum().backward()
    expected = torch.nn.functional.cross_entropy(right.flatten(0, 1), labels.flatten(), reduction="none").view(3, 5)
    (expected * weights).sum().backward()
    assert loss.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    torch.testing.assert_close(loss.double(), expected, rtol=1e-6, atol=1e-5)
    tolerance = {torch.bfloat16: 4e-3, torch.float32: 1e-6, torch.float64: 1e-12}[dtype]
    torch.testing.assert_close(found.grad.double(), right.grad, rtol=tolerance, atol=tolerance)
    assert loss[0, 2] == 0


def test_perplexity_is_that_of_the_tokens(text_set):
    """Against one cross-entropy of all tokens; the interval by leaving documents out; bits per byte of bytes."""
    data = PuzzleData(text_set, "test")
    model = LoopedModel(LoopedConfig(hidden_size=8, num_heads=2, dropout=0.0), data.shape).eval()
    evaluator = Evaluator(model, data, EvaluationConfig(steps=2, batch_size=5), trained_steps=1)
    found = evaluate(evaluator, [Accuracy(evaluator), Signals(evaluator), Perplexity(evaluator)])
    batch = data.take(evaluator.examples)
    *_, last = unroll(model, batch, 2)
    nats = cell_loss(last.logits, batch.labels, "softmax").detach()
    scored = batch.labels != IGNORE
    mean = (nats.sum() / scored.sum()).item()
    assert found["perplexity_by_step"][1] == pytest.approx(math.exp(mean), rel=1e-6)
    told = found["perplexity"]
    assert (told["tokens"], told["documents"]) == (int(scored.sum()), 8)
    ends = int((batch.labels == 255).sum())
    assert told["bytes"] == told["tokens"] - ends  # of bytes: every token but the ends
    assert told["bits_per_byte"][1] == pytest.approx(mean * told["tokens"] / told["bytes"] / math.log(2), rel=1e-6)
    sources = torch.from_numpy(sources_of(data, evaluator.examples).astype(np.int64))
    sums = [(nats[sources == number].sum(), scored[sources == number].sum()) for number in sources.unique()]
    error = math.sqrt(sum((n - mean * c).item() ** 2 for n, c in sums) * 8 / 7) / told["tokens"]
    low, high = (bound[1] for bound in told["interval"])
    assert [low, high] == pytest.approx([math.exp(mean - 2.3646 * error), math.exp(mean + 2.3646 * error)], rel=1e-4)


def test_recomputed_loops_have_the_same_gradient():
    texts, found = random_batch(3, 9, 7), []
    for recomputed in (False, True):
        torch.manual_seed(0)
        model = make(gradient_checkpointing=recomputed).train()
        *_, last = unroll(model, texts, 3)
        last.logits.square().mean().backward()
        found.append([parameter.grad for parameter in model.parameters()])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)


def test_sampling_draws_from_the_nucleus():
    logits = torch.tensor([[0.0, 2.0, 1.0, -3.0]]).expand(4000, 4)
    draw = torch.Generator().manual_seed(0)
    assert sampled(logits, 0, 1, draw).unique().tolist() == [1]
    p = (logits[0] / 0.7).softmax(-1)
    found = sampled(logits, 0.7, 1, draw).bincount(minlength=4) / 4000
    torch.testing.assert_close(found, p, atol=0.03, rtol=0)
    kept = sampled(logits, 0.7, 0.9, draw).bincount(minlength=4) / 4000
    torch.testing.assert_close(kept, torch.tensor([0, p[1], p[2], 0]) / (p[1] + p[2]), atol=0.03, rtol=0)


@pytest.mark.parametrize(("leave", "loops"), [(0.0, [1]), (1.0, [3])])
def test_the_gate_leaves_at_its_quantile(leave, loops):
    """At quantile 0 after the first loop, at 1 after the last; the logits are those of that loop."""
    model, prompt = make(gate="position"), torch.randint(0, 7, (2, 4))
    found = generate(model, prompt, 3, 3, leave=leave)
    assert found.loops.unique().tolist() == loops
    text = torch.cat([prompt, found.tokens], dim=1)[:, :-1]
    torch.testing.assert_close(found.logits[:, 0], anew(model, text[:, :4], loops[0])[:, -1])


def test_a_text_goes_on(run):
    words = ["solve", str(run), "the cat", "--length", "40", "--temperature", "0.9", "--json"]
    first = json.loads(output(words))
    assert first == json.loads(output(words))
    assert first["text"].startswith("the cat")
    assert len(first["tokens"]) == 40 or first["ended"]
    assert set(first["loops"]) == {4}
    for cache in ("last", "mean", "first"):
        assert json.loads(output([*words, "--cache", cache]))["cache"] == cache
    output(["solve", str(run), "the cat", "--length", "9", "--exit", "0.5"], "the cat")


def test_what_cannot_be_written_is_refused_and_an_evaluation_tells_perplexity(run):
    asked = ["solve", str(run), "the cat"]
    refusal([*asked, "--length", "0"], "--length 0: type a number from 1")
    refusal([*asked, "--top-p", "0"], "--top-p 0.0: type a number")
    refusal([*asked, "--exit", "2"], "--exit 2.0: type a number from 0 to 1")
    refusal([*asked, "--restarts", "2"], "--restarts is for puzzles")
    assert "File name too long" not in refusal(["solve", str(run), "ж" * 200], "tokens, but the model reads 24")
    refusal(["solve", str(run), "the cat " * 9], "tokens, but the model reads 24")
    with pytest.raises(ConfigError, match="was trained on text: use `reason solve"):
        reason.load(run).solve("the cat")
    words = ["evaluate", str(run), "steps=2", "evaluation.studies=policies=0.5"]
    output(words, "perplexity by loop", "byte", "policies")
    table = next(run.glob("evaluation/*/accuracy_by_step.csv")).read_text().splitlines()
    assert "perplexity" in table[0]
    (file,) = run.glob("evaluation/*/results.json")
    told = json.loads(file.read_text())
    for values, said in (([12.0, None], "– (1)"), ([12.0], None), (["a", 1.0], None)):
        file.write_text(json.dumps(told | {"trained_steps": 1, "perplexity_by_step": values[::-1]}))
        words = ["compare", str(run), "--out", str(run / "compared")]
        output(words, said) if said else refusal(words, "perplexity_by_step: 2 numbers are needed")
    assert "perplexity – at step 1, " in headline(told | {"trained_steps": 1, "perplexity_by_step": [None, 12.0]})
    assert not list(run.glob("evaluation/*/boards.json"))
