"""What the documents point to is there: files, functions, tests, pictures, settings."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from reason.config.describe import describe_settings
from reason.config.overrides import leaves
from reason.config.schema import Config

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md"))]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_files_and_functions_that_are_named_exist(document: Path) -> None:
    text = document.read_text()
    for file, _, name in re.findall(r"`([\w./-]+\.py)(: (\w+))?`", text):
        path = next((p for p in (ROOT / file, ROOT / "reason" / file) if p.exists()), None)
        assert path is not None, f"{document.name} names {file}"
        if name:
            assert re.search(rf"^\s*(def|class) {name}\b", path.read_text(), re.MULTILINE), f"{file} has no {name}"
    for picture in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", text):
        assert (document.parent / picture).exists(), f"{document.name} shows {picture}"


def test_the_layout_in_the_readme_is_that_of_the_code() -> None:
    listed = set(re.findall(r"^  ([a-z_]+(?:/|\.py)) ", (ROOT / "README.md").read_text(), re.MULTILINE))
    packages = {f"{path.parent.name}/" for path in ROOT.glob("reason/*/__init__.py")}
    assert packages <= listed
    assert all((ROOT / "reason" / name).exists() for name in listed)


NUMBERED = re.findall(r"^## (\d+)\. ", (ROOT / "docs/math.md").read_text(), re.MULTILINE)
PAPERS = "HRM|TRM|CMM|STARS|Ouro|blind spot"
TEXTS = [
    *DOCUMENTS,
    *(path for folder in ("reason", "datasets_gen", "tests", "benchmarks") for path in ROOT.glob(f"{folder}/**/*.py")),
]


def test_the_mathematics_is_numbered_from_1() -> None:
    assert list(map(int, NUMBERED)) == list(range(1, len(NUMBERED) + 1))
    assert len(NUMBERED) > 10


def test_section_references_lead_to_a_section() -> None:
    """§ is a section of docs/math.md, by its number, or of a paper, by the paper's name."""
    found = [
        (path, *match)
        for path in TEXTS
        for match in re.findall(r"(.{0,24})§(\d[\d.]*\d|\d)", " ".join(path.read_text().split()))
    ]
    assert len(found) > 20
    for path, before, number in found:
        if path.name == "math.md" and not re.search(rf"({PAPERS}) $", before):
            assert number in NUMBERED, f"{path}: §{number}"
        elif re.search(r"math\.md(\))? $", before):
            assert number in NUMBERED, f"{path}: docs/math.md has no §{number}"
        else:
            assert re.search(rf"({PAPERS}) $", before), f"{path}: §{number} of what?"


def test_papers_whose_sections_are_named_are_in_the_references() -> None:
    listed = (ROOT / "docs/references.md").read_text()
    assert all(f"| {name}" in listed for name in PAPERS.split("|"))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_ours_is_defined_where_it_is_first_met(document: Path) -> None:
    text = document.read_text()
    first = re.search(r"\(ours\b|\bours\)|[,;:] ours\b", text)
    if first is not None:
        assert "*(ours)* marks" in text[: first.end() + 10], f"{document.name} says (ours) before it says what that is"


def test_settings_that_the_mathematics_names_exist() -> None:
    text = (ROOT / "docs/math.md").read_text()
    sections = "model|rollout|loss|balance|optimizer|ema|training|evaluation"
    known = {*leaves(Config().model_dump()), *(row.key for row in describe_settings()), "model.kind"}
    named = set(re.findall(rf"`((?:{sections})\.[a-z_.]+[a-z_])(?:=[^`]*)?`", text))
    missing = {key for key in named if key not in known and not any(k.startswith(f"{key}.") for k in known)}
    assert missing <= {key for key in missing if key.startswith("loss.schedules")}, missing


@pytest.mark.parametrize("page", ["README.md", "docs/library.md"])
def test_the_python_of_a_page_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    assert blocks
    names: dict[str, object] = {}
    for block in blocks:
        brief = re.sub(r'"steps": 200\b', '"steps": 4', block)
        exec(compile(brief, page, "exec"), names)
