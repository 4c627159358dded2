"""reason ablate: a stopped command goes on to the same table, and the verdicts are those of paired differences."""

import contextlib
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import Mock, call

import numpy as np
import pytest
from conftest import output, refusal
from filelock import FileLock
from scipy.stats import ttest_rel

from reason.cli import main
from reason.errors import ConfigError
from reason.extensions.ablation.command import asked, work
from reason.extensions.ablation.local import why_ended
from reason.extensions.ablation.report import charts, difference, measured, summary, table
from reason.extensions.ablation.variants import Ablation, open_folder
from reason.report.chart import svg
from reason.runs.build import start
from reason.training.interrupt import StopRequest

SHORT = ["training.steps=3", "training.batch_size=8", "model.hidden_size=16", "model.num_heads=2",
         "evaluation.steps=2", "training.monitor.puzzles=0"]  # fmt: skip


def summary_of(folder):
    """The file of a summary, but for the minutes."""
    return re.sub(r'"minutes": [^,]+,', "", (folder / "summary/summary.json").read_text())


def test_variants_are_combinations_or_single_changes(tmp_path):
    words = ["sudoku-4x4", "model.h_cycles=2,1", "ema.decay=0.9,none,0.5", "training.steps=10"]
    whole, single = asked(words, False), asked(words, True)
    assert list(whole.variants())[:3] == ["h_cycles=2,decay=0.9", "h_cycles=2,decay=none", "h_cycles=2,decay=0.5"]
    assert len(whole.variants()) == 6
    assert list(single.variants()) == ["base", "h_cycles=1", "decay=none", "decay=0.5"]
    runs = [cell.run.name for cell in single.cells(tmp_path)]
    assert runs[:5] == ["00-seed0", "01-seed0", "02-seed0", "03-seed0", "00-seed1"]
    seeds = asked(["sudoku-4x4", "seeds=2"], False)  # of one recipe: nothing is varied
    assert [cell.run.name for cell in seeds.cells(tmp_path)] == ["00-seed0", "00-seed1"]


def test_runs_take_as_many_puzzle_steps():
    ablation = asked(["sudoku-4x4", "training.batch_size=16,4", "training.steps=10", "rollout.grad_steps=1"], False)
    assert [ablation.config(changes, 0).training.steps for changes in ablation.variants().values()] == [10, 40]
    lengths = asked(["sudoku-4x4", "training.steps=10,20"], False)
    assert [lengths.config(changes, 0).training.steps for changes in lengths.variants().values()] == [10, 20]


def test_a_papers_table_trains_as_it_stands(here):
    """Its rows for their own steps: equal epochs, so more puzzle-steps where N_accum is larger."""
    table = asked(["cmm-5", "seeds=1"], False, as_published=True)
    configs = [cell.config for cell in table.cells(here)]
    assert [config.name for config in configs] == [f"cmm-5-{row}" for row in range(1, 7)]
    assert [config.training.steps for config in configs[:4]] == [585_938, 390_625, 390_625, 130_208]
    shorter = asked(["cmm-5", "training.steps=300"], False, as_published=True).cells(here)
    assert [cell.config.training.steps for cell in shorter[:4]] == [300, 200, 200, 67]
    equal = asked(["cmm-5-1,cmm-5-3", "training.steps=300"], False).cells(here)
    assert [cell.config.training.steps for cell in equal[:2]] == [300, 300]


def test_presets_are_varied_like_a_setting(tmp_path):
    words = ["sudoku-6x6,sudoku-6x6-cmm-node", "training.steps=10", "model.h_cycles=2,1", "seeds=1"]
    cells = asked([*words, "seed=3"], True).cells(tmp_path)
    assert {(cell.run.name[3:], cell.config.seed) for cell in cells} == {("seed3", 3)}
    assert [cell.variant for cell in cells] == ["base", "preset=sudoku-6x6-cmm-node", "h_cycles=1"]
    assert [cell.config.name for cell in cells] == ["sudoku-6x6", "sudoku-6x6-cmm-node", "sudoku-6x6"]
    spent = [cell.config.training.steps * cell.config.training.batch_size for cell in cells]
    assert len(set(spent)) == 1
    assert cells[1].config.training.steps == 20
    with pytest.raises(ConfigError, match="one set for all"):
        asked(["sudoku-6x6,sudoku-4x4"], False).cells(tmp_path)
    asked(["sudoku-6x6,sudoku-4x4", "data=data/one"], False).cells(tmp_path)


def test_differences_are_paired_by_seed():
    rng = np.random.default_rng(0)
    base = rng.random(5)
    other = base + 0.01 + 0.001 * rng.random(5)
    ours, theirs = dict(enumerate(other)), dict(enumerate(base))
    found, expected = difference(ours, theirs), ttest_rel(other, base).confidence_interval(0.95)
    assert (found["low"], found["high"]) == pytest.approx((expected.low, expected.high))
    assert found["verdict"] == "better"
    assert difference(theirs, ours)["verdict"] == "worse"
    assert difference({0: 0.6, 1: 0.4, 2: 0.55}, dict.fromkeys(range(3), 0.5))["verdict"] == "not significant"
    assert difference(dict.fromkeys(range(3), 0.0), dict.fromkeys(range(3), 0.0))["verdict"] == "all at 0 %"
    assert difference({0: 0.6}, {0: 0.5, 1: 0.5})["verdict"] == "one seed"
    assert difference({0: 0.5}, {})["verdict"] == "not run"


def test_a_seed_that_one_variant_lacks_is_left_out_of_the_difference():
    def results(exact):
        counts = {"trained_steps": 1, "steps": 1, "parameters": 1, "puzzles": 10, "minutes": 0.5}
        return counts | {"exact_by_step": [exact]}

    runs = {"base": {0: results(0.5), 1: results(0.7)}, "x=1": {1: results(0.8), 2: results(0.1)}}
    rows = summary(runs)
    assert rows[1]["difference"]["mean"] == pytest.approx(0.1)
    assert rows[0]["trained"] == {"mean": pytest.approx(0.6), "sd": pytest.approx(0.1414, abs=1e-4)}
    assert [chart.title for chart in charts(runs)] == ["exact", "error, 1 − exact"]
    assert all("x=1" in svg(chart) for chart in charts(runs))
    for seeds in runs.values():
        for result in seeds.values():
            result["perplexity_by_step"] = [100 * result["exact_by_step"][0]]
    assert table(summary(runs), measured(runs)).rows[1][3:5] == ["0.5", "45 ± 49.5"]
    assert difference({0: 5, 1: 6.1, 2: 7}, {0: 3, 1: 4, 2: 5}, less=True)["verdict"] == "worse"


REFUSED = {
    "no preset": (["model.h_cycles=1,2"], "one preset is needed"),
    "nothing varied": (["sudoku-4x4", "model.h_cycles=1,1"], "nothing is varied"),
    "seed": (["sudoku-4x4", "model.h_cycles=1,2", "seed=1,2"], "first_seed=1,2: input should be a valid integer"),
    "seeds": (["sudoku-4x4", "model.h_cycles=1,2", "seeds=0"], "seeds=0: input should be greater than or equal to 1"),
    "jobs": (["sudoku-4x4", "model.h_cycles=1,2", "--jobs", "0"], "--jobs 0: must be above 0"),
    "no table": (["cmm-99", "--as-published"], "unknown preset cmm-99"),
    "weights": (["sudoku-4x4", "evaluation.weights=raw,ema"], "settings of evaluations cannot be varied"),
    "presets": (["sudoku-4x4,sudoku-4x5"], "unknown preset sudoku-4x5"),
    "a mistyped set": (["sudoku-4x4", "model.h_cycles=1,2", "data=nowhere"], "no dataset at nowhere"),
    "a setting that does nothing": (["sudoku-4x4", "model.sigma=0.1,0.5"], "changes nothing in these trainings"),
}


@pytest.mark.parametrize(("words", "said"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_ablated_is_refused(words, said, here):
    refusal(["ablate", *words], said)
    assert not list(here.iterdir())


def test_another_ablation_keeps_its_folder(tmp_path):
    first = Ablation(preset="sudoku-4x4", varied={"model.h_cycles": ("1", "2"), "model.activation": ("silu", "tanh")})
    more, folder = first.model_copy(update={"seeds": 5, "also_on": ["data/other"]}), tmp_path / "a"
    limited = first.model_copy(update={"evaluation": {"evaluation.limit": "5"}})
    folder.mkdir()
    for ablation in (first, more, first, limited):
        open_folder(folder, ablation)
        assert json.loads((folder / "ablation.json").read_text()) == ablation.model_dump(mode="json")
    for varied in ({"model.h_cycles": ("1", "3")}, dict(reversed(first.varied.items()))):  # the order numbers variants
        with pytest.raises(ConfigError, match="has another ablation: varied is"):
            open_folder(folder, limited.model_copy(update={"varied": varied}))
    (folder / "00-seed0/evaluation/ablation").mkdir(parents=True)
    with pytest.raises(ConfigError, match="has another ablation: evaluation is"):
        open_folder(folder, first)


class Within:
    """Stands for a process: does its work in this one, at once."""

    def __init__(self, command, **_):
        with contextlib.redirect_stdout(io.StringIO()):
            self.returncode = work(Path(command[-2]), command[-1])

    def poll(self):
        return self.returncode


@pytest.fixture
def within(here, monkeypatch):
    monkeypatch.setattr("reason.extensions.ablation.local.subprocess.Popen", Within)
    return here


def test_it_trains_evaluates_and_says_what_failed(sudoku_4x4, within):
    words = ["ablate", "sudoku-4x4", f"data={sudoku_4x4}", "model.h_cycles=2,1", "seeds=1", *SHORT, "--jobs", "2"]
    runs = within / "runs/ablation-sudoku-4x4"

    def begun():
        return [path.stat().st_mtime_ns for path in sorted(runs.glob("*/config.json"))]

    first, stamps = output(words, "h_cycles=1  begins, log", "all at 0 %", "exact 0.0%; 2 of 2 runs"), begun()
    assert len(stamps) == 2
    again = output(words)
    assert [line for line in first.splitlines() if "-seed0  " not in line] == again.splitlines()
    assert begun() == stamps
    assert json.loads((runs / "summary/summary.json").read_text())["rows"][1]["difference"]["verdict"] == "all at 0 %"

    words += ["--also-on", str(shutil.copytree(sudoku_4x4, within / "another"))]
    output(words, "sudoku-4x4 on another: 2 of 2 runs")
    assert begun() == stamps, "trained again"
    rows = [json.loads((runs / name / "summary.json").read_text())["rows"] for name in ("summary", "summary-another")]
    assert rows[0] == rows[1]


def test_a_run_that_cannot_be_evaluated_keeps_its_training(sudoku_4x4, addition, within):
    """A set of another family: said once the first run is trained; the command without it needs no training."""
    words = ["ablate", "sudoku-4x4", f"data={sudoku_4x4}", "ema.decay=0.9,0.5", "seeds=1", *SHORT]
    output([*words, "--also-on", str(addition), "--out", "a"], status=1)
    begun = [path.stat().st_mtime_ns for path in sorted(within.glob("a/*/checkpoints/*"))]
    output([*words, "--out", "a"], "2 of 2 runs")
    assert [path.stat().st_mtime_ns for path in sorted(within.glob("a/*/checkpoints/*"))] == begun


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_stops_what_is_at_work(number, status, sudoku_4x4, here, monkeypatch, capsys):
    """Each process gets Ctrl-C, at which it saves, and is waited for."""
    at_work = Mock(returncode=None)
    at_work.poll.side_effect = [None] * 50  # so many looks until the signal is heard

    def begun(*_, **__):
        os.kill(os.getpid(), number)  # while the process trains
        return at_work

    monkeypatch.setattr("reason.extensions.ablation.local.subprocess.Popen", begun)
    assert main(["ablate", "sudoku-4x4", f"data={sudoku_4x4}", "model.h_cycles=2,1"]) == status
    assert [each for each in at_work.mock_calls if each[0] != "poll"] == [call.send_signal(signal.SIGINT), call.wait()]
    said = capsys.readouterr().out
    assert "00-seed0  h_cycles=2  begins, log runs/ablation-sudoku-4x4/00-seed0.log" in said
    assert "6 runs are unfinished, 0 of them failed; the same command continues them" in said


def test_a_folder_is_one_command_s_at_a_time(sudoku_4x4, here):
    (here / "a").mkdir()
    with FileLock("a/.lock"):
        words = ["ablate", "sudoku-4x4", f"data={sudoku_4x4}", "model.h_cycles=2,1", "--out", "a"]
        refusal(words, "another reason ablate works in a; wait for it, or type another --out DIR")
    assert os.listdir("a") == [".lock"]


@pytest.mark.slow
def test_a_killed_command_goes_on_to_the_same_table(sudoku_4x4, here):
    """Killed (-9) while a run trains, which ends its process; then interrupted; each run resumes at its checkpoint."""
    words = ["sudoku-4x4", f"data={sudoku_4x4}", "ema.decay=0.99,0.5", "seeds=1", "model.hidden_size=16",
             "training.batch_size=8", "evaluation.steps=1", "training.steps=200", "training.checkpoint_every=10",
             "training.log_every=10", "training.monitor.puzzles=0"]  # fmt: skip
    command = [sys.executable, "-m", "reason", "ablate", *words, "--out"]
    run, saved = asked(words, False).cells(Path("a"))[0].run, 0
    for kind in (signal.SIGKILL, signal.SIGINT):
        with subprocess.Popen([*command, "a"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            while max((int(step.name[5:]) for step in run.glob("checkpoints/step-*")), default=0) <= saved:
                assert process.poll() is None
                time.sleep(0.05)
            process.send_signal(kind)
        saved = max(int(step.name[5:]) for step in run.glob("checkpoints/step-*"))
        assert 0 < saved < 200
    for folder in ("a", "b"):
        said = subprocess.run([*command, folder], capture_output=True, text=True, check=True).stdout
        assert "2 of 2 runs" in said
    assert "error" not in Path("a/00-seed0.log").read_text()
    steps = [line["step"] for line in map(json.loads, (run / "metrics.jsonl").read_text().splitlines())]
    assert steps == list(range(10, 201, 10))
    assert summary_of(Path("a")) == summary_of(Path("b"))


def test_a_cluster_s_signals_stop_once():
    with StopRequest() as stop:
        for number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGINT, signal.SIGUSR2):
            os.kill(os.getpid(), number)
        assert stop.name == "SIGUSR1"
        with pytest.raises(KeyboardInterrupt):  # the second, whatever came before
            os.kill(os.getpid(), signal.SIGINT)
    with StopRequest():
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_the_steps_of_a_torn_checkpoint_are_trained_again(sudoku_4x4, here):
    ablation = asked(["sudoku-4x4", f"data={sudoku_4x4}", "ema.decay=0.99,0.5", "seeds=1", *SHORT], False)
    open_folder(here, ablation)
    cell = ablation.cells(here)[0]
    with contextlib.ExitStack() as held:
        start(cell.config, cell.run, held, make_data=False).train(max_steps=2)
    shutil.copytree(cell.run / "checkpoints/step-000002", cell.run / "checkpoints/step-000003")  # of step 2
    assert work(here, "00-seed0") == 0
    assert json.loads((cell.run / "evaluation/ablation/results.json").read_text())["checkpoint_step"] == 3


REASONS = (
    (-9, "error: no space\n", "killed by signal 9, perhaps out of memory"),
    (1, "error: no memory\nerror: no space\n", "no space"),
    (0, "submitit INFO (10:00) - Loading\nsrun: error: n1: task 0: Killed\n", "n1: task 0: Killed"),
    (1, "training:   0%|          | 0/3 [00:00<?, ?step/s]\r", "no message"),
)


def test_why_a_process_ended(tmp_path):
    for status, text, said in REASONS:
        (tmp_path / "log").write_text(text)
        assert why_ended(status, tmp_path / "log").startswith(said)
