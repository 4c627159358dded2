"""The list of presets: it lies in the package, and is what the presets are."""

import subprocess
import sys
from pathlib import Path

import pytest

from reason.cli.presets import GROUPS, START, computed_lists, listing

ROOT = Path(__file__).parents[2]


def test_the_list_is_what_the_presets_are() -> None:
    mend = 'python -c "from reason.cli.presets import write_lists; write_lists()"'
    presets = [each for entries in computed_lists().values() for each in entries]
    assert listing() == presets, f"a preset has changed; write the lists anew: {mend}"


def test_every_preset_has_a_place() -> None:
    grouped = [bool(each.title) or any(belongs(each.name) for belongs in GROUPS.values()) for each in listing()]
    papers = [each.name for each, groups in zip(listing(), grouped, strict=True) if not groups]
    assert {name.split("-")[0] for name in papers} >= {"cmm"}
    assert {each.name for each in listing()} >= set(START)


@pytest.mark.parametrize("words", [["presets"], ["presets", "cmm-5-"], ["train", "--help"], ["evaluate", "--help"]])
def test_a_listing_needs_no_torch(words: list[str]) -> None:
    code = f"import sys; from reason.cli import main; main({words}); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, capture_output=True)
