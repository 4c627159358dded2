"""reason new-puzzle: the starting file of a puzzle of one's own."""

from __future__ import annotations

import keyword
import re
from importlib.util import find_spec
from pathlib import Path

from datasets_gen.extensions.declared.pages import NAME
from datasets_gen.puzzles import FAMILIES
from datasets_gen.typed import Parser, typed
from reason.errors import ConfigError

DESCRIPTION = """Write NAME.py: a puzzle declared by a CPMpy model, to be changed into your own.

  reason new-puzzle hills                                        writes hills.py
  reason generate hills.py --train 1000 --test 200 --output-dir data/hills
  reason generate show data/hills                                --import hills.py: where the file has its own draw
  python train.py declared-puzzle data=data/hills

The checker, the solver, the generator and the structure that networks read follow from the constraints of the file."""

PAGE = '''"""{title}: a Latin square whose neighbours may show which of the two is larger."""

from datasets_gen.extensions.declared import Declared, Drawn, cp


class {title}(Declared):
    """{title}: a Latin square whose neighbours may show which of the two is larger."""

    name = "{name}"
    grid, values = (5, 5), "12345"  # rows and columns; one character for each value, the first stands for 1

    def always(self, x):
        """The constraints of every puzzle. x: CPMpy variables in the grid's shape."""
        return [cp.AllDifferent(line) for line in (*x, *x.T)]

    def puzzle(self, x, rng, fill):
        """One random puzzle. fill(constraints): a random grid that obeys them and `always`."""
        answer = fill()
        clues = [cell == value for cell, value in zip(x.flat, answer.flat)]
        for row, values in zip(x, answer):
            clues += [a < b for a, b, low, high in zip(row, row[1:], values, values[1:]) if low < high]
        return Drawn(answer, optional=clues)  # the generator removes every clue that one solution does not need
'''


def main(argv: list[str]) -> int:
    """Write the file; returns the exit status."""
    parser = Parser(prog="reason new-puzzle", description=DESCRIPTION)
    parser.add_argument("name", metavar="NAME", help="small letters, digits and -, a letter first")
    name = parser.parse_args(argv).name
    if not re.fullmatch(NAME, name):
        raise ConfigError(f"{name} is no name of a puzzle: type small letters, digits and -, as in my-puzzle")
    if name in FAMILIES:
        raise ConfigError(f"{name} is a puzzle of the package; type another name, as in my-{name}")
    stem = name.replace("-", "_")
    path = Path(f"{stem}.py")
    title = "".join(part.capitalize() for part in name.split("-"))
    taken = keyword.iskeyword(stem) or title in ("Declared", "Drawn") or find_spec(stem) is not None
    if taken and not path.exists():
        raise ConfigError(f"{stem}.py would hide {stem} of Python or a package; type another name, as in my-{name}")
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(PAGE.format(name=name, title=title))
    except FileExistsError:
        raise ConfigError(f"{path} is there already: type another name, or remove the file") from None
    print(f"{path} is written; change it, then make a set:")
    print(typed(f"  reason generate {path} --train 1000 --validation 100 --test 200 --output-dir data/{name}"))
    return 0
