"""reason solve: one puzzle from the command line, solved by a trained model step by step.

What needs no network is refused here, before torch is imported, which takes seconds.
"""

from __future__ import annotations

import csv
import io
import re
import sys
from pathlib import Path

from datasets_gen.puzzles import family_of
from datasets_gen.structure import Structure
from datasets_gen.terminal import ending_at_once
from datasets_gen.typed import Parser
from reason.errors import ConfigError
from reason.files import decoded, read_json, read_text
from reason.pretrained import find_run, pretrained_models

DESCRIPTION = """Solve a puzzle with a trained model, and watch the answer change from step to step.

  reason solve sudoku 53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79
  reason solve sudoku-6x6 "1..4.. ..2... .6.... ...5.. 4....1 ....3."    '.' for open cells, spaces ignored
  reason solve maze maze.txt                                    a drawing in a file, of any size
  reason solve addition 123+456                                 a sum; § ends the answer
  reason solve runs/first puzzle.txt steps=32 --gif puzzle.gif  a run of yours
  cat puzzle.txt | reason solve runs/first - --json
  reason solve sudoku puzzles.csv --output answers.csv          a file of puzzles: one a line, or a column `question`

The first word is a run's folder, or a model that comes with the package (`reason models` lists them).

A maze is drawn with one character for each cell and one line for each row: '#' is a wall, ' ' or '.' a free cell. It
has one S and one G. A path of 'o' is read as free cells, and an empty line between rows as a row of free cells. A frame
of '|' and '+--+' is allowed. Short lines are filled with free cells; if the maze is not square, walls make it square.
Walls may also stand between the cells (on the right; cells of any one width): every wall and every gap becomes a cell.

  S..#    +--+--+
  .#..    |S    |
  .##.    +--+  +
  ...G    |G    |
          +--+--+

Without steps=T, a puzzle gets twice the supervision steps of training, or more if the board is larger than the boards
of training. ' marks a cell that changed, ! a clue that the answer changed; the terminal also shows colours. Boards are
drawn after steps 1, 2, 4, 8, … and after the last step that changes one; --all draws every change.

Solving stops at the first step whose answer satisfies the rules. If no step does, restarts solve the puzzle again under
its symmetries (a maze is flipped and rotated), or from other initial states if it has none, until an answer satisfies
the rules or --seconds have passed; then an exact solver says which solutions the puzzle has. If a puzzle has several
solutions or no symmetry, its most certain cell becomes a clue every few steps (evaluation.decimation=none turns this
off). The exit status is 0 if the last answer satisfies the rules, and 1 if it does not or the puzzle is malformed."""

SETTING = re.compile(r"(steps|device|(data|model|training|evaluation)\.[\w.]*)=")  # a sum may end in '=', too


def main(argv: list[str]) -> int:
    """Parse, refuse what is no puzzle, think, draw; returns the exit status."""
    parser = Parser(prog="reason solve", description=DESCRIPTION)
    parser.add_argument("words", nargs="+", metavar="MODEL PUZZLE | steps=T | section.key=value")
    parser.add_argument("--restarts", type=int, metavar="K", help="at most, the first included (default: no limit)")
    parser.add_argument("--seconds", type=float, metavar="S", help="for restarts of one puzzle (default: a minute)")
    parser.add_argument("--output", type=Path, metavar="FILE", help="solve a file of puzzles, and write this CSV file")
    parser.add_argument("--gif", type=Path, metavar="FILE", help="also write an animated picture")
    parser.add_argument("--all", action="store_true", help="draw the board after every step that changes it")
    parser.add_argument("--json", action="store_true", help="print JSON instead of boards")
    arguments = parser.parse_intermixed_args(argv)
    if arguments.restarts is not None and arguments.restarts < 1:
        raise ConfigError(f"--restarts {arguments.restarts}: at least one is needed")
    if arguments.seconds is not None and not arguments.seconds >= 0:
        raise ConfigError(f"--seconds {arguments.seconds}: a number from 0 is needed")
    if arguments.output and (arguments.gif or arguments.json or arguments.all):
        raise ConfigError(
            "--output writes the answers of a file of puzzles; --gif, --json and --all are for one puzzle"
        )
    if arguments.gif and arguments.gif.suffix.lower() != ".gif":
        raise ConfigError(
            f"--gif {arguments.gif}: a picture that moves ends in .gif; type --gif {arguments.gif.stem}.gif"
        )
    if arguments.gif and not arguments.gif.parent.is_dir():
        raise ConfigError(f"--gif {arguments.gif}: there is no folder {arguments.gif.parent}")
    settings = [word for word in arguments.words if SETTING.match(word)]
    words = [word for word in arguments.words if word not in settings]
    if len(words) != 2:
        models = ", ".join(pretrained_models())
        raise ConfigError(
            f"a run and a puzzle are needed, got {' '.join(words) or 'none'}; see: reason solve --help "
            f"(models of the package: {models})"
        )
    puzzles = _puzzles(Path(words[1]), arguments.output) if arguments.output else [_text(words[1])]
    if not arguments.output:
        _refuse_malformed(words[0], puzzles[0])
    with ending_at_once("interrupted"):
        from reason.cli.answer import answer
    return answer(words[0], settings, puzzles, arguments)


def _refuse_malformed(name: str, text: str) -> None:
    """Raises DatasetError where a text is no puzzle of the family that a run was trained on."""
    try:
        record = read_json(find_run(name) / "config.json")
        shape = record["shape"]
        structure = Structure.model_validate(shape["structure"])
        family = family_of(record["task"], shape["seq_len"], shape["vocab_size"], structure)
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return  # what reads the run says what is wrong with it
    family.sized(text).typed(text)


def _puzzles(file: Path, output: Path) -> list[str]:
    """The puzzles of a file: the column `question` of a CSV file that has it, else one a line."""
    if output.exists():
        raise ConfigError(f"--output {output}: the file exists; name another")
    if not output.parent.is_dir():
        raise ConfigError(f"--output {output}: there is no folder {output.parent}")
    if not _is_file(str(file)):
        raise ConfigError(f"no file {file}; with --output the puzzles are in a file, one a line")
    text = read_text(file).removeprefix("\ufeff")
    lines = [line for line in text.splitlines() if line.strip()]
    if file.suffix.lower() == ".csv" and lines:
        try:
            header, *rows = (row for row in csv.reader(io.StringIO(text, newline=""), strict=True) if row)
        except csv.Error as error:
            raise ConfigError(f"{file} is no CSV file ({error}); close its quotes") from None
        if "question" in header:
            if header.count("question") > 1:
                raise ConfigError(f"{file} has {header.count('question')} columns `question`; leave one")
            if faulty := next((row for row in rows if len(row) != len(header)), None):
                raise ConfigError(f"{file}: {len(faulty)} fields in {','.join(faulty)[:80]!r}, {len(header)} expected")
            lines = [row[header.index("question")] for row in rows]
        elif len(header) > 1:
            raise ConfigError(f"{file} has no column `question`; its columns are {', '.join(header)}")
    if not lines:
        raise ConfigError(f"{file} holds no puzzle")
    return lines


def _text(word: str) -> str:
    """The puzzle's text: typed, in a file, or on the input stream."""
    if word == "-":
        return decoded(sys.stdin.buffer.read(), "the standard input").removeprefix("\ufeff")
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
