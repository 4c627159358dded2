"""The commands as a newcomer types them: the way through, every way to go wrong, and help."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import NARROW, one_line, output, refusal

from datasets_gen.typed import typed
from reason.cli import main
from reason.cli.help import PAGES, SECTION_HELP
from reason.cli.train import PARSER
from reason.config.describe import describe_settings, has_mark
from reason.config.schema import Config
from reason.models import FAMILIES
from reason.presets import PRESETS
from reason.settings.base import Mark
from reason.training.checkpoint import checkpoints

ROOT = Path(__file__).parents[2]
SETTINGS = describe_settings()
KEYS = {row.key for row in SETTINGS}


def test_generate_train_evaluate(sudoku_4x4, here):
    assert main(["train", "sudoku-4x4", f"data={sudoku_4x4}", *NARROW, "run=runs/mine"]) == 0
    folder = here / "runs/mine/evaluation/sudoku-4x4-test-T5"
    output("evaluate runs/mine steps=5", f"report {folder.relative_to(here)}/report.html")
    results = json.loads((folder / "results.json").read_text())
    assert len(results["exact_by_step"]) == len(results["cell_by_step"]) == results["steps"] == 5
    assert (results["puzzles"], results["weights"]) == (12, "ema")
    config = json.loads((here / "runs/mine/config.json").read_text())
    assert (config["config"]["seed"], config["shape"]["seq_len"], config["shape"]["vocab_size"]) == (0, 16, 6)


def test_without_data_a_preset_makes_its_set_once(here):
    output(["train", "sudoku-4x4", *NARROW], "making it: python -m datasets_gen sudoku --size 4")
    assert "making it" not in output(["train", "sudoku-4x4", *NARROW, "seed=1", "--max-steps", "2"])
    refusal("train sudoku-4x4 run=", "run= names no folder")
    refusal("train sudoku-4x4 data.generate.size=6", "data.generate.size changes nothing: data/sudoku-4x4 exists")
    assert {path.name for path in (here / "runs").iterdir()} == {"sudoku-4x4-1", "sudoku-4x4-2"}
    (here / "runs/failed/checkpoints/step-000000").mkdir(parents=True)  # in its first step
    (here / "runs/failed/config.json").touch()
    assert "taking the newest: runs/sudoku-4x4-2" in " ".join(output("evaluate steps=1").split())
    shutil.rmtree(here / "data")  # a run carried to a bare machine goes on
    output("train --resume", "making it: python -m datasets_gen sudoku --size 4")
    refusal("train --resume", "runs/sudoku-4x4-2 is finished")


def test_resume_goes_on_and_says_when_there_is_nothing_to_do(sudoku_4x4, half):
    refusal("train run=half --resume --max-steps 1", "--max-steps 1: half is at step 2 already")
    assert main(["train", "run=half", "--resume"]) == 0
    assert checkpoints(half)[-1].name == "step-000004"
    refusal("train run=half --resume", "half is finished (4 steps); another run may begin from", "evaluate.py half")
    words = ["train", "sudoku-4x4", f"data={sudoku_4x4}", *NARROW]
    output([*words, "run=q", "--max-minutes", "0.0001"], "stopped by --max-minutes 0.0001 at step 1, saved")


WRONG = {
    "no preset": ("train", "one preset is needed, got none; try: python train.py sudoku-6x6"),
    "unknown preset": ("train sudoku6x6", "did you mean sudoku-6x6?"),
    "the name of a family": ("train cmm", "`reason presets cmm-` lists the 82"),
    "an option for a setting": ("train sudoku-4x4 --lr 1e-4", "--lr is not an option; did you mean optimizer.lr=…?"),
    "an option misspelt": ("train sudoku-4x4 --max_steps 8", "did you mean --max-steps?"),
    "an option's bad value": ("train sudoku-4x4 --max-steps many", "invalid int value: 'many'"),
    "missing set": ("train sudoku-4x4 data=nowhere", "no dataset at nowhere; make one like the preset's with `python"),
    "no such device": ("train sudoku-4x4 device=cuda:77", "device=cuda:77 is not available here"),
    "help of training": ("evaluate --help optimizer.lr", "python train.py --help optimizer.lr"),
    "bad limit": ("train sudoku-4x4 --max-steps 0", "--max-steps 0: must be above 0"),
    "resume nothing": ("train --resume", "no run named and none under runs/"),
    "evaluate nothing": ("evaluate", "no run named and none under runs/"),
    "evaluate two": ("evaluate a b", "one run at a time"),
    "a model's set": ("evaluate sudoku-6x6", "with `python -m datasets_gen sudoku --size 6 --train 2500"),
    "show no table": ("presets --table cmm6", "did you mean cmm-6"),
}


@pytest.mark.parametrize(("words", "said"), WRONG.values(), ids=WRONG)
def test_bad_input(words, said, here):
    one_line(words, said)
    assert list(here.iterdir()) == []  # nothing half-written


def test_a_folder_that_holds_a_run_is_not_overwritten(half, sudoku_4x4):
    words = ["train", "sudoku-4x4", f"data={sudoku_4x4}", *NARROW, "run=half", "seed=3"]
    before = (half / "config.json").read_bytes()
    refusal(words, "half already holds a run: type --resume to continue it, or another run=DIR")
    assert (half / "config.json").read_bytes() == before
    (half / "config.json").unlink()
    refusal(words, "already holds a run")


def test_a_trained_model_is_read_not_rebuilt(half):
    for width in (32, 16):  # 16 is its own
        refusal(f"evaluate half model.hidden_size={width}", "model.hidden_size cannot change for a trained model")
    for words in (["run=half"], ["half", "evaluation.weights=raw"], ["half", "model.l_cycles=4"]):
        assert main(["evaluate", *words, "steps=2"]) == 0
    names = {path.name for path in (half / "evaluation").iterdir()}
    assert names == {f"sudoku-4x4-test-T2{end}" for end in ("", "-weights=raw", "-l_cycles=4")}
    said = "model.noise=additive changes nothing in this evaluation: it is only added in training"
    output("evaluate half steps=1 model.noise=additive", said)


def test_usage_and_unknown_commands(capsys):
    assert [main(words) for words in (["--help"], [], ["trian"])] == [0, 2, 2]
    assert "did you mean train?" in capsys.readouterr().err


@pytest.mark.parametrize(("words", "own", "policy"), [
    (["train.py", "nowhere"], {}, "PASSIVE"),
    pytest.param(["evaluate.py", "nowhere"], {"OMP_WAIT_POLICY": "active"}, "ACTIVE", marks=pytest.mark.slow),
    pytest.param(["-c", "import reason; reason.load"], {}, "PASSIVE", marks=pytest.mark.slow),
])  # fmt: skip
def test_scripts_are_doors_to_the_same_code(words, own, policy):
    """Threads wait without spinning, unless the user sets otherwise: which torch reads as it is imported."""
    others = {key: value for key, value in os.environ.items() if key != "OMP_WAIT_POLICY"} | own
    environment = others | {"OMP_DISPLAY_ENV": "true"}
    done = subprocess.run([sys.executable, *words], env=environment, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == ("nowhere" in words)
    assert "\nerror: " in done.stderr or not done.returncode
    if sys.platform == "linux":  # other systems' OpenMP does not print its settings so
        assert re.findall(r"OMP_WAIT_POLICY = '(\w+)'", done.stderr) == [policy]


def printed(command, text):
    return shlex.split(*re.findall(rf"{command} (.*)", text))


def test_commands_that_are_printed_can_be_typed(sudoku_4x4, here):
    run = "lr=0.1 b"
    trained = output(["train", "sudoku-4x4", f"data={sudoku_4x4}", *NARROW, f"run={run}"])
    words = printed("next: python evaluate.py", trained)
    assert printed("next: python evaluate.py", refusal(["train", f"run={run}", "--resume"])) == words
    compared = refusal(["compare", run, "--name", "some one"])
    assert printed("make one: python evaluate.py", compared) == [*words, "name=some one"]
    assert main(["evaluate", *words, "steps=1"]) == 0
    given = printed("next: python evaluate.py", output(["export", *words, "my models/a=b c", "steps=1"]))
    assert main(["evaluate", *given, "steps=1", f"data={sudoku_4x4}"]) == 0
    words = printed("resume with: python train.py", output(["pack", run, "a b.tar.gz"]))
    assert words == ["run=a b.tar.gz", "--resume"]
    refusal(["generate", "show", "my sets/a"], "--output-dir 'my sets/a'`")


@pytest.mark.parametrize("command", PAGES)
def test_help_is_a_screen(command):
    page = output([command, "--help"])
    assert 15 <= len(page.splitlines()) <= 40
    assert max(map(len, page.splitlines())) <= 100
    named = set(re.findall(rf"\b((?:{'|'.join(SECTION_HELP)})\.[a-z_.]+)=", PAGES[command]))
    assert named <= KEYS | set(SECTION_HELP)
    assert set(re.findall(r"train.py ([a-z][a-z0-9-]+) ", PAGES[command])) <= PRESETS.keys()


def test_the_screen_names_every_option_and_every_section():
    options = [option for action in PARSER._actions for option in action.option_strings]
    sections = {key.partition(".")[0] for key in KEYS if "." in key}
    assert sections == SECTION_HELP.keys()
    assert all(f"  {name} " in PAGES["train"] for name in (*options, *sections))
    alone = {name for name in Config.model_fields if name not in sections} - {"name"}
    assert all(name in PAGES["train"] for name in alone)


def test_a_section_shows_each_of_its_settings(monkeypatch):
    monkeypatch.setenv("COLUMNS", "1500")
    shown = [" ".join(line.split()) for line in output(["train", "--help", *SECTION_HELP]).splitlines()]
    for row in SETTINGS:
        if "." in row.key:
            assert " ".join(f"{row.key}={row.default} {row.allowed} {row.text}".split()) in shown
    lines = [line.strip() for line in output("train --help model.expansion").splitlines() if line.strip()]
    assert lines[::2] == [f"{kind} models" for kind in FAMILIES]
    shown = re.findall(r"^(model\.[a-z_]+)=", output("evaluate --help model"), re.MULTILINE)
    assert shown == [row.key for row in SETTINGS if has_mark(row.key, Mark.READABLE) and row.key.startswith("model.")]
    assert "model.hidden_size" not in shown


def test_neither_the_package_nor_a_listing_needs_torch():
    words = ["presets"], ["presets", "cmm-5-"], ["train", "--help"], ["evaluate", "--help"]
    code = f"import sys, reason; from reason.cli import main; [main(each) for each in {words}]"
    code += "; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, capture_output=True)


def test_a_command_prints_commands_away_from_a_checkout(here, monkeypatch):
    (here / "train.py").touch()
    for root, called, shown in ((ROOT, "reason", "reason"), (here, "reason", "python"), (ROOT, "train.py", "python")):
        monkeypatch.setattr("sys.argv", [f"/usr/bin/{called}"])
        monkeypatch.setattr("datasets_gen.typed.ROOT", root)
        assert typed("python train.py x").split()[0] == shown
