"""Models on the Hugging Face hub: folders that `reason export` wrote, moved by huggingface_hub (extra `hub`)."""

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

FILES = ("*.json", "README.md", "checkpoints/*")  # of a run; no code is fetched


def fetched(name: str | Path) -> Path:
    """Return a copy in runs/ of the model hf:OWNER/NAME, or hf:OWNER/NAME@REVISION, named with its commit.

    The hub's own cache stays as it is: evaluations are written beside a run's weights.

    Raises:
        ConfigError: there is no such model, or no connection and nothing in the cache.
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
    """A trained run with the two verbs of the hub's users."""

    @classmethod
    def from_pretrained(cls, name: str | Path, **settings: Any) -> Self:
        """Load the run in a folder, or of the hub's OWNER/NAME, with the settings of `reason.load`."""
        return cls(**vars(load(name if Path(name).exists() else f"hf:{name}", **settings)))

    def push_to_hub(self, name: str, *, sets: Sequence[str] = (), stored: str = "fp32", **settings: Any) -> str:
        """Export the model to the hub's OWNER/NAME with a card; return the address of the commit.

        sets: of the accuracies on the card; none: those of the training. settings: `private=True` and others of
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
