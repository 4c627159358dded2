"""Commands that are printed can be typed: whatever a path holds."""

import re
import shlex
from pathlib import Path

import pytest
from conftest import NARROW, output, refusal

from reason.cli import main


def printed(command: str, text: str) -> list[str]:
    """The words after a command in what was printed."""
    (found,) = re.findall(rf"{command} (.*)", text)
    return shlex.split(found)


@pytest.mark.parametrize("run", ["my runs/lr=0.1", "lr=0.1"])
def test_the_commands_of_a_run(run: str, sudoku_4x4: Path, here: Path) -> None:
    trained = output(["train", "sudoku-4x4", f"data={sudoku_4x4}", *NARROW, f"run={run}"])
    words = printed("next: python evaluate.py", trained)
    assert printed("next: python evaluate.py", refusal(["train", f"run={run}", "--resume"])) == words
    compared = refusal(["compare", run, "--name", "some one"])
    assert printed("make one: python evaluate.py", compared) == [*words, "name=some one"]
    asked = ["steps=1", "evaluation.boards=0"]
    assert main(["evaluate", *words, *asked]) == 0
    assert len(list((here / run / "evaluation").iterdir())) == 1
    given = printed("next: python evaluate.py", output(["export", *words, "my models/a=b c", "steps=1"]))
    assert main(["evaluate", *given, *asked, f"data={sudoku_4x4}"]) == 0
    card = (here / "my models/a=b c/card.json").read_text()
    assert "python evaluate.py './a=b c' data=data/sudoku-4x4" in card


def test_a_packed_run_with_a_space(half: Path, here: Path) -> None:
    words = printed("resume with: python train.py", output(["pack", "half", "a b.tar.gz"]))
    assert main(["train", *words]) == 0
    assert (here / "runs/a b/config.json").is_file()


def test_a_missing_set_with_a_space(here: Path) -> None:
    refusal(["generate", "show", "my sets/a"], "--output-dir 'my sets/a'`")
