"""What holds for typed puzzles of every family, and a page that reads them."""

import csv
import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from datasets_gen.extensions.addition.puzzles import Addition
from datasets_gen.family import Puzzle
from datasets_gen.importers.tables import read_table
from datasets_gen.layout import DatasetError
from datasets_gen.maze import GOAL, START, WALL, Maze
from datasets_gen.sudoku import Sudoku
from reason.cli.solve import _text
from reason.extensions.play.page import FAMILIES

TEMPLATE = Path(__file__).parents[1] / "reason/extensions/play/template"
BESIDE = {  # clues beside cells, or a grid without its frame
    "arc", "binary", "colouring", "futoshiki", "hitori", "kakuro", "killer", "light-up", "nonogram", "pairs",
    "random-binary", "random-mixed", "random-values", "random-walls", "slitherlink", "sudoku-jigsaw",
}  # fmt: skip
STRANGE = "0123456789.#SGo|+-=<>^v:,'_?*§ABabQR \t\n\u00a0\u2028é٣😀"
KINDS = ["insert", "delete", "replace", "repeat", "repeat word", "repeat line", "drop line", "swap lines", "pad line"]
PLACES, CHARACTERS = st.integers(0, 9999), st.sampled_from(STRANGE)
CHANGES = st.lists(st.tuples(st.sampled_from(KINDS), PLACES, PLACES, CHARACTERS), max_size=3)
READER = """
require("readline").createInterface({ input: process.stdin }).on("line", (line) => {
  const { family, model, text } = JSON.parse(line), { read, write, objection } = FAMILIES[family];
  try {
    const board = read(text, model);
    console.log(JSON.stringify({ ...board, written: write(board, model), objected: objection(board, model) }));
  } catch (error) {
    if (!(error instanceof Unreadable)) throw error;
    console.log(JSON.stringify({ refused: error.message }));
  }
});
"""


class Case(NamedTuple):
    puzzle: Any
    question: np.ndarray
    answer: np.ndarray
    relations: np.ndarray | None = None


def read(puzzle: Puzzle, text: str) -> Any:
    """What `reason solve` reads: the puzzle, tokens and clues beside cells; None where it refuses in one line."""
    try:
        sized = puzzle.sized(text)
        tokens, relations = sized.typed(text)
    except DatasetError:
        return None
    return sized, tokens.tolist(), clues(sized, relations)


def clues(puzzle: Any, relations: np.ndarray | None) -> list[Any]:
    return [] if relations is None else sorted((e.kind, e.numbers, e.ordered) for e in puzzle.instances_of(relations))


@pytest.fixture(scope="module")
def page() -> Iterator[Any]:
    """Reads a text as the page does: the tokens, padded as the command pads them, and what the page writes of them."""
    if (node := shutil.which("node")) is None:
        pytest.skip("no node here: install Node.js")
    script = (TEMPLATE / "rules.js").read_text(encoding="utf-8") + READER
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "encoding": "utf-8"}
    with subprocess.Popen([node, "-e", script], **pipes) as process:

        def reads(puzzle: Any, text: str) -> Any:
            family = puzzle.name if puzzle.name in FAMILIES else "plain"
            grid = dict(zip(("rows", "columns"), puzzle.grid_shape, strict=True))
            model = {
                "characters": [*puzzle.characters[: puzzle.vocab_size]],
                "task": puzzle.task,
                "any_size": True,
                "groups": puzzle.structure.groups,
                "symbols": puzzle.structure.symbols,
                **grid,
            }
            process.stdin.write(json.dumps({"family": family, "model": model, "text": text}) + "\n")
            process.stdin.flush()
            told = json.loads(process.stdout.readline())
            if family != "maze" or "refused" in told:
                return told
            board = np.array(told["tokens"]).reshape(told["rows"], told["columns"])
            size = max(board.shape)
            square = np.full((size, size), WALL)
            square[: board.shape[0], : board.shape[1]] = board
            ends = [int((board == token).sum()) for token in (START, GOAL)]
            return told | {"tokens": square.ravel().tolist()} if ends == [1, 1] else {"refused": f"S and G: {ends}"}

        yield reads
        process.stdin.close()


def imported(puzzle: Puzzle, text: str, file: Path) -> Any:
    """What the importer reads where a CSV file has this question, as `read`; None where it refuses."""
    with file.open("w", encoding="utf-8", newline="") as lines:
        csv.writer(lines).writerows([["question", "answer"], [text, len(text) * "1#"[isinstance(puzzle, Maze)]]])
    try:
        table = read_table(file, puzzle.name)
    except DatasetError:
        return None
    return table.puzzle, table.split.inputs[0].tolist(), []


def changed(text: str, changes: list[tuple[str, int, int, str]]) -> str:
    for kind, one, other, character in changes:
        lines, words = text.split("\n"), text.split() or [""]
        at, line, far = one % (len(text) + 1), one % len(lines), other % len(lines)
        match kind:
            case "insert" | "delete" | "replace":
                put = "" if kind == "delete" else character
                text = text[:at] + put + text[at + (kind != "insert") :]
            case "repeat":
                text += text[at:]
            case "repeat word":
                text += f" {words[one % len(words)]}"
            case "repeat line":
                text = "\n".join([*lines[:far], lines[line], *lines[far:]])
            case "drop line":
                text = "\n".join([*lines[:line], *lines[line + 1 :]])
            case "swap lines":
                lines[line], lines[far] = lines[far], lines[line]
                text = "\n".join(lines)
            case "pad line":
                lines[line] += " " * (other % 3)
                text = "\r\n".join(lines)
    return text


def all_read_alike(case: Case, count: int, page: Any, tmp_path: Path) -> None:
    """Command, file, importer and page read mutated texts alike or refuse them; what is drawn they all read.

    What is read is drawn and read again, and each word of a declared puzzle counts.
    """
    puzzle, question, answer, relations = case
    file, known = tmp_path / "puzzle.txt", set[bool]()

    @seed(0)
    @settings(max_examples=count, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(st.randoms(use_true_random=False), st.booleans(), CHANGES, PLACES)
    def agree(random: Any, drawn: bool, changes: list[tuple[str, int, int, str]], word: int) -> None:
        asked = question
        if not isinstance(puzzle, Addition | Maze) and puzzle.has_rules:  # other clues
            shown = np.array([random.random() < 0.5 for _ in answer])
            asked = np.where((question == 1) & shown, answer, question).astype(np.uint8)
        drawn = drawn or relations is not None
        in_a_line = "".join(puzzle.characters[token] for token in asked)  # as --output writes an answer
        text = changed(puzzle.draw(asked, None, relations) if drawn else in_a_line, changes)
        found = read(puzzle, text)
        known.add(found is not None)
        file.write_text(text, encoding="utf-8", newline="")
        written = read(puzzle, _text(str(file)))
        assert written == found or "\r" in text.replace("\r\n", "")  # a line end in a file, and nothing in a word
        assert None in (written, found) or written == found
        if isinstance(puzzle, Sudoku | Maze) and found is not None:
            assert imported(puzzle, text, tmp_path / "test.csv") in (None, found)
        on_page = puzzle.name not in BESIDE and not puzzle.causal  # nor is a causal sum read there
        told = page(puzzle, text) if on_page else {}
        if "tokens" in told:
            assert not puzzle.has_rules or found is not None  # the page paints what is no grid
            assert found is None or told["tokens"] == found[1]
            reason = found[0].contradiction(np.array(found[1], np.uint8)) if isinstance(puzzle, Sudoku | Maze) else None
            if isinstance(puzzle, Maze):
                assert told["objected"] == (reason and f"The puzzle contradicts itself: {reason}.")
            if isinstance(puzzle, Sudoku):  # the page searches no solutions
                assert (told["objected"] is not None) == (" twice: " in (reason or ""))
        elif told and found is not None:
            may_refuse = isinstance(puzzle, Sudoku) or "A maze has 3 to 40 rows" in told["refused"]
            assert found[0] != puzzle or may_refuse  # the page reads Sudokus of one character a cell
        if drawn and not changes:
            meant = puzzle.read if isinstance(puzzle, Addition) else list
            assert (found[0], meant(found[1]), found[2]) == (puzzle, meant(asked), clues(puzzle, relations))
            if told:
                assert told["tokens"] == read(puzzle, told["written"])[1] == page(puzzle, told["written"])["tokens"]
        if found is None:
            return
        sized, tokens, _ = found
        again = sized.draw(np.array(tokens, np.uint8), None, sized.typed(text)[1])
        assert read(sized, again) == found
        words = list(re.finditer(r"\S+", text))
        if relations is not None and words:
            gone = words[word % len(words)]
            if not re.fullmatch(r"\.+|\d+=\.", gone[0]):  # open cells, or a node that a larger one implies
                assert read(puzzle, text[: gone.start()] + text[gone.end() :]) != found, gone

    agree()
    assert True in known


def reading_test(cases: Mapping[str, Callable[[], Case]]) -> Callable[..., None]:
    """The test that every family has, of its cases."""

    @pytest.mark.parametrize("name", cases)
    @pytest.mark.parametrize("count", [25, pytest.param(2000, marks=pytest.mark.slow)])
    def reads_alike_or_refuses(name: str, count: int, page: Any, tmp_path: Path) -> None:
        all_read_alike(cases[name](), count, page, tmp_path)

    return reads_alike_or_refuses
