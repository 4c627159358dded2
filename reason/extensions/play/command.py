"""reason play: writes a page in which trained networks solve puzzles in the browser."""

from __future__ import annotations

import webbrowser
from pathlib import Path

from datasets_gen.typed import Parser
from reason.errors import ConfigError
from reason.extensions.play.page import Model, exported, play_page
from reason.extensions.play.runtime import KEPT, VERSION, runtime
from reason.extensions.play.shipped import shipped, shown
from reason.files import kept_in, published
from reason.pretrained import FOLDER

PLAY = f"""Write a page in which trained networks solve puzzles step by step, and open it. The networks compute in the
browser: the page needs no server and no network.

  reason play                                   the models of the package: Sudoku, mazes, sums
  reason play runs/mine                         also one of your runs
  reason play --output page.html --no-browser   only write the page

The page contains ONNX Runtime Web {VERSION}. If the package does not include it, it is downloaded once from the npm
registry (33 MB), checked and stored. Your run is exported first; this takes minutes and needs the extra:
pip install 'recursive-reasoners[onnx]'."""


def main(argv: list[str]) -> int:
    """Write the page and open it; returns the exit status."""
    parser = Parser(prog="reason play", description=PLAY)
    parser.add_argument("run", nargs="*", metavar="RUN", help="a trained run or a folder that reason export wrote")
    parser.add_argument("--output", type=Path, default=Path("play.html"), metavar="FILE", help="default play.html")
    parser.add_argument("--runtime", type=Path, metavar="FILE", help="file of onnxruntime-web's npm package")
    parser.add_argument("--no-browser", action="store_true", help="do not open the page")
    arguments = parser.parse_args(argv)
    if arguments.output.is_dir():
        raise ConfigError(f"{arguments.output} is a folder; type a file: --output {arguments.output / 'play.html'}")
    models = _models(arguments.run)
    script, binary = runtime(KEPT if KEPT.is_dir() else kept_in(KEPT, "play"), arguments.runtime)
    page = play_page(models, script, binary)
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    with published(arguments.output, replace=True) as part:
        part.write_text(page, encoding="utf-8")
    print(f"{arguments.output}: {len(models)} models, {len(page) / 1e6:.1f} MB")
    if not arguments.no_browser and not webbrowser.open(arguments.output.resolve().as_uri()):
        print("there is no browser here; open the file")
    return 0


def _models(names: list[str]) -> list[Model]:
    """Return the named runs, then the models of the package."""
    models = []
    if names:
        from reason.runs.directory import run_and_config  # torch

        for run, config in map(run_and_config, names):
            name = run.resolve().name
            is_shipped = run.parent == FOLDER and name in shown()
            models.append(shipped(name) if is_shipped else exported(run, config, name))
    named = {model["name"] for model in models}
    return models + [shipped(name) for name in shown() if name not in named]
