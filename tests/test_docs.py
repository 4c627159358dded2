"""What the documents point to is there: files, functions, tests, pictures, settings."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from reason.config.overrides import describe_settings, leaves
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


def test_settings_that_the_mathematics_names_exist() -> None:
    text = (ROOT / "docs/math.md").read_text()
    sections = "model|rollout|loss|balance|optimizer|ema|training|evaluation"
    known = {*leaves(Config().model_dump()), *(key for key, *_ in describe_settings()), "model.kind"}
    named = set(re.findall(rf"`((?:{sections})\.[a-z_.]+[a-z_])(?:=[^`]*)?`", text))
    missing = {key for key in named if key not in known and not any(k.startswith(f"{key}.") for k in known)}
    assert missing <= {key for key in missing if key.startswith("loss.schedules")}, missing
