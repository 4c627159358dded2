"""Loads and uploads models on the Hugging Face hub, in the folders of `reason export` (extra `hub`)."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from reason.api import Run, load
from reason.errors import ConfigError
from reason.extensions.export.model import export_run
from reason.runs.directory import ROOT
from reason.runs.folders import new_path

FILES = ("*.json", "README.md", "checkpoints/*")  # of a run, without code


def fetched(name: str | Path) -> Path:
    """Return a copy in runs/ of the model hf:OWNER/NAME, or hf:OWNER/NAME@REVISION, named with its commit.

    Evaluations are written to this copy, so that the hub's cache does not change.

    Raises:
        ConfigError: the model does not exist, or there is no connection and the cache does not have it.
    """
    repository, _, revision = str(name).removeprefix("hf:").partition("@")
    try:
        there = _hub().snapshot_download(repository, revision=revision or None, allow_patterns=list(FILES))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{name} cannot be fetched ({str(error).splitlines()[0]}); type hf:OWNER/NAME") from None
    run = ROOT / f"{repository.replace('/', '--')}-{Path(there).name[:7]}"
    if not run.exists():
        with new_path(run, "") as scratch:
            shutil.copytree(there, scratch)
    return run


class Reasoner(Run):
    """A trained run with the two methods of the hub's classes."""

    @classmethod
    def from_pretrained(cls, name: str | Path, **settings: Any) -> Self:
        """Load the run from a folder or the hub's OWNER/NAME, with the settings of `reason.load`."""
        return cls(**vars(load(name if Path(name).exists() else f"hf:{name}", **settings)))

    def push_to_hub(self, name: str, *, sets: Sequence[str] = (), stored: str = "fp32", **settings: Any) -> str:
        """Export the model to the hub's OWNER/NAME with a card; return the address of the commit.

        sets: sets to evaluate on, by default those of the training. settings: `private=True` and other arguments of
        `huggingface_hub.create_repo`.
        """
        hub = _hub()
        hub.create_repo(name, exist_ok=True, **settings)
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch) / name.rpartition("/")[2]
            export_run(self.directory, folder, self.config, stored, list(sets))
            return str(hub.upload_folder(repo_id=name, folder_path=folder, commit_message="reason export"))


def _hub() -> Any:
    try:
        import huggingface_hub
    except ImportError:
        raise ConfigError("the hub needs huggingface_hub: pip install 'recursive-reasoners[hub]'") from None
    return huggingface_hub
