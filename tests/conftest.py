"""What the tests of several packages share: a small set on disk, and a config that trains on it in seconds."""

import contextlib
import io
import os
import shutil

os.environ.setdefault("TQDM_DISABLE", "1")
os.environ["OMP_NUM_THREADS"] = "1"  # tensors here are tiny, and one thread gives the same sums on every machine

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from hypothesis import settings

from datasets_gen.__main__ import main as generate
from reason import plugins
from reason.cli import main
from reason.config.overrides import override
from reason.config.schema import Config
from reason.data.puzzles import PuzzleData
from reason.errors import printable
from reason.presets import preset, presets
from reason.runs.build import build_trainer
from reason.runs.directory import create_run
from reason.runs.sets import load_training_set
from reason.training.device import float32_by_onednn
from reason.training.loop import Trainer

settings.register_profile("unhurried", deadline=None)  # a starved machine is no fault
settings.load_profile("unhurried")
float32_by_onednn()  # as every run does, so that no test depends on the ones before it
presets()  # all are read: tests take PRESETS and TABLES as they are imported


def pairs(words: str) -> dict[str, str]:
    """Settings as they are typed."""
    return dict(word.split("=", 1) for word in words.split())


def make_set(words: str, directory: Path) -> Path:
    """The folder of a new set, made by a command line of datasets_gen."""
    assert generate([*words.split(), "--output-dir", str(directory)]) == 0
    return directory


def trainer_of(config: Config, run: Path, device: str = "cpu") -> Trainer:
    """What trains a config in a folder, which becomes a run's where there is none."""
    data = load_training_set(config, torch.device(device))
    trainer = build_trainer(config, run, data)
    if not run.exists():
        create_run(run, config, data.shape, data.metadata.task, [])
    return trainer


TINY = pairs(
    "model.hidden_size=16 model.num_heads=2 model.expansion=1 training.batch_size=8 training.steps=6 "
    "training.log_every=2 training.checkpoint_every=3 training.precision=fp32 rollout.supervision_steps=3"
)
NARROW = ["model.hidden_size=16", "training.steps=4", "training.batch_size=8", "training.log_every=2"]
COMMIT = "0123456789abcdef0123456789abcdef01234567"  # of the hub


@pytest.fixture(scope="session")
def sudoku_4x4(tmp_path_factory):
    """A 4×4 Sudoku set: 24 puzzles to train on, 12 to test with."""
    return make_set("sudoku --size 4 --train 24 --test 12 --seed 1", tmp_path_factory.mktemp("sets") / "sudoku-4x4")


@pytest.fixture(scope="session")
def monitored_4x4(tmp_path_factory):
    """The same with 11 puzzles to choose the best checkpoint on: no multiple of a batch."""
    folder = tmp_path_factory.mktemp("sets") / "sudoku-4x4-monitored"
    return make_set("sudoku --size 4 --train 24 --validation 11 --test 4 --seed 1", folder)


def output(words: str | Sequence[str], *said: str, status: int | None = 0) -> str:
    """What a command prints, with all of `said` in it, as it ends with the status (none: with any)."""
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        ended = main(words.split() if isinstance(words, str) else list(words))
    assert status in (ended, None), (words, err.getvalue())
    stream = err if status else out
    for text in said:
        assert text in stream.getvalue(), words
    return stream.getvalue()


def refusal(words: str | Sequence[str], *said: str) -> str:
    """What a command says on stderr, with all of `said` in it, as it refuses its words."""
    return output(words, *said, status=1)


def one_line(words: str | Sequence[str], *said: str) -> str:
    """The one line, which a terminal can print, with which a command line is refused; all of `said` is in it."""
    (line,) = refusal(words, *said).splitlines()
    assert line.startswith("error: ")
    assert printable(line) == line
    return line


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty folder to stand in; files that a command imports are forgotten."""
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    plugins.IMPORTED.clear()


@pytest.fixture
def hub(here, monkeypatch):
    """The cache of the hub, in the layout that huggingface_hub documents, without a connection; a push fills it."""
    cache = here / "cache"

    def upload(repo_id: str, folder_path: Path, commit_message: str) -> str:
        there = cache / f"models--{repo_id.replace('/', '--')}"
        shutil.copytree(folder_path, there / "snapshots" / COMMIT)
        (there / "refs").mkdir()
        (there / "refs/main").write_text(COMMIT)
        return f"https://huggingface.co/{repo_id}/commit/{COMMIT}"

    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(cache))
    monkeypatch.setattr("huggingface_hub.create_repo", lambda name, exist_ok, private=False: None)
    monkeypatch.setattr("huggingface_hub.upload_folder", upload)
    return cache


@pytest.fixture
def refused(tmp_path, capsys):
    """Runs a command of datasets_gen that must end in one line with all the messages, and write nothing."""

    def run(words: Sequence[object], *messages: object) -> None:
        before = sorted(tmp_path.rglob("*"))
        capsys.readouterr()
        assert generate([str(word) for word in words]) == 1
        error = capsys.readouterr().err
        assert error.startswith("error: ")
        assert error.count("\n") == 1
        for message in messages:
            assert str(message) in error
        assert sorted(tmp_path.rglob("*")) == before

    return run


@pytest.fixture
def made(tmp_path):
    """Runs a command of datasets_gen that must write a set, verifies the set and returns its folder."""

    def run(words: str, *more: object, name: str = "set") -> Path:
        typed = [*words.split(), *map(str, more), "--output-dir", str(tmp_path / name)]
        assert generate(typed) == 0
        assert generate(["verify", str(tmp_path / name)]) == 0
        return tmp_path / name

    return run


@pytest.fixture(scope="session")
def stopped(sudoku_4x4, tmp_path_factory):
    """A run stopped at step 2 of 4."""
    run = tmp_path_factory.mktemp("runs") / "half"
    assert main(["train", "sudoku-4x4", f"data={sudoku_4x4}", *NARROW, f"run={run}", "--max-steps", "2"]) == 0
    return run


@pytest.fixture
def half(stopped, here):
    """The same, to do with as one likes."""
    return shutil.copytree(stopped, here / "half")


@pytest.fixture
def tiny(sudoku_4x4):
    """The 4×4 preset, narrow and short, on the shared set."""
    return override(preset("sudoku-4x4").config(), TINY | {"data.directory": str(sudoku_4x4)})


@pytest.fixture
def trained(tiny, tmp_path):
    """A model after a few steps, in float64 so that the order of sums decides nothing, and the test split."""
    trainer = trainer_of(tiny, tmp_path / "run")
    trainer.train()
    trainer.model.double().dtype = torch.float64
    return trainer.model, PuzzleData(tiny.data.directory, "test")


@pytest.fixture(scope="session")
def whole(sudoku_4x4):
    """results.json of every evaluation that there is, of 12 puzzles in 5 steps, 2 of them trained; a training curve."""
    from evaluators import read_set

    curve = {"loss": [[2, 3.0], [4, 0.5]], "exact": [[4, 0.25]], "monitor/exact": [[2, 0.0], [4, 0.5]]}
    return read_set(sudoku_4x4, 5) | {"precision": "bfloat16", "training": curve}


@pytest.fixture(scope="session")
def browser():
    """A headless Chromium."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is missing: pip install -e '.[browser]'")
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if path is None:
        pytest.skip("no chromium here: apt-get install chromium")
    with api.sync_playwright() as play:
        yield play.chromium.launch(executable_path=path, args=["--no-sandbox"])


@pytest.fixture
def open_page(browser):
    """Opens a file, offline; what its console says and what it asks of the network must be nothing."""
    said, contexts = [], []

    def opened(file, link="", **options):
        contexts.append(browser.new_context(**{"viewport": {"width": 1280, "height": 900}, "offline": True} | options))
        page = contexts[-1].new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda one: said.append(one.url) if one.url[:4] not in ("file", "data", "blob") else None)
        page.goto(file.as_uri() + link)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert said == []


@pytest.fixture(scope="session")
def addition(tmp_path_factory):
    """A set of sums of two digits: 60 to train on, 9 to test with."""
    return make_set("addition --digits 2 --train 60 --test 9", tmp_path_factory.mktemp("sets") / "addition")


@pytest.fixture(scope="session")
def sums(addition):
    """Nine sums of two digits."""
    return PuzzleData(addition, "test")


@pytest.fixture
def watched(tiny, monitored_4x4):
    """`tiny` on a set with a validation split."""
    return override(tiny, {"data.directory": str(monitored_4x4)})


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def _undrawn(request, monkeypatch):
    """Charts take most of an evaluation: they are drawn where a test is marked, and by fixtures of tests/report."""
    if request.node.get_closest_marker("drawn") is None:
        monkeypatch.setattr("reason.report.page.svg", lambda chart: "<svg/>")
        for module in ("evaluation.suite", "extensions.ablation.report", "report.compare"):
            monkeypatch.setattr(f"reason.{module}.save_png", lambda charts, path: path.write_bytes(b"\x89PNG"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record-golden", action="store_true", help="write tests/golden anew: say why in the commit")
