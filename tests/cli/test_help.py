"""--help: a screen that imports no torch, and the settings of a section."""

import contextlib
import re
from pathlib import Path

import pytest
from conftest import output

from datasets_gen.typed import typed
from reason.cli import main
from reason.cli.help import PAGES
from reason.cli.train import PARSER
from reason.config.describe import describe_settings, has_mark
from reason.config.names import NAMES, SECTIONS
from reason.config.overrides import nearest_setting
from reason.config.schema import Config
from reason.models import FAMILIES
from reason.presets import PRESETS
from reason.settings.base import Mark

SETTINGS = describe_settings()


@pytest.mark.parametrize("command", PAGES)
def test_help_is_a_screen(command: str) -> None:
    """What it names exists: settings, sections and presets."""
    page = output([command, "--help"])
    assert 20 <= len(page.splitlines()) <= 40
    assert max(map(len, page.splitlines())) <= 100
    known = {row.key for row in SETTINGS} | set(SECTIONS)
    named = set(re.findall(rf"\b((?:{'|'.join(SECTIONS)})\.[a-z_.]+)=", PAGES[command]))
    assert named <= known
    assert len(named) >= 2
    assert set(re.findall(r"train.py ([a-z][a-z0-9-]+) ", PAGES[command])) <= PRESETS.keys()


def test_the_screen_names_every_option_and_every_section() -> None:
    options = [option for action in PARSER._actions for option in action.option_strings]
    assert all(f"  {option} " in PAGES["train"] for option in options)
    sections = {row.key.partition(".")[0] for row in SETTINGS if "." in row.key}
    assert sections == SECTIONS.keys()
    assert all(f"  {name} " in PAGES["train"] for name in sections)
    alone = {name for name in Config.model_fields if name not in sections} - {"name"}
    assert all(name in PAGES["train"] for name in alone)


@pytest.mark.parametrize("section", SECTIONS)
def test_a_section_shows_each_of_its_settings(section: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "500")
    shown = [" ".join(line.split()) for line in output(["train", "--help", section]).splitlines()]
    for row in SETTINGS:
        if row.key.startswith(f"{section}."):
            assert " ".join(f"{row.key}={row.default} {row.allowed} {row.text}".split()) in shown


def test_families_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "500")
    lines = [line.strip() for line in output("train --help model.expansion").splitlines() if line.strip()]
    assert lines[0] == "recursive models"
    assert lines[1].startswith("model.expansion=4 ")
    assert lines[2:-1:2] == [f"{kind} models" for kind in FAMILIES if kind != "recursive"]


def test_evaluation_shows_what_may_change_after_training() -> None:
    shown = re.findall(r"^(model\.[a-z_]+)=", output("evaluate --help model"), re.MULTILINE)
    assert shown == [row.key for row in SETTINGS if has_mark(row.key, Mark.READABLE) and row.key.startswith("model.")]
    assert "model.hidden_size" not in shown


def test_ranges_are_those_that_are_checked() -> None:
    allowed = {row.key: row.allowed for row in SETTINGS}
    assert allowed["optimizer.lr"] == "0 < float ≤ 1000"
    assert allowed["training.steps"] == "int ≥ 1"
    assert allowed["ema.decay"] == "0 ≤ float < 1 | none"
    assert allowed["optimizer.schedule.end"] == "float ≥ 0 | none"
    assert allowed["optimizer.schedule.points"] == "[[float ≥ 0, float ≥ 0], …]"
    assert allowed["model.gradient"] == "last-call | last-cycle | all-cycles | int ≥ 1"
    assert allowed["model.symbols"] == "true | false"


@pytest.mark.parametrize("name", NAMES)
def test_names_of_other_code_lead_to_settings_that_exist(name: str) -> None:
    keys = {row.key for row in SETTINGS}
    named = re.findall(rf"\b(?:{'|'.join(SECTIONS)})\.[a-z_.]+[a-z_]", NAMES[name])
    assert set(named) <= keys
    assert named or "=DIR" in NAMES[name] or "preset" in NAMES[name]
    assert nearest_setting(f"arch.{name.upper()}") == NAMES[name]


SCRIPTS = "python train.py x; then python evaluate.py, python -m datasets_gen, make demo"
COMMANDS = "reason train x; then reason evaluate, reason generate, reason demo"


@pytest.mark.parametrize(("called", "where", "shown"), [
    ("/usr/bin/reason", "elsewhere", COMMANDS),
    ("/somewhere/reason/__main__.py", "elsewhere", COMMANDS),
    ("/usr/bin/reason", "a folder with a train.py of its own", COMMANDS),
    ("/usr/bin/reason", "checkout", SCRIPTS),
    ("train.py", "elsewhere", SCRIPTS),
])  # fmt: skip
def test_commands_are_printed_as_they_can_be_typed(
    called: str, where: str, shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", [called])
    if where != "elsewhere":
        (tmp_path / "train.py").touch()
    if where == "checkout":
        monkeypatch.setattr("datasets_gen.typed.ROOT", tmp_path)
    assert typed(SCRIPTS) == shown


@pytest.mark.parametrize("words", [["generate", "--help"], ["generate", "sudoku", "--help"], ["pack", "--help"]])
def test_pages_of_help_name_commands_as_they_can_be_typed(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["/usr/bin/reason"])
    monkeypatch.setattr("datasets_gen.typed.ROOT", Path("/nowhere"))
    with contextlib.suppress(SystemExit):
        main(words)
    page = capsys.readouterr().out
    assert page.startswith(f"usage: reason {words[0]}")
    assert "python" not in page
