"""reason solve: one puzzle from the command line, solved by a trained model step by step."""

from __future__ import annotations

import csv
import json
import sys
import time
from collections.abc import Callable
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from datasets_gen.layout import DatasetError
from datasets_gen.progress import Progress
from datasets_gen.typed import Parser
from reason.config.describe import has_mark
from reason.config.overrides import override, split_arguments
from reason.errors import ConfigError
from reason.files import naming, read_stream, read_text, written_beside
from reason.pretrained import pretrained_models
from reason.report.drawing import animate, board
from reason.runs.directory import load_run, run_and_config
from reason.runs.reading import unread_lines
from reason.settings.base import Mark
from reason.solve import SECONDS, Solution, solve_text
from reason.training.device import pick_device

DESCRIPTION = """Solve a puzzle with a trained model, and watch the answer change from step to step.

  reason solve sudoku 53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79
  reason solve sudoku-6x6 "1..4.. ..2... .6.... ...5.. 4....1 ....3."    '.' for open cells, spaces ignored
  reason solve maze maze.txt                                    a drawing in a file, of any size
  reason solve addition 123+456                                 a sum; § ends the answer
  reason solve runs/first puzzle.txt steps=32 --gif puzzle.gif  a run of yours
  cat puzzle.txt | reason solve runs/first - --json
  reason solve sudoku puzzles.csv --output answers.csv          a file of puzzles: one a line, or a column `question`

The first word is a run's folder, or a model that comes with the package (`reason models` lists them).

A maze is drawn in characters, one line a row: '#' a wall, ' ' or '.' a free cell, one S and one G; a frame of '|' and
'+--+' may stand round it. A line that ends before the longest one, or is empty, goes on with free cells. Walls fill
what is no square up to one:

  S..#
  .#..
  .##.
  ...G

Without steps=T a puzzle gets twice the supervision steps of training, and more where the board is larger than those
of training. Cells that change are marked with ', clues that the answer does not keep with !, in colour where the
terminal has it. Boards are drawn after steps 1, 2, 4, 8 … and the last that changes one; --all draws every change.
Where the rules do not hold at the last step, restarts see the puzzle under its symmetries (a maze flipped and turned),
or begin from other states where it has none, until the rules hold or --seconds are over; then an exact solver says what
the puzzle has. The exit status is 0 where the rules hold at the last step, 1 where they do not or the puzzle is
malformed."""

SHORTCUTS = {"steps": "evaluation.steps"}
FEW = 6  # boards that are all drawn


def main(argv: list[str]) -> int:
    """Parse, think, draw; returns the exit status."""
    parser = Parser(prog="reason solve", description=DESCRIPTION)
    parser.add_argument("words", nargs="+", metavar="MODEL PUZZLE | steps=T | section.key=value")
    parser.add_argument("--restarts", type=int, metavar="K", help="at most, the first included (default: no limit)")
    parser.add_argument(
        "--seconds",
        type=float,
        default=SECONDS,
        metavar="S",
        help=f"for restarts of one puzzle (default {SECONDS:.0f})",
    )
    parser.add_argument("--output", type=Path, metavar="FILE", help="solve a file of puzzles, and write this CSV file")
    parser.add_argument("--gif", type=Path, metavar="FILE", help="also write an animated picture")
    parser.add_argument("--all", action="store_true", help="draw the board after every step that changes it")
    parser.add_argument("--json", action="store_true", help="print JSON instead of boards")
    arguments = parser.parse_intermixed_args(argv)
    keys = {word: word.partition("=")[0] for word in arguments.words}
    settings = [word for word, key in keys.items() if key in SHORTCUTS or has_mark(key, Mark.READABLE)]
    _, pairs = split_arguments(settings, SHORTCUTS)
    words = [word for word in arguments.words if word not in settings]  # a sum may end in '='
    if len(words) != 2:
        models = ", ".join(pretrained_models())
        raise ConfigError(
            f"a run and a puzzle are needed, got {' '.join(words) or 'none'}; see: reason solve --help "
            f"(models of the package: {models})"
        )
    if arguments.restarts is not None and arguments.restarts < 1:
        raise ConfigError(f"--restarts {arguments.restarts}: at least one is needed")
    if not arguments.seconds >= 0:
        raise ConfigError(f"--seconds {arguments.seconds}: a number from 0 is needed")
    if arguments.output and (arguments.gif or arguments.json or arguments.all):
        raise ConfigError(
            "--output writes the answers of a file of puzzles; --gif, --json and --all are for one puzzle"
        )
    run, own = run_and_config(words[0])
    config = override(own, pairs)
    device = pick_device(config.device)
    if arguments.gif and arguments.gif.suffix.lower() != ".gif":
        raise ConfigError(
            f"--gif {arguments.gif}: a picture that moves ends in .gif; type --gif {arguments.gif.stem}.gif"
        )
    if arguments.gif and not arguments.gif.parent.is_dir():
        raise ConfigError(f"--gif {arguments.gif}: there is no folder {arguments.gif.parent}")
    for line in unread_lines(dict(pairs), config.model.unread(), "this answer"):
        print(line, file=sys.stderr)
    puzzles = _puzzles(Path(words[1]), arguments.output) if arguments.output else []
    trained = load_run(run, device, config, config.evaluation.weights)
    limits = config.evaluation.steps, arguments.restarts, arguments.seconds
    if arguments.output:
        return _solve_each(puzzles, arguments.output, partial(solve_text, run, trained.model, config), limits)
    with Progress(desc="restarts", unit="restart", leave=False, delay=1) as bar:
        solution = solve_text(run, trained.model, config, _text(words[1]), *limits, progress=bar.update)
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


def _puzzles(file: Path, output: Path) -> list[str]:
    """The puzzles of a file: one a line, or the column `question` of a CSV file."""
    if output.exists():
        raise ConfigError(f"--output {output}: the file exists; name another")
    if not output.parent.is_dir():
        raise ConfigError(f"--output {output}: there is no folder {output.parent}")
    if not _is_file(str(file)):
        raise ConfigError(f"no file {file}; with --output the puzzles are in a file, one a line")
    lines = [line for line in read_text(file).removeprefix("\ufeff").splitlines() if line.strip()]
    if file.suffix == ".csv":
        rows = list(csv.DictReader(lines))
        if not rows or "question" not in rows[0]:
            raise ConfigError(f"{file} has no column `question`, or no row")
        lines = [row["question"] or "" for row in rows]
    if not lines:
        raise ConfigError(f"{file} holds no puzzle")
    return lines


def _solve_each(puzzles: list[str], output: Path, solve: Callable[..., Solution], limits: tuple[Any, ...]) -> int:
    """Solve puzzle after puzzle; each row is in the file as soon as it is known."""
    solved = 0
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
            solved += right == "yes"
            seconds = f"{time.monotonic() - began:.2f}"
            writer.writerow([text, "".join(told["answer"]), right, told["restarts"], seconds, error])
            file.flush()
            bar.set_postfix_str(f"{solved} solved")
    print(f"{output}: the rules hold for {solved:,} of {len(puzzles):,} answers")
    return 0 if solved == len(puzzles) else 1


def _text(word: str) -> str:
    """The puzzle's text: typed, in a file, or on the input stream."""
    if word == "-":
        return read_stream(sys.stdin.buffer, "the standard input").removeprefix("\ufeff")
    if len(word) < 1024 and "\n" not in word and _is_file(word):
        return read_text(Path(word)).removeprefix("\ufeff")
    if len(word) < 1024 and (Path(word).suffix in (".txt", ".sdk", ".csv") or word.startswith(("./", "/", "~"))):
        raise ConfigError(f"no file {word}")
    return word


def _is_file(word: str) -> bool:
    try:
        return Path(word).is_file()
    except OSError:  # a puzzle too long for a file's name
        return False


def _print(solution: Solution, solved: dict[str, Any], console: Console, every: bool) -> None:
    """The question, the steps that change something, and the verdict."""
    puzzle, question, frames = solution.puzzle, solution.question, solution.frames
    console.print("[bold]question[/bold]")
    if solution.relations is None:
        console.print(board(puzzle, frames[0], question, np.zeros(len(question), bool)))
    else:  # with its constraints, as it is typed
        console.print(puzzle.draw(question, None, solution.relations), markup=False)
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
        first, since = solved["first_step_at_which_the_rules_hold"], solved["step_from_which_the_rules_hold"]
        before = "" if first == since else f" (at first at step {first})"
        again = f", at restart {solution.restart}" if solution.restart > 1 else ""
        return f"[green]solved: the rules hold[/green], from step {since} of {len(solved['steps'])} on{before}{again}"
    tried = f" in {solution.restarts} restarts" if solution.restarts > 1 else ""
    lines = [f"[red]not solved{tried}, the rules do not hold[/red]: {solved['mistake']}"]
    return "\n".join([*lines, f"the model's own doubts: {against or 'none, it is sure of a wrong answer'}"])
