"""reason push and pull: an exported model on the Hugging Face hub."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from datasets_gen.typed import Parser, quoted, typed
from reason.errors import ConfigError
from reason.files import read_json
from reason.pretrained import CARD
from reason.runs.directory import ROOT, refuse_no_run
from reason.runs.folders import new_path, plain_name

PUSH = """Upload a model that `reason export` wrote to the Hugging Face hub, its card as the page.

  reason export runs/mine models/mine
  reason push models/mine you/mine              log in before: hf auth login
  reason pull you/mine                          anywhere

Needs huggingface_hub: pip install 'recursive-reasoners[hub]'."""
PULL = """Fetch a model that `reason push` put on the Hugging Face hub. Weights are safetensors; no code is run.

  reason pull you/mine                          runs/mine
  reason pull you/mine models/theirs --revision v1
  reason solve runs/mine PUZZLE

Needs huggingface_hub: pip install 'recursive-reasoners[hub]'."""
PATTERNS = ["config.json", CARD, "README.md", "checkpoints/*/*.json", "checkpoints/*/*.safetensors"]


def push(argv: list[str]) -> int:
    """Upload, making the repository where there is none; returns the exit status."""
    parser = Parser(prog="reason push", description=PUSH)
    parser.add_argument("folder", type=Path, metavar="MODEL")
    parser.add_argument("repository", metavar="USER/NAME")
    parser.add_argument("--private", action="store_true", help="a new repository is visible to you alone")
    arguments = parser.parse_args(argv)
    folder, repository = arguments.folder, arguments.repository
    if not (folder / CARD).is_file():
        raise ConfigError(f"{folder} is no exported model; first make one: reason export RUN models/NAME")
    refuse_no_run(folder, str(folder), "export it again")
    message = f"{read_json(folder / CARD).get('name', folder.name)}, by reason export"
    with _hub(repository) as hub:
        address = hub.create_repo(repository, private=arguments.private, exist_ok=True)
        hub.upload_folder(
            repo_id=repository, folder_path=str(folder), allow_patterns=PATTERNS, commit_message=message
        )  # fmt: skip
    print(f"{folder} pushed to {address}; fetch it with: reason pull {quoted(repository)}")
    return 0


def pull(argv: list[str]) -> int:
    """Fetch into a new folder, whole or not at all; returns the exit status."""
    parser = Parser(prog="reason pull", description=PULL)
    parser.add_argument("repository", metavar="USER/NAME")
    parser.add_argument("out", type=Path, nargs="?", metavar="DIR", help="folder (default runs/NAME)")
    parser.add_argument("--revision", metavar="R", help="a branch, tag or commit")
    arguments = parser.parse_args(argv)
    repository = arguments.repository
    out = arguments.out or ROOT / plain_name(repository.rpartition("/")[2], "repository")
    with new_path(out, f"name another folder: reason pull {repository} DIR") as taken:
        with _hub(repository) as hub:
            hub.snapshot_download(
                repository, revision=arguments.revision, local_dir=str(taken), allow_patterns=PATTERNS
            )  # fmt: skip
        shutil.rmtree(taken / ".cache", ignore_errors=True)  # what the client keeps beside a download
        refuse_no_run(taken, repository, "name another repository, or export and push it again")
    print(typed(f"{out}: reason solve {quoted(out)} PUZZLE, python evaluate.py {quoted(out)}"))
    return 0


@contextlib.contextmanager
def _hub(repository: str) -> Iterator[Any]:
    """The hub's client; its errors, and those of the HTTP library below it, become one line."""
    try:
        import huggingface_hub
    except ImportError:
        raise ConfigError(
            "the hub needs the package huggingface_hub; pip install huggingface_hub, or 'recursive-reasoners[hub]'"
        ) from None
    try:
        yield huggingface_hub
    except Exception as error:
        first = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise ConfigError(f"{repository}: {first}") from None
