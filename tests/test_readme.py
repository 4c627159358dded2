"""README as a newcomer types it: every command of its blocks, in order, in one shell. -s prints the seconds of each."""

import os
import re
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from reason.extensions.play.runtime import address

ROOT = Path(__file__).parents[1]
LIMIT = 14400  # seconds of all commands, on a busy machine
OURS = ("OMP_NUM_THREADS", "TQDM_DISABLE", "PYTHONPATH", "VIRTUAL_ENV")  # variables that a newcomer does not have


def commands() -> list[str]:
    """The lines of the bash blocks, and each Python block as one command."""
    found = []
    for language, block in re.findall(r"```(bash|python)\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL):
        found += block.splitlines() if language == "bash" else [f"python - <<'END'\n{block}END"]
    return [command.replace("clone URL", f"clone {ROOT}") for command in found]


@pytest.fixture
def folder() -> Iterator[Path]:
    """An empty folder, removed in the end: an environment takes gigabytes."""
    with tempfile.TemporaryDirectory() as scratch:
        pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", f"{scratch}/probe", "tqdm"]
        try:
            subprocess.run(pip, check=True, capture_output=True, timeout=120)
            urllib.request.urlopen(urllib.request.Request(address(), method="HEAD"), timeout=30).close()
        except (subprocess.SubprocessError, OSError) as error:
            pytest.skip(f"no package index here: {error}")
        yield Path(scratch)


@pytest.mark.slow  # an installation and three trainings
@pytest.mark.skipif(os.name == "nt", reason="README names another line for Windows")
def test_every_command_works_as_typed_after_the_installation_as_typed(folder: Path) -> None:
    """Of the last commit of this checkout, which is cloned."""
    typed, ended, said = commands(), folder / "ended", folder / "said"
    script = ['note() { echo "$1 $(date +%s)" >> "$ENDED"; [ "$1" = 0 ] || exit "$1"; }', "note 0"]
    script += [f"{command}\nnote $?" for command in typed]
    environment = {name: value for name, value in os.environ.items() if name not in OURS} | {
        "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])),
        "BROWSER": "true",  # opens nothing
        "ENDED": str(ended),
    }
    with said.open("w") as out:
        words = ["bash", "-c", "\n".join(script)]
        done = subprocess.run(
            words, cwd=folder, env=environment, stdout=out, stderr=subprocess.STDOUT, timeout=LIMIT, check=False
        )
    notes = [line.split() for line in ended.read_text().splitlines()]
    for command, before, after in zip(typed, notes, notes[1:], strict=False):
        print(f"{int(after[1]) - int(before[1]):6} s  {command.splitlines()[0]}")
    assert done.returncode == 0, f"{typed[len(notes) - 2]}\n{said.read_text()[-4000:]}"
    assert len(notes) == len(typed) + 1
    assert (folder / "reason/extensions/play.html").stat().st_size > 1e6
