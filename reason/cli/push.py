"""reason push: an exported model → the Hugging Face hub."""

from __future__ import annotations

from pathlib import Path

from datasets_gen.typed import Parser, quoted
from reason.runs.hub import push_model

DESCRIPTION = """Upload a model that `reason export` wrote to the Hugging Face hub, its card as the page.

  reason export runs/mine models/mine
  reason push models/mine you/mine              log in before: hf auth login
  reason pull you/mine                          anywhere

Needs huggingface_hub: pip install 'recursive-reasoners[hub]'."""


def main(argv: list[str]) -> int:
    """Upload; returns the exit status."""
    parser = Parser(prog="reason push", description=DESCRIPTION)
    parser.add_argument("folder", type=Path, metavar="MODEL")
    parser.add_argument("repository", metavar="USER/NAME")
    parser.add_argument("--private", action="store_true", help="a new repository is visible to you alone")
    arguments = parser.parse_args(argv)
    address = push_model(arguments.folder, arguments.repository, private=arguments.private)
    print(f"{arguments.folder} pushed to {address}; fetch it with: reason pull {quoted(arguments.repository)}")
    return 0
