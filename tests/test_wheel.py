"""The wheel, installed alone and used from an empty folder, and README: every command that is printed can be typed."""

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import urllib.request
import venv
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from reason.cli import CORE
from reason.extensions.kernels import library
from reason.extensions.play.runtime import address
from reason.plugins import COMMANDS, load_extensions

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[1]
SOURCES = ("reason", "datasets_gen", "pyproject.toml", "README.md", "LICENSE")
load_extensions()
PRINTED = re.compile(rf"\breason (?:{'|'.join(map(re.escape, CORE | COMMANDS))})(?: [^\s`;,)]+)*")
SCRIPT = re.compile(r"\bpython \S+\.py|\bpython -m datasets_gen|\bmake demo")
SHORT = "training.steps=4 training.batch_size=8 training.compile=none model.hidden_size=8"


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
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

    def type(self, command, status=0):
        done = subprocess.run(
            shlex.split(command), cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=1800
        )
        said = done.stdout + done.stderr
        assert done.returncode == status, f"{command}\n{said}"
        assert not SCRIPT.search(said), f"{command} prints a script: {said}"
        self.printed += PRINTED.findall(said)
        return done.stdout

    def next(self, begins):
        """The latest printed command that begins so."""
        return [command for command in self.printed if command.startswith(begins)][-1]


@pytest.fixture
def shell(environment, tmp_path):
    return Shell(tmp_path, environment)


def test_a_run_from_its_set_to_a_model_to_give_away(shell):
    where = shell.type("python -c 'import reason; print(reason.__file__)'")
    assert "site-packages" in where
    assert str(ROOT) not in where
    kernel = "from reason.extensions.kernels import library as f; print(f.works(f.DTYPES[1]), *f.SOURCES.glob('*.*'))"
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


LIMIT = 14400  # seconds of all commands, on a busy machine
OURS = ("OMP_NUM_THREADS", "TQDM_DISABLE", "PYTHONPATH", "VIRTUAL_ENV")  # variables that a newcomer does not have


def commands():
    """In a clone each line of the bash blocks and each Python block; without a block whose package is missing."""
    found = [f"git clone {ROOT} reason && cd reason"]
    for language, block in re.findall(r"```(bash|python)\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL):
        probe = ["apt-get", "download", "--print-uris", "git-doc"]
        if "apt-get" in block and not (shutil.which("apt-get") and subprocess.run(probe, check=False).returncode == 0):
            print(f"left out, for want of git-doc:\n{block}")
            continue
        found += block.splitlines() if language == "bash" else [f"python - <<'END'\n{block}END"]
    return found


@pytest.fixture
def folder():
    """An empty folder, removed in the end: an environment takes gigabytes."""
    with tempfile.TemporaryDirectory() as scratch:
        pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", f"{scratch}/probe", "tqdm"]
        try:
            subprocess.run(pip, check=True, capture_output=True, timeout=120)
            urllib.request.urlopen(urllib.request.Request(address(), method="HEAD"), timeout=30).close()
        except (subprocess.SubprocessError, OSError) as error:
            pytest.skip(f"no package index here: {error}")
        yield Path(scratch)


@pytest.mark.skipif(os.name == "nt", reason="README names another line for Windows")
def test_every_command_works_as_typed_after_the_installation_as_typed(folder):
    """Of the last commit of this checkout, which is cloned."""
    environment = {name: value for name, value in os.environ.items() if name not in OURS} | {
        "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])),
        "BROWSER": "true",  # opens nothing
    }
    typed = "\n".join(f"{command}\n[ $? = 0 ] || exit" for command in commands())  # -e passes over the first of a && b
    script = ["bash", "-xc", typed]  # each is printed, and the first that fails is the last
    subprocess.run(script, cwd=folder, env=environment, timeout=LIMIT, check=True)
    assert (folder / "reason/play.html").stat().st_size > 1e6
