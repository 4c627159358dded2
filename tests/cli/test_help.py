"""--help: a screen that imports no torch, and the settings of a section."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import output

from datasets_gen.typed import typed
from reason.cli.help import PAGES
from reason.cli.train import PARSER
from reason.config.describe import describe_settings, has_mark
from reason.config.names import NAMES, SECTIONS
from reason.config.schema import Config
from reason.models import FAMILIES
from reason.presets import PRESETS
from reason.settings.base import Mark

ROOT = Path(__file__).parents[2]
SETTINGS = describe_settings()
KEYS = {row.key for row in SETTINGS}


@pytest.mark.parametrize("command", PAGES)
def test_help_is_a_screen(command: str) -> None:
    """What it names exists: settings, sections and presets."""
    page = output([command, "--help"])
    assert 15 <= len(page.splitlines()) <= 40
    assert max(map(len, page.splitlines())) <= 100
    named = set(re.findall(rf"\b((?:{'|'.join(SECTIONS)})\.[a-z_.]+)=", PAGES[command]))
    assert named <= KEYS | set(SECTIONS)
    assert set(re.findall(r"train.py ([a-z][a-z0-9-]+) ", PAGES[command])) <= PRESETS.keys()


def test_the_screen_names_every_option_and_every_section() -> None:
    options = [option for action in PARSER._actions for option in action.option_strings]
    sections = {key.partition(".")[0] for key in KEYS if "." in key}
    assert sections == SECTIONS.keys()
    assert all(f"  {name} " in PAGES["train"] for name in (*options, *sections))
    alone = {name for name in Config.model_fields if name not in sections} - {"name"}
    assert all(name in PAGES["train"] for name in alone)


def test_a_section_shows_each_of_its_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "900")
    shown = [" ".join(line.split()) for line in output(["train", "--help", *SECTIONS]).splitlines()]
    for row in SETTINGS:
        if "." in row.key:
            assert " ".join(f"{row.key}={row.default} {row.allowed} {row.text}".split()) in shown
    lines = [line.strip() for line in output("train --help model.expansion").splitlines() if line.strip()]
    assert lines[::2] == [f"{kind} models" for kind in FAMILIES]
    shown = re.findall(r"^(model\.[a-z_]+)=", output("evaluate --help model"), re.MULTILINE)
    assert shown == [row.key for row in SETTINGS if has_mark(row.key, Mark.READABLE) and row.key.startswith("model.")]
    assert "model.hidden_size" not in shown


def test_names_of_other_code_lead_to_settings_that_exist() -> None:
    assert set(NAMES.values()) <= KEYS


def test_neither_the_package_nor_a_listing_needs_torch() -> None:
    words = ["presets"], ["presets", "cmm-5-"], ["train", "--help"], ["evaluate", "--help"]
    code = f"import sys, reason; from reason.cli import main; [main(each) for each in {words}]"
    subprocess.run(
        [sys.executable, "-c", f"{code}; assert 'torch' not in sys.modules"], check=True, cwd=ROOT, capture_output=True
    )


SCRIPTS = "python train.py x; then python evaluate.py, python -m datasets_gen, make demo"
COMMANDS = "reason train x; then reason evaluate, reason generate, reason demo"


@pytest.mark.parametrize(("called", "checkout", "shown"), [
    ("/usr/bin/reason", False, COMMANDS),
    ("/somewhere/reason/__main__.py", False, COMMANDS),
    ("/usr/bin/reason", True, SCRIPTS),
    ("train.py", False, SCRIPTS),
])  # fmt: skip
def test_commands_are_printed_as_they_can_be_typed(
    called: str, checkout: bool, shown: str, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", [called])
    (here / "train.py").touch()
    if checkout:
        monkeypatch.setattr("datasets_gen.typed.ROOT", here)
    assert typed(SCRIPTS) == shown
