"""What is installed and what runs in continuous integration is named by its hash."""

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted(ROOT.glob(".github/workflows/*.yml"))


def versions(file: str) -> dict[str, str]:
    found = re.findall(r"^([\w.-]+)==([^\s;]+)", (ROOT / file).read_text(), re.MULTILINE)
    return {re.sub("[-_.]+", "-", name).lower(): version for name, version in found}


def test_the_hashes_are_those_of_the_tested_versions() -> None:
    assert versions("constraints-hashed.txt") == versions("constraints.txt")
    assert len(versions("constraints.txt")) > 100


@pytest.mark.parametrize("file", ["constraints-hashed.txt", ".ci/tools.txt"])
def test_every_version_has_a_hash(file: str) -> None:
    """pip refuses the whole file otherwise."""
    text = re.sub(r"\\\n", " ", (ROOT / file).read_text())
    for line in (line for line in text.splitlines() if line and not line.startswith("#")):
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", line), line.split()[0]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_pin_their_actions_and_may_do_little(workflow: Path) -> None:
    for action in re.findall(r"uses: (\S+)", workflow.read_text()):
        assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", action)
    jobs = yaml.safe_load(workflow.read_text())
    assert jobs["permissions"] in ({}, {"contents": "read"})
    writers = {name for name, job in jobs["jobs"].items() if "write" in (job.get("permissions") or {}).values()}
    assert writers <= {"publish"}
