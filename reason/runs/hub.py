"""Models on the Hugging Face hub: what `reason export` wrote, uploaded and fetched by huggingface_hub."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from datasets_gen.typed import quoted
from reason.errors import ConfigError
from reason.files import read_json
from reason.pretrained.card import FILE
from reason.runs.archive import MEMBER
from reason.runs.directory import read_record
from reason.runs.folders import scratch_beside
from reason.training.checkpoint import checkpoints, torn

CARDS = (FILE, "README.md")


def push_model(folder: Path, repository: str, *, private: bool = False) -> str:
    """Upload an exported model, making the repository where there is none; returns its address.

    Raises:
        ConfigError: the folder is no exported model, huggingface_hub is missing, or the hub refuses.
    """
    if not (folder / FILE).is_file():
        read_record(folder)
        words = f"{quoted(folder)} {quoted(Path('models', folder.name))}"
        raise ConfigError(f"{folder} is a run; first make a model of it: reason export {words}")
    _refuse_damage(folder, str(folder))
    hub = _hub()
    try:
        api = hub.HfApi()
        address = api.create_repo(repository, private=private, exist_ok=True)
        api.upload_folder(
            repo_id=repository,
            folder_path=str(folder),
            allow_patterns=["config.json", *CARDS, "checkpoints/*/*.json", "checkpoints/*/*.safetensors"],
            commit_message=f"{read_json(folder / FILE).get('name', folder.name)}, by reason export",
        )
    except Exception as error:  # the hub's own, and those of the HTTP library below it
        raise ConfigError(f"{repository}: {_first_line(error)}") from None
    return str(address)


def pull_model(repository: str, out: Path, *, revision: str | None = None) -> None:
    """Fetch a model into a new folder, whole or not at all; nothing but a run's own files is taken, and no code.

    Raises:
        ConfigError: `out` is there, huggingface_hub is missing, the hub refuses, or what is there is no model.
    """
    if out.exists():
        raise ConfigError(f"{out} is there already; name another folder: reason pull {repository} DIR")
    hub = _hub()
    with scratch_beside(out) as scratch:
        fetched, taken = scratch / "fetched", scratch / out.name
        try:
            hub.snapshot_download(
                repository,
                revision=revision,
                local_dir=str(fetched),
                allow_patterns=["config.json", *CARDS, "checkpoints/*/*"],
            )
        except Exception as error:  # the hub's own, and those of the HTTP library below it
            raise ConfigError(f"{repository}: {_first_line(error)}") from None
        for path in sorted(fetched.rglob("*")):
            name = path.relative_to(fetched).as_posix()
            if path.is_file() and not path.is_symlink() and (name in CARDS or MEMBER.fullmatch(name)):
                (taken / name).parent.mkdir(parents=True, exist_ok=True)
                path.rename(taken / name)
        if not (taken / "config.json").is_file():
            raise ConfigError(f"{repository} holds no config.json of `reason export`; name another repository")
        _refuse_damage(taken, repository)
        taken.rename(out)


def _refuse_damage(folder: Path, shown: str) -> None:
    """Raises ConfigError where a folder is no model that can be read."""
    try:
        read_record(folder)
    except ConfigError as error:
        raise ConfigError(str(error).replace(str(folder), shown)) from None
    faults = [torn(saved) for saved in checkpoints(folder)] or ["it holds none"]
    if None not in faults:
        raise ConfigError(f"{shown} holds no checkpoint that can be read ({faults[-1]}); export and push it again")


def _hub() -> Any:
    try:
        import huggingface_hub
    except ImportError:
        raise ConfigError(
            "the hub needs the package huggingface_hub; pip install huggingface_hub, or 'recursive-reasoners[hub]'"
        ) from None
    return huggingface_hub


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
