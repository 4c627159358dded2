"""Models on the Hugging Face hub: what `reason export` wrote, uploaded and fetched by huggingface_hub."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from datasets_gen.typed import quoted
from reason.errors import ConfigError
from reason.files import read_json
from reason.pretrained.card import FILE
from reason.runs.archive import refuse_no_run
from reason.runs.directory import read_record
from reason.runs.folders import new_path

PATTERNS = ["config.json", FILE, "README.md", "checkpoints/*/*.json", "checkpoints/*/*.safetensors"]


def push_model(folder: Path, repository: str, *, private: bool = False) -> str:
    """Upload an exported model, making the repository where there is none; returns its address.

    Raises:
        ConfigError: the folder is no exported model, huggingface_hub is missing, or the hub refuses.
    """
    if not (folder / FILE).is_file():
        read_record(folder)
        words = f"{quoted(folder)} {quoted(Path('models', folder.name))}"
        raise ConfigError(f"{folder} is a run; first make a model of it: reason export {words}")
    refuse_no_run(folder, str(folder), "export it again")
    name = read_json(folder / FILE).get("name", folder.name)
    with _hub(repository) as hub:
        address = hub.create_repo(repository, private=private, exist_ok=True)
        hub.upload_folder(
            repo_id=repository,
            folder_path=str(folder),
            allow_patterns=PATTERNS,
            commit_message=f"{name}, by reason export",
        )
    return str(address)


def pull_model(repository: str, out: Path, *, revision: str | None = None) -> None:
    """Fetch a model into a new folder, whole or not at all; a run's own files are taken, and no code.

    Raises:
        ConfigError: `out` is there, huggingface_hub is missing, the hub refuses, or what is there is no model.
    """
    with new_path(out, f"name another folder: reason pull {repository} DIR") as taken:
        with _hub(repository) as hub:
            hub.snapshot_download(repository, revision=revision, local_dir=str(taken), allow_patterns=PATTERNS)
        shutil.rmtree(taken / ".cache", ignore_errors=True)  # what the client keeps beside a download
        if not (taken / "config.json").is_file():
            raise ConfigError(f"{repository} holds no config.json of `reason export`; name another repository")
        refuse_no_run(taken, repository, "export and push it again")


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
