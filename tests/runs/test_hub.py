"""reason push and pull against a hub in a folder: the calls of huggingface_hub that they make, with its signatures."""

import fnmatch
import shutil
import sys
from pathlib import Path
from types import ModuleType
from typing import Self

import pytest
import torch
from conftest import output, refusal

import reason
from reason.cli import main


class FolderHub(ModuleType):
    """`huggingface_hub`, its repositories folders below `root`."""

    def __init__(self, root: Path):
        super().__init__("huggingface_hub")
        self.root, self.private, self.revisions = root, {}, []

    def HfApi(self) -> Self:
        return self

    def create_repo(self, repo_id: str, *, private: bool | None = None, exist_ok: bool = False) -> str:
        if "/" not in repo_id:
            raise ValueError(f"Repo id must be in the form 'repo_name' or 'namespace/repo_name': '{repo_id}'\nmore")
        self.private[repo_id] = private
        (self.root / repo_id).mkdir(parents=True, exist_ok=exist_ok)
        return f"https://hub.test/{repo_id}"

    def upload_folder(self, *, repo_id: str, folder_path: str, allow_patterns: list[str], commit_message: str) -> None:
        for name in chosen(Path(folder_path), allow_patterns):
            (self.root / repo_id / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(Path(folder_path) / name, self.root / repo_id / name)

    def snapshot_download(
        self, repo_id: str, *, revision: str | None = None, local_dir: str, allow_patterns: list[str]
    ) -> str:
        if not (self.root / repo_id).is_dir():
            raise OSError(f"Repository Not Found: {repo_id}")
        self.revisions.append(revision)
        for name in chosen(self.root / repo_id, allow_patterns):
            (Path(local_dir) / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(self.root / repo_id / name, Path(local_dir) / name)
        (Path(local_dir) / ".cache").mkdir(parents=True, exist_ok=True)
        return local_dir


def chosen(folder: Path, patterns: list[str]) -> list[str]:
    names = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
    return [name for name in names if any(fnmatch.fnmatch(name, pattern) for pattern in patterns)]


@pytest.fixture(scope="module")
def model(sudoku_4x4: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    here = tmp_path_factory.mktemp("hub")
    brief = {"training": {"steps": 1, "batch_size": 4}, "model": {"hidden_size": 8, "num_heads": 1}}
    run = reason.train("sudoku-4x4", data=sudoku_4x4, run=here / "run", **brief)
    assert main(["export", str(run.directory), str(here / "model"), "steps=1"]) == 0
    return here / "model"


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FolderHub:
    fake = FolderHub(tmp_path / "hub")
    monkeypatch.setitem(sys.modules, "huggingface_hub", fake)
    monkeypatch.chdir(tmp_path)
    return fake


def test_a_model_goes_there_and_comes_back(model: Path, hub: FolderHub) -> None:
    output(["push", str(model), "me/mine", "--private"], "reason pull me/mine")
    assert hub.private == {"me/mine": True}
    (hub.root / "me" / "mine" / "run.py").write_text("raise SystemExit")
    assert main(["pull", "me/mine"]) == 0
    assert main(["pull", "me/mine", "earlier", "--revision", "v1"]) == 0
    assert hub.revisions == [None, "v1"]
    files = {path.relative_to(model).as_posix(): path.read_bytes() for path in model.rglob("*") if path.is_file()}
    back = Path("runs/mine")
    assert {path.relative_to(back).as_posix(): path.read_bytes() for path in back.rglob("*") if path.is_file()} == files
    ours, theirs = reason.load("runs/mine").model.parameters(), reason.load(model).model.parameters()
    assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


def test_what_cannot_be_is_said_in_one_line(model: Path, hub: FolderHub, tmp_path: Path) -> None:
    assert main(["push", str(model), "me/mine"]) == 0
    weights = next((hub.root / "me" / "mine").rglob("weights.safetensors"))
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    (hub.root / "me" / "empty").mkdir()
    (tmp_path / "there").mkdir()
    for words, said in (
        (["push", str(model.parent / "run"), "me/run"], "first make one: reason export"),
        (["push", str(tmp_path), "me/run"], "first make one: reason export"),
        (["push", str(model), "mine"], "Repo id must be in the form"),
        (["pull", "me/.."], "repository=.. is no plain folder name"),
        (["pull", "me/mine", "nowhere/.."], "nowhere/.. is there already"),
        (["pull", "me/none"], "Repository Not Found: me/none"),
        (["pull", "me/empty"], "me/empty"),
        (["pull", "me/mine"], "weights.safetensors has changed since it was written"),
        (["pull", "me/mine", "there"], "there is there already"),
    ):
        error = refusal(words, said)
        assert error.count("\n") == 1
    assert not Path("runs/mine").exists()
    assert {path.name for path in tmp_path.iterdir()} <= {"hub", "there", "runs"}


def test_without_the_extra(model: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    for words in (["push", str(model), "me/mine"], ["pull", "me/mine", str(tmp_path / "out")]):
        refusal(words, "pip install huggingface_hub, or 'recursive-reasoners[hub]'")
