"""reason solve: one puzzle from the command line, solved by a trained model step by step."""

from __future__ import annotations

import csv
import json
import os
import re
import sys
import time
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import Any

from rich.console import Console

from datasets_gen.importers.tables import columns
from datasets_gen.layout import DatasetError
from datasets_gen.plugins import nearest
from datasets_gen.progress import Progress
from datasets_gen.puzzles import Puzzle
from datasets_gen.typed import Parser
from reason.config.describe import idle, idle_lines, refuse_unreadable
from reason.config.overrides import override, split_arguments
from reason.errors import ConfigError
from reason.evaluation.config import SEARCHES
from reason.files import decoded, published, read_text
from reason.models.mixing import fits_any_set
from reason.plugins import extension
from reason.pretrained import pretrained_models
from reason.report.drawing import board
from reason.runs.directory import load_run, run_and_config
from reason.solve import SECONDS, WRITERS, Solution, check_limits, counted, family_of_run, solve_text
from reason.training.device import pick_device

DESCRIPTION = """Solve a puzzle with a trained model, and watch the answer change from step to step.

  reason solve sudoku 53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79
  reason solve sudoku-6x6 "1..4.. ..2... .6.... ...5.. 4....1 ....3."    '.' for open cells, spaces ignored
  reason solve maze maze.txt                                    a drawing in a file, of any size
  reason solve any puzzle.txt data=sums.py                      by the rules that a file declares
  reason solve addition 123+456                                 a sum; § ends the answer
  reason solve runs/text "The beginning" --temperature 0.8      a continued text
  reason solve runs/first puzzle.txt steps=32 --gif puzzle.gif  a run of yours
  cat puzzle.txt | reason solve runs/first - --json
  reason solve sudoku puzzles.csv --output answers.csv          a file of puzzles: one a line, or a column `question`

The first word is a run's folder, or a model that comes with the package (`reason models` lists them).

A Sudoku may be in the form that other programs and pages use: in one line or in rows, framed or not, with . 0 _ * ?
· - or spaces for open cells; .sdk, .sdm, .ss, HoDoKu, OpenSudoku, CSV, JSON and Python lists.

A maze is drawn with one character for each cell and one line for each row: '#' is a wall, ' ' or '.' a free cell. It
has one S and one G. Cells 'o' of a path become free, and an empty line between rows is a row of free cells. A frame of
'|' and '+--+' is allowed. Short lines are filled with free cells; if the maze is not square, walls make it square. One
line of n² cells is an n×n maze.

  S..#
  .#..
  .##.
  ...G

Without steps=T, a puzzle gets twice the supervision steps of training, or more if the board is larger than the boards
of training. ' marks a cell that changed, ! a clue that the answer changed; the terminal also shows colours. Up to
six boards that change are all drawn; of more, those after steps 1, 2, 4, 8, … and the last. The last one also shows
signs, cages or what else the puzzle has.

Solving stops at the first step whose answer satisfies the rules. If no step does, restarts solve the puzzle again under
its symmetries (a maze is flipped and rotated), or from other initial states if it has none, until an answer satisfies
the rules or --seconds have passed. An exact solver then gives the solution, or says whether there are others. If a
puzzle has several solutions, or no symmetry and the network was trained with hints, its most certain cell becomes a
clue every few steps (studies=decimation=none turns this off). The exit status is 0 if the last answer satisfies the
rules, and 1 if it does not or the puzzle is malformed."""

SETTING = re.compile(r"(steps|studies|device|data|(data|model|training|evaluation)\.[\w.]*)=")  # a sum may end in =
USED = tuple(f"evaluation.{name}" for name in ("steps", "studies", "weights", "checkpoint"))
SHORT = {"steps": "evaluation.steps", "studies": "evaluation.studies", "data": "data.directory"}
FEW = 6  # so many boards are all drawn


def main(argv: list[str]) -> int:
    """Parse, solve and draw; return the exit status."""
    parser = Parser(prog="reason solve", description=DESCRIPTION)
    parser.add_argument("words", nargs="+", metavar="MODEL PUZZLE | steps=T | section.key=value")
    parser.add_argument("--restarts", type=int, metavar="R", help="limit of attempts, with the first (default: none)")
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, metavar="S", help="time limit of restarts (default 60)"
    )
    parser.add_argument("--output", type=Path, metavar="FILE", help="solve a file of puzzles, and write this CSV file")
    parser.add_argument("--gif", type=Path, metavar="FILE", help="also write an animated picture")
    parser.add_argument("--json", action="store_true", help="print JSON instead of boards")
    of_puzzles = {"output", "gif", "restarts", "seconds"}
    for each in WRITERS.values():
        each.add_options(parser)
    arguments = parser.parse_intermixed_args(argv)
    output, gif = arguments.output, arguments.gif
    if output and (gif or arguments.json):
        raise ConfigError("--output writes the answers of a file; --gif and --json are for one puzzle")
    if output and (output.exists() or not output.parent.is_dir()):
        why = "is there already; type another file, or remove it" if output.exists() else "is in no existing folder"
        raise ConfigError(f"--output {output} {why}")
    if gif and (gif.suffix.lower() != ".gif" or gif.is_dir() or not gif.parent.is_dir()):
        raise ConfigError(f"--gif {gif}: name a .gif file in an existing folder")
    animate = extension("gif", "picture").animate if gif else None
    settings = [word for word in arguments.words if SETTING.match(word)]
    words = [word for word in arguments.words if word not in settings]
    if len(words) != 2:
        hints = [nearest(word.partition("=")[0], ("steps", "device")) for word in words[2:] if "=" in word]
        raise ConfigError(
            f"a run and a puzzle are needed, got {' '.join(words) or 'none'}; {''.join(hints)}see: reason solve --help "
            f"(models of the package: {', '.join(pretrained_models())})"
        )
    name, text = words
    run, own_config = run_and_config(name)
    _, pairs = split_arguments(settings, SHORT)
    config = override(own_config, pairs)
    refuse_unreadable(pairs)
    if "evaluation.studies" in pairs and (others := config.evaluation.asked.keys() - SEARCHES.keys()):
        raise ConfigError(f"studies={','.join(sorted(others))}: for evaluations, not for one answer; leave it out")
    puzzle = family_of_run(run, config)
    writer = WRITERS.get(puzzle.name)
    given = {key for key, value in vars(arguments).items() if value != parser.get_default(key)} - {"words", "json"}
    if idle_options := given - of_puzzles if writer is None else given & of_puzzles:
        what = "texts; this is a puzzle" if writer is None else f"puzzles; {name} continues one text"
        raise ConfigError(f"--{min(idle_options).replace('_', '-')} is for {what}; leave it out")
    limits = config.evaluation.steps, arguments.restarts, arguments.seconds
    check_limits(*limits)
    puzzles = _puzzles(Path(text), puzzle) if output else [_text(text)]
    device = pick_device(config.device)
    used = (*USED, "data.directory") if fits_any_set(config.model) else USED
    skipped = (key for key in pairs if key.startswith(("evaluation.", "data.")) and key not in used)
    unused = dict.fromkeys(skipped, f"reason solve only uses {', '.join(USED)}") | idle(config)
    for line in idle_lines(dict(pairs), unused, "this answer"):
        print(line, file=sys.stderr)
    model = load_run(run, device, config, config.evaluation.weights).model
    if writer is not None:
        print(writer.shown(writer.write(run, model, config, puzzle, puzzles[0], arguments), arguments.json))
        return 0
    if output:
        return _solve_each(puzzles, output, lambda text: solve_text(run, model, config, text, *limits))
    with Progress(desc="restarts", unit="restart", leave=False, delay=1) as bar:
        try:
            solution = solve_text(run, model, config, puzzles[0], *limits, progress=bar.update)
        except DatasetError as error:
            typed = puzzles[0] == text and "\n" not in text
            if typed and re.search(r"\.\w+$|[a-z/\\]{2}", text):  # like the name of a file
                raise ConfigError(f"no file {text}, and no puzzle: {error}") from None
            raise
    solved = solution.describe() | {"run": run.resolve().name}
    if arguments.json:
        print(json.dumps(solved | solution.exact_entry(), indent=2))
    else:
        _print(solution, solved, Console(highlight=False))
    if animate is not None:
        captions = ["the question", *(f"step {row['step']} of {len(solved['steps'])}" for row in solved["steps"])]
        sys.stdout.flush()
        with published(gif, replace=True) as part:
            animate(part, solution.puzzle, solution.frames, solution.question, captions)
        if not arguments.json:
            print(f"picture {gif}")
    return 0 if solved["rules_hold"] is not False else 1


def _puzzles(file: Path, family: Puzzle) -> list[str]:
    """Return the puzzles of a file: the column `question` of a CSV file, else what the family parses."""
    if str(file) != "-" and not file.is_file():
        raise ConfigError(f"--output needs a file of puzzles, and {file} is none; leave it out to solve one puzzle")
    text = _text("-") if str(file) == "-" else read_text(file).removeprefix("\ufeff")
    head, *lines = text.lstrip("\n").splitlines(keepends=True) or [""]
    rows = columns(head, iter(lines))
    asked = "question" in (names := rows.fieldnames or [])
    try:
        found = [row["question"] or "" for row in rows] if asked else family.texts(text)
    except csv.Error as error:
        raise ConfigError(f"{file}, line {rows.reader.line_num}: not CSV ({error})") from None
    if len(names) > 1 and found[:1] == [head.strip()]:
        raise ConfigError(f"{file} has no column `question`; its columns are {', '.join(names)}")
    if not found:
        raise ConfigError(f"{file} holds no puzzle")
    return found


def _text(word: str) -> str:
    """Return the puzzle's text: typed, from a file, or from the input stream."""
    if word == "-":
        return decoded(sys.stdin.buffer.read(), "the standard input").removeprefix("\ufeff")
    if len(os.fsencode(word)) < 255 and "\n" not in word and Path(word).is_file():  # no file has a longer name
        return read_text(Path(word)).removeprefix("\ufeff")
    return word


def _solve_each(puzzles: list[str], output: Path, solve: Callable[[str], Solution]) -> int:
    """Solve puzzle after puzzle; write each row to the file as soon as it is known."""
    verdicts = []
    with output.open("x", newline="", encoding="utf-8") as file, Progress(puzzles, unit="puzzle") as bar:
        writer = csv.writer(file)
        writer.writerow(["question", "answer", "solved", "restarts", "seconds", "error"])
        for text in bar:
            began, error = time.monotonic(), ""
            try:
                described = solve(text).describe()
            except (ConfigError, DatasetError) as fault:
                described, error = {"answer": [], "rules_hold": False, "restarts": 0}, str(fault)
            verdicts.append({None: "unknown", True: "yes", False: "no"}[described["rules_hold"]])
            seconds = f"{time.monotonic() - began:.2f}"
            writer.writerow([text, "".join(described["answer"]), verdicts[-1], described["restarts"], seconds, error])
            file.flush()
            bar.set_postfix_str(f"{verdicts.count('yes')} solved")
    print(f"{output}: the rules hold for {verdicts.count('yes'):,} of {len(puzzles):,} puzzles")
    return 1 if "no" in verdicts else 0


def _print(solution: Solution, solved: dict[str, Any], console: Console) -> None:
    """Print the question, the steps that change something, and the verdict."""
    puzzle, question, frames = solution.puzzle, solution.question, solution.frames
    console.print("[bold]question[/bold]")
    console.print(puzzle.draw(frames[0], None, solution.relations), markup=False, soft_wrap=True)  # as it can be typed
    drawn = [row["step"] for row in solved["steps"] if row["changed"]]
    if len(drawn) > FEW:
        drawn = [m for m in drawn if m & (m - 1) == 0 or m == drawn[-1]]
    for changes, group in groupby(solved["steps"], lambda row: bool(row["changed"])):
        first, *others = group
        for row in [first, *others] if changes else [[first, *others][-1]]:
            m, halting = row["step"], "" if row["halting"] is None else f", halting {row['halting']:.1%}"
            facts = f"{halting}{', the rules hold' if row['rules_hold'] else ''}"
            if not changes:
                which = f"steps {first['step']} to {m}" if others else f"step {m}"
                console.print(f"[bold]{which}[/bold]: no cell changes{facts}")
                continue
            changed_clues = int((puzzle.given(question) & (frames[m] != question)).sum())
            lost = f", {counted(changed_clues, 'clue')} not kept (!)" if changed_clues else ""
            line = f"[bold]step {m}[/bold]: {counted(len(row['changed']), 'cell')} changed{lost}{facts}"
            console.print(f"\n{line}" if m in drawn else line)
            if m in drawn:
                marked = board(puzzle, frames[m], question, frames[m] != frames[m - 1])
                whole = puzzle.draws_constraints and m == drawn[-1]
                console.print(solution.drawn(frames[m]) if whole else marked, markup=False, soft_wrap=True)
    if reply := puzzle.reply(question, solution.by_step.answers[-1]):
        console.print(f"\n{reply}", markup=False)
    console.print(f"\n{_verdict(solution, solved)}")
    if exact := solution.exact():  # after the answer, since the solver takes most of a second to load
        count, answer = exact
        if solution.right and count == 1:
            console.print("an exact solver finds no other answer")
            return
        if count > 1 and not puzzle.multiple_solutions:
            console.print("\nthe puzzle has several solutions; the model was trained on puzzles with one")
        several = "several solutions; one" if count > 1 else "one solution"
        console.print(f"\nan exact solver finds {several}:\n{solution.drawn(answer)}", markup=False, soft_wrap=True)


def _verdict(solution: Solution, solved: dict[str, Any]) -> str:
    warnings = "; ".join(solved["doubts"])
    if solved["rules_hold"] is None:
        word = f"[yellow]unsure[/yellow]: {warnings}" if warnings else "the model is sure"
        return f"{word}; no rule tells whether this answer is right"
    if solved["rules_hold"]:
        again = f", at restart {solution.restart}" if solution.restart > 1 else ""
        return f"[green]solved: the rules hold[/green] at step {len(solved['steps'])}{again}"
    tried = f" in {solution.restarts} restarts" if solution.restarts > 1 else ""
    lines = [f"[red]not solved{tried}, the rules do not hold[/red]: {solved['mistake']}"]
    return "\n".join([*lines, f"the model's own doubts: {warnings or 'none, it is sure of a wrong answer'}"])
