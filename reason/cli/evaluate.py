"""`python evaluate.py RUN`: the accuracy of a run on a data set by supervision step."""

from __future__ import annotations

from rich.console import Console

from reason.cli.help import Parser
from reason.config.describe import refuse_unreadable
from reason.config.overrides import override, split_arguments
from reason.errors import ConfigError
from reason.evaluation.suite import print_results
from reason.report.section import headline
from reason.runs.directory import newest_run, run_and_config
from reason.runs.evaluation import evaluate_run

SHORTCUTS = {"data": "data.directory", "steps": "evaluation.steps", "studies": "evaluation.studies"}


def main(argv: list[str]) -> int:
    """Parse, load, evaluate and report; return the exit status."""
    words, pairs = split_arguments(Parser("evaluate.py").parsed(argv).words, SHORTCUTS)
    words += [pairs.pop(key) for key in ("run", "checkpoint") if key in pairs]  # the latter as HRM's evaluate.py has it
    if len(words) > 1:
        raise ConfigError(f"one run at a time, got {' '.join(words)}")
    if not words:
        words = [str(newest_run())]
        print(f"no run named; taking the newest: {words[0]}")
    name = pairs.pop("name", None)
    run, own_config = run_and_config(words[0])
    config = override(own_config, pairs)
    refuse_unreadable(pairs)  # also a typed value that equals the run's own
    results, folder = evaluate_run(run, config, name)
    if not results:  # not rank 0
        return 0
    print_results(results, Console())
    print(headline(results))
    print(f"report {folder / 'report.html'}\npicture {folder / 'accuracy_by_step.png'}")
    return 0
