"""reason pull: a model of the Hugging Face hub → a folder that is read as a run."""

from __future__ import annotations

from pathlib import Path

from datasets_gen.typed import Parser, quoted, typed
from reason.runs.directory import ROOT
from reason.runs.hub import pull_model

DESCRIPTION = """Fetch a model that `reason push` put on the Hugging Face hub. Weights are safetensors; no code is run.

  reason pull you/mine                          runs/mine
  reason pull you/mine models/theirs --revision v1
  reason solve runs/mine PUZZLE

Needs huggingface_hub: pip install 'recursive-reasoners[hub]'."""


def main(argv: list[str]) -> int:
    """Fetch; returns the exit status."""
    parser = Parser(prog="reason pull", description=DESCRIPTION)
    parser.add_argument("repository", metavar="USER/NAME")
    parser.add_argument("out", type=Path, nargs="?", metavar="DIR", help="folder (default runs/NAME)")
    parser.add_argument("--revision", metavar="R", help="a branch, tag or commit")
    arguments = parser.parse_args(argv)
    out = arguments.out or ROOT / arguments.repository.rsplit("/", 1)[-1]
    pull_model(arguments.repository, out, revision=arguments.revision)
    print(typed(f"{out}: reason solve {quoted(out)} PUZZLE, python evaluate.py {quoted(out)}"))
    return 0
