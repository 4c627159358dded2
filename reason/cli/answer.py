"""What `reason solve` does with its words: a model, a puzzle or a file of puzzles, and what is printed of them."""

from __future__ import annotations

import argparse
import csv
import json
import sys
import time
from collections.abc import Callable
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

from rich.console import Console

from datasets_gen.layout import DatasetError
from datasets_gen.progress import Progress
from reason.config.overrides import override, split_arguments
from reason.errors import ConfigError
from reason.files import naming, written_beside
from reason.report.drawing import animate, board
from reason.runs.directory import load_run, run_and_config
from reason.runs.reading import idle, refuse_unreadable, unread_lines
from reason.solve import SECONDS, Solution, solve_text
from reason.training.device import pick_device

SHORTCUTS = {"steps": "evaluation.steps"}
READ = tuple(f"evaluation.{name}" for name in ("steps", "decimation", "weights", "checkpoint"))
ONLY = f"reason solve reads {', '.join(READ)} alone"
FEW = 6  # boards that are all drawn


def answer(name: str, settings: list[str], puzzles: list[str], arguments: argparse.Namespace) -> int:
    """Think, draw; returns the exit status. name: a run or a model of the package."""
    run, own = run_and_config(name)
    _, pairs = split_arguments(settings, SHORTCUTS)
    config = override(own, pairs)
    refuse_unreadable(pairs)
    device = pick_device(config.device)
    unread = dict.fromkeys((key for key in pairs if key.startswith(("evaluation.", "data.")) and key not in READ), ONLY)
    for line in unread_lines(dict(pairs), unread | idle(config, "model"), "this answer"):
        print(line, file=sys.stderr)
    trained = load_run(run, device, config, config.evaluation.weights)
    limits = config.evaluation.steps, arguments.restarts, SECONDS if arguments.seconds is None else arguments.seconds
    if arguments.output:
        return _solve_each(puzzles, arguments.output, partial(solve_text, run, trained.model, config), limits)
    with Progress(desc="restarts", unit="restart", leave=False, delay=1) as bar:
        solution = solve_text(run, trained.model, config, puzzles[0], *limits, progress=bar.update)
    solved = solution.describe() | {"run": run.resolve().name}
    if solved["rules_hold"] is False:
        solved["exact"] = solution.exact()
    if arguments.json:
        print(json.dumps(solved, indent=2))
    else:
        _print(solution, solved, Console(highlight=False), arguments.all)
    if arguments.gif:
        captions = ["the question", *(f"step {row['step']} of {len(solved['steps'])}" for row in solved["steps"])]
        sys.stdout.flush()
        with written_beside(arguments.gif) as part:
            animate(part, solution.puzzle, solution.frames, solution.question, captions)
        if not arguments.json:
            print(f"picture {arguments.gif}")
    return 0 if solved["rules_hold"] is not False else 1


def _solve_each(puzzles: list[str], output: Path, solve: Callable[..., Solution], limits: tuple[Any, ...]) -> int:
    """Solve puzzle after puzzle; each row is in the file as soon as it is known."""
    solved = failed = 0
    with (
        naming(output),
        output.open("x", newline="", encoding="utf-8") as file,
        Progress(puzzles, unit="puzzle", desc="solving") as bar,
    ):
        writer = csv.writer(file)
        writer.writerow(["question", "answer", "solved", "restarts", "seconds", "error"])
        for text in bar:
            began, error = time.monotonic(), ""
            try:
                told = solve(text, *limits).describe()
            except (ConfigError, DatasetError) as fault:
                told, error = {"answer": [], "rules_hold": False, "restarts": 0}, str(fault)
            right = {None: "unknown", True: "yes", False: "no"}[told["rules_hold"]]
            solved, failed = solved + (right == "yes"), failed + (right == "no")
            seconds = f"{time.monotonic() - began:.2f}"
            writer.writerow([text, "".join(told["answer"]), right, told["restarts"], seconds, error])
            file.flush()
            bar.set_postfix_str(f"{solved} solved")
    print(f"{output}: the rules hold for {solved:,} of {len(puzzles):,} answers")
    return 1 if failed else 0


def _print(solution: Solution, solved: dict[str, Any], console: Console, every: bool) -> None:
    """The question, the steps that change something, and the verdict."""
    puzzle, question, frames = solution.puzzle, solution.question, solution.frames
    console.print("[bold]question[/bold]")
    console.print(puzzle.draw(frames[0], None, solution.relations), markup=False, soft_wrap=True)  # as it can be typed
    drawn = _drawn([row["step"] for row in solved["steps"] if row["changed"]], every)
    for changes, group in groupby(solved["steps"], lambda row: bool(row["changed"])):
        rows = list(group)
        if not changes:
            first, last = rows[0]["step"], rows[-1]["step"]
            which = f"step {first}" if first == last else f"steps {first} to {last}"
            console.print(f"[bold]{which}[/bold]: no cell changes{_said(rows[-1])}")
            continue
        for row in rows:
            m = row["step"]
            apart = "\n" if m in drawn else ""
            cells = f"{len(row['changed'])} cell{'' if len(row['changed']) == 1 else 's'} changed"
            struck = int((puzzle.given(question) & (frames[m] != question)).sum())
            cells += f", {struck} clue{'' if struck == 1 else 's'} not kept (!)" if struck else ""
            console.print(f"{apart}[bold]step {m}[/bold]: {cells}{_said(row)}")
            if m in drawn:
                console.print(board(puzzle, frames[m], question, frames[m] != frames[m - 1]))
    if reply := puzzle.reply(question, solution.thought.answers[-1]):
        console.print(f"\n{reply}", markup=False)
    exact = solved.get("exact")
    if exact and exact["solutions"] > 1 and not puzzle.several:
        console.print("\nthe puzzle has several solutions; the model was trained on puzzles with one")
    console.print(f"\n{_verdict(solution, solved)}")
    if exact:
        several = "several solutions; one" if exact["solutions"] > 1 else "one solution"
        console.print(f"\nan exact solver finds {several}:\n" + "\n".join(exact["answer"]), markup=False)


def _drawn(changing: list[int], every: bool) -> set[int]:
    """The steps whose boards are drawn."""
    if every or len(changing) <= FEW:
        return set(changing)
    return {step for step in changing if step & (step - 1) == 0} | {changing[-1]}


def _said(row: dict[str, Any]) -> str:
    halting = "" if row["halting"] is None else f", halting {row['halting']:.1%}"
    return halting + (", the rules hold" if row["rules_hold"] else "")


def _verdict(solution: Solution, solved: dict[str, Any]) -> str:
    against = "; ".join(solved["doubts"])
    if solved["rules_hold"] is None:
        word = f"[yellow]unsure[/yellow]: {against}" if against else "the model is sure"
        return f"{word}; no rule tells whether this answer is right"
    if solved["rules_hold"]:
        again = f", at restart {solution.restart}" if solution.restart > 1 else ""
        return f"[green]solved: the rules hold[/green] at step {len(solved['steps'])}{again}"
    tried = f" in {solution.restarts} restarts" if solution.restarts > 1 else ""
    lines = [f"[red]not solved{tried}, the rules do not hold[/red]: {solved['mistake']}"]
    return "\n".join([*lines, f"the model's own doubts: {against or 'none, it is sure of a wrong answer'}"])
