"""What reading a model costs: the pass beside its bare forward passes, and the gain of rows that leave.

    python benchmarks/evaluation.py RUN [--steps 64] [--puzzles 256] [--rounds 3]

The first table: one pass over `--puzzles` test puzzles, and of it the time inside encode, initial_state, step and
readout, both in the same call, by the clock and by the processor. The second: the same puzzles under stopping policies,
finished rows leaving the batch; "of proportion" is (seconds / seconds of all T steps) / (mean steps / T), so that 1 is
a gain in proportion to mean steps. Rounds take turns; medians. Prints Markdown.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from reason.config.overrides import read_config
from reason.data import PuzzleData
from reason.evaluation.config import EvaluationConfig
from reason.evaluation.evaluator import Evaluator, evaluate
from reason.evaluation.studies.policies import Policy, run_with
from reason.evaluation.suite import consumers_of
from reason.models.base import Reasoner
from reason.runs.directory import load_run

VERBS = ("encode", "initial_state", "step", "readout")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--steps", type=int, default=64)
    parser.add_argument("--puzzles", type=int, default=256)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    config = read_config(options.run / "config.json")
    device = torch.device("cpu")
    model = load_run(options.run, device, config).model
    assert config.data.directory is not None
    data = PuzzleData(config.data.directory, "test", device)
    settings = EvaluationConfig(steps=options.steps, batch_size=options.batch, limit=options.puzzles, boards=0)
    evaluator = Evaluator(
        model, data, settings, config.rollout.trained_steps, config.loss.likelihood, config.rollout.halting,
        progress=False,
    )  # fmt: skip
    examples = evaluator.examples.numpy()

    def read() -> None:
        evaluate(evaluator, consumers_of(evaluator))

    read()  # warm
    print(f"\n| {options.steps} steps, {len(examples)} puzzles | whole pass | forward passes in it | ratio |")
    print("|---|---|---|---|")
    for name, clock in (("by the clock", time.perf_counter), ("of the processor", time.process_time)):
        seconds = [inside(model, read, clock) for _ in range(options.rounds)]
        whole, bare = sorted(seconds, key=lambda pair: pair[0] / pair[1])[len(seconds) // 2]
        print(f"| {name} | {whole:.2f} s | {bare:.2f} s | {whole / bare:.3f} |")

    fixed = [Policy(f"fixed {m}", "fixed", m - 0.5) for m in (options.steps, options.steps // 2, options.steps // 4)]
    policies = [*fixed, *([Policy("q > 0", "q", 0.0)] if config.rollout.halting in ("bce", "q-learning") else [])]
    rounds = [[leave(policy, evaluator, examples) for policy in policies] for _ in range(options.rounds)]
    print("\n| policy | mean steps | exact | by the clock | of proportion |\n|---|---|---|---|---|")
    seconds_of_all = np.median([row[0][2] for row in rounds])
    for i, policy in enumerate(policies):
        steps, exact, _ = rounds[0][i]
        seconds = np.median([row[i][2] for row in rounds])
        proportion = seconds / seconds_of_all * options.steps / steps
        print(f"| {policy.name} | {steps:.2f} | {exact:.1%} | {seconds:.2f} s | {proportion:.2f} |")


def inside(model: Reasoner, read: Callable[[], None], clock: Callable[[], float]) -> tuple[float, float]:
    """Seconds of `read`, and of them those inside the model's verbs."""
    spent = [0.0]

    def timed(verb: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            started = clock()
            try:
                return verb(*arguments, **named)
            finally:
                spent[0] += clock() - started

        return call

    for name in VERBS:
        setattr(model, name, timed(getattr(model, name)))
    try:
        started = clock()
        read()
        return clock() - started, spent[0]
    finally:
        for name in VERBS:
            delattr(model, name)


def leave(policy: Policy, evaluator: Evaluator, examples: np.ndarray) -> tuple[float, float, float]:
    """Mean steps, share exact, seconds."""
    left = run_with(policy, evaluator, examples)
    return float(left.steps.mean()), float(left.exact.mean()), left.seconds


if __name__ == "__main__":
    main()
