"""The list of presets: never older than the code that it is of."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from reason.cli import listing as listed
from reason.presets import PRESETS

ROOT = Path(__file__).parents[2]


def test_the_list_is_what_the_presets_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read from the cache as when it was computed; anew where the cache is damaged."""
    monkeypatch.setattr(listed, "CACHE", tmp_path / "cache")
    first = listed.listing()
    assert [each.name for each in first] == list(PRESETS)
    for each in first[::20]:
        assert (each.parameters, each.summary) == (PRESETS[each.name].parameter_count(), PRESETS[each.name].summary)
    (file,) = listed.CACHE.iterdir()
    monkeypatch.setattr(listed, "_computed", lambda: [listed.Listed("computed", 1, "")])
    assert listed.listing() == first
    file.write_text("[[1]]")
    assert [each.name for each in listed.listing()] == ["computed"]
    assert json.loads(file.read_text()) == [["computed", 1, ""]]
    monkeypatch.setattr(listed, "IMPORTED", {"mine.py": None})
    monkeypatch.setattr(listed, "_computed", lambda: [listed.Listed("mine", 2, "")])
    assert [each.name for each in listed.listing()] == ["mine"]


def test_a_changed_source_file_makes_another_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "one.py").write_text("A = 1")
    monkeypatch.setattr(listed, "PACKAGES", [package])
    monkeypatch.setattr(listed, "CACHE", package / "__pycache__")
    digests, files = set(), []
    monkeypatch.setattr(listed, "_computed", list)
    for change in (("one.py", "A = 1"), ("one.py", "A = 2"), ("two.py", "")):
        (package / change[0]).write_text(change[1])
        digests.add(listed.source_digest())
        listed.listing()
        files.append(sorted(path.name for path in listed.CACHE.iterdir()))
    assert len(digests) == 3
    assert all(len(names) == 1 for names in files), "one file, of the present code"


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(listed, "CACHE", tmp_path / "file" / "cache")
    monkeypatch.setattr(listed, "_computed", lambda: [listed.Listed("a", 1, "")])
    assert [each.name for each in listed.listing()] == ["a"]


@pytest.mark.parametrize("words", [["presets"], ["presets", "stars-"], ["train", "--help"], ["evaluate", "--help"]])
def test_a_listing_needs_no_torch(words: list[str]) -> None:
    listed.listing()  # cached from here on
    code = f"import sys; from reason.cli import main; main({words}); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, capture_output=True)
