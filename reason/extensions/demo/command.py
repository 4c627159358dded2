"""The demo: trains on 10×10 mazes in minutes, and solves larger ones by the same weights with more steps.

It prints a list of commands, as a user can type them, and executes each.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

from datasets_gen.__main__ import main as generate
from datasets_gen.layout import splits_of
from datasets_gen.maze import Maze
from datasets_gen.typed import Parser, typed
from reason.cli import evaluate, solve, train
from reason.config.overrides import read_config
from reason.data.puzzles import PuzzleData
from reason.presets import preset
from reason.training.checkpoint import checkpoints, step_of

PRESET = "maze-10x10-narrow"
STEPS = 6000  # of training: three quarters of the preset's, so that the whole demo takes minutes
RUN = Path("runs/demo")
LARGER = {20: 48, 30: 64}  # rows of a maze: supervision steps; the first maze of the smallest size is drawn
PUZZLES = 100  # of each larger size, and of an interrupted demo

PROPOSAL = """\
One small network, applied repeatedly to its state, solves puzzles that a single pass cannot, and larger ones with more
steps: {parameters:,} weights learn mazes of 10x10 here, and then solve mazes of 20x20 and 30x30.
"""
NEXT = f"""what to try next
  python evaluate.py {RUN} steps=256                        many more steps
  reason solve {RUN} {RUN}/maze.txt steps=96            a maze of any size: change the file ('#', ' ', S and G)
  python train.py maze-any                                        several sizes at once, for larger mazes
  python train.py sudoku-9x9                                      hard 9x9 Sudoku, 15 to 60 minutes
  reason presets                                                  all presets"""
IN_A_CHECKOUT = "first, once in every terminal: source .venv/bin/activate       (Windows: .venv\\Scripts\\activate)"


def main(argv: list[str]) -> int:
    """Train (or resume an interrupted demo), evaluate on three sizes, and draw a maze; returns the exit status."""
    parser = Parser(prog="reason demo", description=__doc__)
    parser.add_argument("--minutes", type=float, metavar="M", help="train at most M minutes, then evaluate 10x10 mazes")
    minutes = parser.parse_args(argv).minutes
    print(PROPOSAL.format(parameters=preset(PRESET).parameter_count()))
    if not _finished():
        begun = (RUN / "config.json").exists()
        words = [f"run={RUN}", "--resume"] if begun else [PRESET, f"run={RUN}", f"training.steps={STEPS}"]
        _carry_out("python train.py", train.main, *words, *([] if minutes is None else ["--max-minutes", str(minutes)]))
    if not _finished():
        if minutes is not None:
            _carry_out("python evaluate.py", evaluate.main, str(RUN), f"evaluation.limit={PUZZLES}")
        print(typed(f"demo: cut short before training step {STEPS}; `make demo` continues it"))
        return 130 if minutes is None else 0
    _carry_out("python evaluate.py", evaluate.main, str(RUN))
    for size, steps in LARGER.items():
        if "test" not in splits_of(_mazes(size)):
            made = f"--size {size} --train 0 --test {PUZZLES} --seed 0 --output-dir {_mazes(size)}"
            _carry_out("python -m datasets_gen", generate, "maze", *made.split())
        _carry_out("python evaluate.py", evaluate.main, str(RUN), f"data={_mazes(size)}", f"steps={steps}")
    size = min(LARGER)
    file, first = RUN / "maze.txt", PuzzleData(_mazes(size), "test").inputs[0]
    file.write_text(Maze(size).draw(first.numpy()), encoding="utf-8")
    _carry_out("reason solve", solve.main, str(RUN), str(file), "steps=16", "--gif", str(RUN / "maze.gif"))
    print(f"\n{typed(NEXT)}")
    if typed(NEXT) == NEXT:
        print(IN_A_CHECKOUT)
    return 0


def _carry_out(program: str, command: Callable[[list[str]], int], *words: str) -> None:
    print(f"\n{typed(f'demo: {program} {shlex.join(words)}')}", flush=True)
    command(list(words))  # `reason solve` has a status other than 0 if the answer breaks a rule


def _mazes(size: int) -> str:
    return f"data/maze-{size}x{size}"


def _finished() -> bool:
    """Return whether the newest checkpoint of the demo's run is that of the last step."""
    saved = checkpoints(RUN) if (RUN / "config.json").exists() else []
    return bool(saved) and step_of(saved[-1]) >= read_config(RUN / "config.json").training.steps
