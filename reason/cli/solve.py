"""reason solve: one puzzle from the command line, solved by a trained run step by step."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from datasets_gen.puzzles import Puzzle
from reason.config.overrides import override, read_config, split_arguments
from reason.errors import ConfigError
from reason.report.drawing import animate, board
from reason.runs.directory import load_run
from reason.runs.evaluation import READABLE, refuse_unreadable
from reason.runs.solving import family_of_run, solve_text
from reason.training.device import pick_device

DESCRIPTION = """Solve a puzzle with a trained run, and watch the answer change from step to step.

  reason solve runs/first "1..4.. ..2... .6.... ...5.. 4....1 ....3."     a Sudoku: '.' for open cells, spaces ignored
  reason solve runs/sudoku 53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79
  reason solve runs/maze maze.txt                                          a drawing: '#', ' ', S and G, in a file
  reason solve runs/sums 123+456                                           a sum
  reason solve runs/first puzzle.txt steps=32 --gif puzzle.gif
  cat puzzle.txt | reason solve runs/first - --json

Cells that change are marked with ', clues that the answer does not keep with !, in colour where the terminal has it.
The exit status is 0 where the rules hold at the last step, 1 where they do not or the puzzle is malformed."""

SHORTCUTS = {"steps": "evaluation.steps"}


def main(argv: list[str]) -> int:
    """Parse, think, draw; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="reason solve", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("words", nargs="+", metavar="RUN PUZZLE | steps=T | section.key=value")
    parser.add_argument("--gif", type=Path, metavar="FILE", help="also write an animated picture")
    parser.add_argument("--json", action="store_true", help="print JSON instead of boards")
    arguments = parser.parse_intermixed_args(argv)
    settings = [word for word in arguments.words if word.partition("=")[0] in SHORTCUTS or word.startswith(READABLE)]
    _, pairs = split_arguments(settings, SHORTCUTS)
    words = [word for word in arguments.words if word not in settings]  # a sum may end in '='
    if len(words) != 2:
        raise ConfigError(f"a run and a puzzle are needed, got {' '.join(words) or 'none'}; see: reason solve --help")
    refuse_unreadable(pairs)
    run = Path(words[0])
    own = read_config(run / "config.json")
    config = override(own, pairs)
    device = pick_device(config.device)
    if arguments.gif and arguments.gif.suffix.lower() != ".gif":
        raise ConfigError(
            f"--gif {arguments.gif}: a picture that moves ends in .gif; type --gif {arguments.gif.stem}.gif"
        )
    if arguments.gif and not arguments.gif.parent.is_dir():
        raise ConfigError(f"--gif {arguments.gif}: there is no folder {arguments.gif.parent}")
    family = family_of_run(run)
    trained = load_run(run, device, config, config.evaluation.weights)
    steps = config.evaluation.steps or 2 * own.rollout.trained_steps
    solution = solve_text(trained.model, family, _text(words[1]), steps, own.rollout.halting)
    puzzle, question, frames = solution.puzzle, solution.question, solution.frames
    solved = solution.describe() | {"run": run.resolve().name}
    if arguments.gif:
        captions = ["the question", *(f"step {row['step']} of {steps}" for row in solved["steps"])]
        animate(arguments.gif, puzzle, frames, question, captions)
    if arguments.json:
        print(json.dumps(solved, indent=2))
    else:
        _print(puzzle, question, frames, solved, Console())
        if arguments.gif:
            print(f"picture {arguments.gif}")
    return 0 if solved["rules_hold"] is not False else 1


def _text(word: str) -> str:
    """The puzzle's text: typed, in a file, or on the input stream."""
    if word == "-":
        return sys.stdin.read()
    if len(word) < 1024 and "\n" not in word and Path(word).is_file():
        return Path(word).read_text(encoding="utf-8")
    if len(word) < 1024 and (Path(word).suffix in (".txt", ".sdk", ".csv") or word.startswith(("./", "/", "~"))):
        raise ConfigError(f"no file {word}")
    return word


def _print(puzzle: Puzzle, question: np.ndarray, frames: np.ndarray, solved: dict[str, Any], console: Console) -> None:
    """The question, every step that changes something, and the verdict."""
    console.print("[bold]question[/bold]")
    console.print(board(puzzle, frames[0], question, np.zeros(len(question), bool)), highlight=False)
    for m, row in enumerate(solved["steps"], start=1):
        halting = "" if row["halting"] is None else f", halting {row['halting']:.1%}"
        rules = {True: ", the rules hold", False: "", None: ""}[row["rules_hold"]]
        apart = "\n" if row["changed"] else ""
        struck = int((puzzle.given(question) & (frames[m] != question)).sum())
        count = f"{len(row['changed'])} cells changed" + (f", {struck} clues not kept (!)" if struck else "")
        console.print(f"{apart}[bold]step {m}[/bold]: {count}{halting}{rules}", highlight=False)
        if row["changed"]:
            console.print(board(puzzle, frames[m], question, frames[m] != frames[m - 1]), highlight=False)
    console.print()
    if solved["rules_hold"] is None:
        console.print("no rule tells whether this answer is right", highlight=False)
    elif solved["rules_hold"]:
        first = solved["first_step_at_which_the_rules_hold"]
        console.print(f"[green]the rules hold[/green], from step {first} of {len(solved['steps'])}", highlight=False)
    else:
        console.print(f"[red]the rules do not hold[/red]: {solved['mistake']}", highlight=False)
