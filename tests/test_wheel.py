"""The wheel, installed alone and used from an empty folder: every command that it prints can be typed there."""

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import venv
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from reason.cli import COMMANDS
from reason.extensions.kernels import library

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[1]
SOURCES = ("reason", "datasets_gen", "pyproject.toml", "README.md", "LICENSE")
PRINTED = re.compile(rf"\breason (?:{'|'.join(map(re.escape, COMMANDS))})(?: [^\s`;,)]+)*")
SCRIPT = re.compile(r"\bpython \S+\.py|\bpython -m datasets_gen|\bmake demo")
SHORT = "training.steps=4 training.batch_size=8 training.compile=none model.hidden_size=8"


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Variables of a shell in which the wheel, and nothing of the checkout, is installed beside torch and the rest."""
    folder = tmp_path_factory.mktemp("wheel")
    (folder / "source").mkdir()
    for name in SOURCES:
        target = folder / "source" / name
        if (ROOT / name).is_dir():  # `make wheel` adds what is built for the page: 6 MB
            shutil.copytree(ROOT / name, target, ignore=shutil.ignore_patterns("built"))
        else:
            shutil.copy(ROOT / name, target)
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(folder), str(folder / "source")]
    has_setuptools = importlib.util.find_spec("setuptools") is not None
    subprocess.run([*build, *(["--no-build-isolation"] if has_setuptools else [])], check=True)
    (wheel,) = folder.glob("*.whl")
    assert wheel.stat().st_size < 4_000_000
    home = folder / "venv"
    venv.create(home, with_pip=False)
    python = home / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    own = sysconfig.get_path("purelib", vars={"base": str(home), "platbase": str(home)})
    (Path(own) / "dependencies.pth").write_text(sysconfig.get_path("purelib"))  # its own .pth files are not read again
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "-q", "--no-deps", str(wheel)]
    subprocess.run(pip, check=True)
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL_ENV"))}
    return kept | {
        "PATH": os.pathsep.join((str(python.parent), os.environ["PATH"])),
        "OMP_NUM_THREADS": "1",
        "TQDM_DISABLE": "1",
        "COLUMNS": "300",
    }


@dataclass
class Shell:
    """A folder in which commands are typed, and the commands that they printed."""

    folder: Path
    environment: dict[str, str]
    printed: list[str] = field(default_factory=list)

    def type(self, command: str, status: int = 0) -> str:
        done = subprocess.run(
            shlex.split(command), cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=1800
        )
        said = done.stdout + done.stderr
        assert done.returncode == status, f"{command}\n{said}"
        assert not SCRIPT.search(said), f"{command} prints a script: {said}"
        self.printed += PRINTED.findall(said)
        return done.stdout

    def next(self, begins: str) -> str:
        """The latest printed command that begins so."""
        return [command for command in self.printed if command.startswith(begins)][-1]


@pytest.fixture
def shell(environment: dict[str, str], tmp_path: Path) -> Shell:
    return Shell(tmp_path, environment)


def test_a_run_from_its_set_to_a_model_to_give_away(shell: Shell) -> None:
    where = shell.type("python -c 'import reason; print(reason.__file__)'")
    assert "site-packages" in where
    assert str(ROOT) not in where
    kernel = (
        "from reason.extensions.kernels import library as f; "
        "print(f.works(f.DTYPES[1]), *sorted(f.SOURCES.glob('*.*')))"
    )
    said = shell.type(f'python -c "{kernel}"').split()
    assert said[0] == str(library.works(library.DTYPES[1]))
    assert {Path(source).name for source in said[1:]} == {path.name for path in library.SOURCES.glob("*.*")}
    shell.type("reason train sudoku-4x4 run=runs/mine --max-steps 2 " + SHORT)
    shell.type(f"{shell.next('reason generate')}-again")  # the folder of --output-dir comes last
    shell.type(shell.next("reason train"))
    evaluate = shell.next("reason evaluate")
    shell.type(evaluate)
    shell.type(shell.next("reason train"), status=1)  # finished: it says what is next
    assert shell.next("reason evaluate") == evaluate
    shell.type("reason pack runs/mine")
    shutil.rmtree(shell.folder / "runs/mine")
    shell.type(shell.next("reason train"), status=1)  # unpacked, and finished
    shell.type("reason export runs/mine models/mine")
    shell.type(shell.next("reason evaluate models/mine"))
    shell.type("reason compare runs/mine models/mine")  # unpacked: no evaluation is there, the model alone
    shell.type(shell.next("reason evaluate"))
    shell.type("reason compare runs/mine models/mine")
    shell.type("reason solve models/mine '1... ..2. .3.. ...4'", status=1)  # not solved, after four steps
    shell.type("reason train nothing", status=1)
    shell.type("reason evaluate data=data/none", status=1)
    shell.type(shell.next("reason generate sudoku") + " --size 4 --train 4 --test 2")


def test_the_pages_of_help_and_the_shipped_models(shell: Shell) -> None:
    shell.type("reason --help")
    shell.type("reason generate --help")
    shell.type("reason train --help data")
    shell.type("reason models")
    shell.type("reason models sudoku-6x6")
    graphs = (
        "from reason.extensions.play.shipped import shipped, shown; print([shipped(name)['name'] for name in shown()])"
    )
    assert "'sudoku'" in shell.type(f'python -c "{graphs}"')
    shell.type(shell.next("reason generate sudoku"))
    shell.type(shell.next("reason evaluate sudoku-6x6").replace("evaluation.limit=500", "evaluation.limit=20"))
    shell.type(f"{shell.next('reason train sudoku-6x6')} {SHORT} --max-steps 1")
    shell.type("reason presets sudoku-6x6")
    shell.type("reason solve sudoku-6x6 '1..4.. ..2... .6.... ...5.. 4....1 ....3.'")
    assert "solved" in shell.type("python -m reason solve sudoku-6x6 '1..4.. ..2... .6.... ...5.. 4....1 ....3.'")


def test_what_the_demo_prints(shell: Shell) -> None:
    shell.type(
        "reason generate maze --size 10 --min-path 4 --train 8 --validation 2 --test 4 --output-dir data/maze-10x10"
    )
    shell.type(f"reason train maze-10x10 run=runs/demo data=data/maze-10x10 {SHORT}")
    shell.printed.clear()
    said = shell.type("reason demo")
    assert said.strip().splitlines()[-1].startswith("demo: exact ")
    assert "activate" not in said
    for command in dict.fromkeys(shell.printed):
        if command.startswith("reason train"):  # its set takes minutes to make
            command += f" data=data/maze-10x10 {SHORT} --max-steps 1"
        if not command.startswith("reason train sudoku"):
            shell.type(command, status=int(command.startswith("reason solve")))  # not solved, after four steps
