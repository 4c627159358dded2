"""make demo: mazes of 10×10 learned in minutes, and larger ones solved by the same weights with more steps."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from rich.console import Console

from datasets_gen.__main__ import main as generate
from datasets_gen.layout import splits_of
from datasets_gen.maze import Maze
from datasets_gen.typed import Parser, typed
from reason.cli import solve, train
from reason.config.overrides import override, read_config
from reason.data import PuzzleData
from reason.errors import ConfigError
from reason.evaluation.suite import print_results
from reason.presets import preset
from reason.runs.evaluation import evaluate_run
from reason.training.checkpoint import checkpoints, step_of

PRESET = "maze-10x10-narrow"
STEPS = 6000  # of training: three quarters of the preset's, so that the whole demo takes minutes
RUN = Path("runs/demo")
LARGER = {20: 48, 30: 64}  # rows of a maze: supervision steps
PUZZLES = 100  # of each larger size, and of a demo that is cut short
DRAWN, SHOWN = 20, 16  # rows of the maze that is drawn, and its supervision steps

PROPOSAL = """\
One small network, applied again and again to its own state, solves puzzles that a single pass cannot, and larger ones
with more steps: {parameters:,} weights learn mazes of 10x10 here, and then solve mazes of 20x20 and 30x30.
"""
NEXT = """what to try next
  python evaluate.py {run} data={data} steps=256            many more steps
  reason solve {run} {run}/maze.txt steps=96            a maze of any size: change the file ('#', ' ', S and G)
  python train.py maze-any                                        several sizes at once, for larger mazes
  python train.py sudoku-9x9                                      hard 9x9 Sudoku, 15 to 60 minutes
  reason presets                                                  all presets"""
IN_A_CHECKOUT = "before, once in every terminal: source .venv/bin/activate       (Windows: .venv\\Scripts\\activate)"


def main(argv: list[str]) -> int:
    """Generate, train (or resume an interrupted demo), evaluate on three sizes, draw a maze, and explain the result.

    With --minutes, training ends after so many at the latest, and its model is read on mazes of its own size alone.
    """
    parser = Parser(prog="reason demo", description=__doc__)
    parser.add_argument("--minutes", type=float, metavar="M", help="train M minutes at most, then read 10x10 mazes")
    minutes = parser.parse_args(argv).minutes
    chosen, console = preset(PRESET), Console()
    data = chosen.config().data.directories[0]
    print(PROPOSAL.format(parameters=chosen.parameter_count()))
    if not _finished():
        begun = (RUN / "config.json").exists()
        arguments = [f"run={RUN}", "--resume"] if begun else [PRESET, f"run={RUN}", f"training.steps={STEPS}"]
        arguments += [] if minutes is None else ["--max-minutes", str(minutes)]
        print(typed(f"demo: python train.py {' '.join(arguments)}"))
        train.main(arguments)
    if not _finished() and minutes is None:
        print(typed("demo: interrupted; `make demo` goes on with this training, and then with the rest of the demo"))
        return 130
    if not _finished():
        results, _ = _evaluated({"data.directory": data, "evaluation.limit": str(PUZZLES)})
        step = step_of(checkpoints(RUN)[-1])
        print(f"demo: cut short at training step {step} of {STEPS}, {_figures(results)}; `make demo` goes on with it")
        return 0
    results, folder = _evaluated({"data.directory": data})
    print_results(results, console)
    print(f"picture {folder / 'accuracy_by_step.png'}\n")
    for size, steps in LARGER.items():
        larger, _ = _evaluated({"data.directory": _made(size), "evaluation.steps": str(steps)})
        exact = larger["exact_by_step"]
        shown = sorted({*(2**k for k in range(steps.bit_length())), steps})
        read = ", ".join(f"{100 * exact[step - 1]:.0f}% at step {step}" for step in shown)
        print(f"demo: {larger['puzzles']} mazes of {size}x{size}, exact: {read}\n")
    _draw(_made(DRAWN))
    print(typed(NEXT.format(run=RUN, data=data)))
    if typed(NEXT) == NEXT:
        print(IN_A_CHECKOUT)
    print(f"demo: {_figures(results)}, report {folder / 'report.html'}")
    return 0


def _figures(results: dict[str, Any]) -> str:
    trained, exact = results["trained_steps"], results["exact_by_step"]
    at_1 = f"{100 * exact[0]:.1f}% at step 1"
    return f"exact {100 * exact[trained - 1]:.1f}% at step {trained} of {trained} trained, {at_1}"


def _made(size: int) -> str:
    """The folder of mazes of that size, made where it is not there yet."""
    folder = f"data/maze-{size}x{size}"
    if "test" not in splits_of(folder):
        words = f"maze --size {size} --train 0 --test {PUZZLES} --seed 0 --output-dir {folder}"
        if generate(shlex.split(words)):
            raise ConfigError(f"the set {folder} could not be made; see above")
    return folder


def _evaluated(pairs: dict[str, str]) -> tuple[dict[str, Any], Path]:
    words = {"data.directory": "data", "evaluation.steps": "steps"}
    asked = " ".join(f"{words.get(key, key)}={value}" for key, value in pairs.items())
    print(typed(f"demo: python evaluate.py {RUN} {asked}"))
    return evaluate_run(RUN, override(read_config(RUN / "config.json"), pairs))


def _draw(directory: str) -> None:
    """The first maze of a set: solved step by step in the terminal, and as a GIF."""
    picture, file = RUN / "maze.gif", RUN / "maze.txt"
    file.write_text(Maze(DRAWN).draw(PuzzleData(directory, "test").inputs[0].numpy()), encoding="utf-8")
    print(f"demo: reason solve {RUN} {file} steps={SHOWN} --gif {picture}")
    solve.main([str(RUN), str(file), f"steps={SHOWN}", "--gif", str(picture)])
    print()


def _finished() -> bool:
    if not (RUN / "config.json").exists():
        return False
    saved = checkpoints(RUN)
    return bool(saved) and step_of(saved[-1]) >= read_config(RUN / "config.json").training.steps
