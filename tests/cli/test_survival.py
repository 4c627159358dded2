"""Interrupted, moved, packed, damaged, changed: what the commands make of a run that something happened to."""

from __future__ import annotations

import json
import os
import shutil
import tarfile
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from reason.cli import main
from reason.config.overrides import read_config
from reason.errors import ConfigError
from reason.runs import directory as runs
from reason.runs.archive import pack_run
from reason.training import checkpoint
from reason.training.checkpoint import checkpoints
from reason.training.log import read_metrics

NARROW = ["model.hidden_size=16", "training.steps=4", "training.batch_size=8", "training.log_every=2"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to stand in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def half(sudoku_4x4: Path, here: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """A run stopped at step 2 of 4."""
    assert main(["train", "sudoku-4x4", f"data={sudoku_4x4}", *NARROW, "run=half", "--max-steps", "2"]) == 0
    capsys.readouterr()
    return here / "half"


def tensors(run: Path) -> dict[str, torch.Tensor]:
    files = sorted(checkpoints(run)[-1].glob("*.safetensors"))
    return {f"{file.name}/{name}": tensor for file in files for name, tensor in load_file(file).items()}


def same(one: Path, other: Path) -> bool:
    a, b = tensors(one), tensors(other)
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def test_a_run_goes_on_wherever_it_lies(half: Path, here: Path) -> None:
    """Moved as a folder, packed and named by its file, packed and unpacked to a folder: one end, to the bit."""
    shutil.copytree(half, here / "elsewhere/deep/moved")
    assert main(["pack", "half"]) == 0
    (here / "usb").mkdir()
    shutil.move(here / "half.tar.gz", here / "usb/carried.tar.gz")
    assert main(["train", "run=half", "--resume"]) == 0
    assert main(["train", "run=elsewhere/deep/moved", "--resume"]) == 0
    assert main(["train", "run=usb/carried.tar.gz", "--resume"]) == 0
    assert main(["train", "usb/carried.tar.gz", "run=mine", "--resume"]) == 0
    for run in ("elsewhere/deep/moved", "runs/carried", "mine"):
        assert same(half, here / run), run


def test_what_an_archive_holds(half: Path, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pack", "half/", "out/mine.tar.gz"]) == 0
    out = capsys.readouterr().out
    assert "go on anywhere with: python train.py run=out/mine.tar.gz --resume" in out
    assert "left out" not in out
    with tarfile.open(here / "out/mine.tar.gz") as archive:
        names = {Path(name).name for name in archive.getnames()}
    assert names == {
        "config.json", "metrics.jsonl", "weights.safetensors", "ema.safetensors", "state.safetensors", "state.json",
    }  # fmt: skip
    assert main(["pack", "half", "out/mine.tar.gz"]) == 1
    assert "is there already" in capsys.readouterr().err
    assert main(["pack", "half", "mine.zip"]) == 1
    assert "an archive ends in .tar.gz" in capsys.readouterr().err
    assert main(["train", "run=out/mine.tar.gz", "--resume"]) == 0
    assert main(["train", "run=out/mine.tar.gz", "--resume"]) == 1
    assert "runs/mine is there already, from this archive or another" in capsys.readouterr().err


def test_a_small_model_fits_into_a_small_archive(
    half: Path, here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Above the limit the carry stays behind, and this is said; with --exact it travels."""
    monkeypatch.setattr("reason.runs.archive.LIMIT", 10_000)
    assert main(["pack", "half", "small.tar.gz"]) == 0
    assert "the carry was left out" in capsys.readouterr().out
    assert main(["pack", "half", "exact.tar.gz", "--exact"]) == 0
    assert "left out" not in capsys.readouterr().out
    assert (here / "small.tar.gz").stat().st_size < (here / "exact.tar.gz").stat().st_size
    assert main(["train", "run=small.tar.gz", "--resume"]) == 0
    assert checkpoints(here / "runs/small")[-1].name == "step-000004"


def test_a_million_numbers_fit_into_sixteen_megabytes(half: Path, here: Path) -> None:
    """Weights, averages and two moments of 1 M parameters of trained-looking numbers, and a carry of 4 MB."""
    folder, gaussian = checkpoints(half)[-1], torch.randn(1_000_000)
    checkpoint.save_file({"w": gaussian}, folder / "weights.safetensors")
    checkpoint.save_file({"w": gaussian + 1e-3 * torch.randn(1_000_000)}, folder / "ema.safetensors")
    state = {"/optimizer/0/a": 1e-4 * torch.randn(1_000_000), "/optimizer/0/b": 1e-8 * torch.randn(1_000_000).square()}
    skeleton = json.loads((folder / "state.json").read_text())
    skeleton["optimizer"] = {"0": {name[-1]: f"tensor:{name}" for name in state}}
    state |= {name: t for name, t in load_file(folder / "state.safetensors").items() if "optimizer" not in name}
    state["/carry/state/0"] = torch.randn(1_000_000)
    checkpoint.save_file(state, folder / "state.safetensors")
    (folder / "state.json").write_text(json.dumps(skeleton))
    assert not pack_run(half, here / "million.tar.gz")
    assert (here / "million.tar.gz").stat().st_size <= 16_000_000


@pytest.mark.parametrize("how", ["torn", "strange", "escaping", "missing"])
def test_archives_that_are_none(how: str, half: Path, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is unpacked from them, and nothing outside the run is ever touched."""
    archive = here / "bad.tar.gz"
    said = {"torn": "is torn", "strange": "holds evil.pkl", "escaping": "holds ../outside", "missing": "no archive at"}
    if how == "torn":
        assert main(["pack", "half", "bad.tar.gz"]) == 0
        archive.write_bytes(archive.read_bytes()[:-2000])
    elif how != "missing":
        (here / "payload").write_text("{}")
        with tarfile.open(archive, "w:gz") as packed:
            packed.add(half / "config.json", "config.json")
            packed.add(here / "payload", "evil.pkl" if how == "strange" else "../outside")
    before = sorted(path for path in here.rglob("*") if path != archive)
    capsys.readouterr()
    assert main(["train", "run=bad.tar.gz", "--resume"]) == 1
    assert said[how] in capsys.readouterr().err
    assert sorted(path for path in here.rglob("*") if path not in (archive, here / "runs")) == before


def test_the_run_is_locked_while_it_is_read(
    half: Path, sudoku_4x4: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second process finds the run taken before the first has read its checkpoint."""
    from reason.cli import train

    def second(run: Path) -> object:
        assert main(["train", "run=half", "--resume"]) == 1
        raise ConfigError("read")

    monkeypatch.setattr(train, "readable", second)
    assert main(["train", "run=half", "--resume"]) == 1
    assert "half is being trained by another process" in capsys.readouterr().err


def test_what_may_change_when_training_goes_on(
    half: Path, sudoku_4x4: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "run=half", "optimizer.lr=1", "--resume"]) == 1
    error = capsys.readouterr().err
    assert "--resume goes on with the run's own config; leave out optimizer.lr" in error
    assert "training.tracker" in error
    assert main(["train", "run=half", "training.log_every=1", "device=cpu", "--resume"]) == 0


def test_a_config_that_does_not_match_the_checkpoint(half: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = json.loads((half / "config.json").read_text())
    for section, key, value, words in (
        ("optimizer", "lr", 0.5, "was made with optimizer.lr=0.001, config.json has 0.5: put 0.001 back"),
        ("model", "hidden_size", 32, "was made with model.hidden_size=16, config.json has 32"),
    ):
        changed = json.loads(json.dumps(record))
        changed["config"][section][key] = value
        (half / "config.json").write_text(json.dumps(changed))
        assert main(["train", "run=half", "--resume"]) == 1
        assert words in capsys.readouterr().err
    state = checkpoints(half)[-1] / "state.json"
    tree = json.loads(state.read_text())
    del tree["config"]  # a checkpoint that kept no config: the shapes still tell
    state.write_text(json.dumps(tree))
    assert main(["train", "run=half", "--resume"]) == 1
    assert "does not fit the model of config.json" in capsys.readouterr().err


def test_a_checkpoint_of_another_version(half: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = checkpoints(half)[-1] / "state.json"
    tree = json.loads(state.read_text())
    del tree["meters"]["sums"]
    state.write_text(json.dumps(tree))
    assert main(["train", "run=half", "--resume"]) == 1
    assert "lacks 'sums', so another version wrote it" in capsys.readouterr().err


def test_another_type_of_numbers_is_refused(half: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`auto` on a machine with other hardware: the type is asked for by name."""
    state = checkpoints(half)[-1] / "state.json"
    tree = json.loads(state.read_text())
    dtype, other = tree["dtype"], "fp32" if tree["dtype"] == "bfloat16" else "bf16"
    assert main(["train", "run=half", f"training.precision={other}", "--resume"]) == 1
    mend = {"float32": "fp32", "bfloat16": "bf16"}[dtype]
    assert f"was computed in {dtype}" in (error := capsys.readouterr().err)
    assert f"type training.precision={mend}" in error
    assert main(["train", "run=half", f"training.precision={mend}", "--resume"]) == 0


def test_a_set_that_changed_since_is_refused(sudoku_4x4: Path, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import numpy as np

    shutil.copytree(sudoku_4x4, here / "set")
    assert main(["train", "sudoku-4x4", "data=set", *NARROW, "run=r", "--max-steps", "2"]) == 0
    file = here / "set/train/all__inputs.npy"
    array = np.load(file)
    array[0, np.flatnonzero(array[0] > 1)[0]] = 1  # one given cell is blank now
    np.save(file, array)
    assert main(["train", "run=r", "--resume"]) == 1
    assert "is not the set that r was started with, or has changed since" in capsys.readouterr().err


def test_a_presets_own_set_is_made_again_where_it_is_missing(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An archive carried to a bare machine goes on."""
    assert main(["train", "sudoku-4x4", *NARROW, "run=r", "--max-steps", "2"]) == 0
    shutil.rmtree(here / "data")
    assert main(["train", "run=r", "--resume"]) == 0
    assert "making it: python -m datasets_gen sudoku --size 4" in capsys.readouterr().out


def test_a_full_disk_names_what_is_safe(
    half: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", "somewhere")

    monkeypatch.setattr(checkpoint, "save_file", full)
    assert main(["train", "run=half", "--resume"]) == 1
    error = capsys.readouterr().err
    assert (
        "No space left on device: free some space; step-000002 is safe; then python train.py run=half --resume" in error
    )
    assert [path.name for path in checkpoints(half)] == ["step-000002"]
    monkeypatch.undo()
    os.chdir(half.parent)
    monkeypatch.setattr(runs.shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(1, 1, 1000))
    assert main(["train", "run=half", "--resume"]) == 1
    assert "the disk has 0.0 MB left; free some space" in capsys.readouterr().err


def test_a_read_only_run_is_refused(
    half: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid() == 0:  # to whom nothing is read-only

        def refused(*_: object) -> None:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(runs.FileLock, "acquire", refused)
    half.chmod(0o555)
    try:
        assert main(["train", "run=half", "--resume"]) == 1
    finally:
        half.chmod(0o755)
    assert "half cannot be written to (Permission denied); copy it" in capsys.readouterr().err


def test_memory_is_told_before_anything_is_made(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["train", "sudoku-4x4", "--memory", "device=cpu", "training.precision=fp32"]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "memory of sudoku-4x4: 128 rows of 16 cells, float32 on cpu" in out
    assert all(name in out for name in ("weights", "moments", "activations", "in all"))
    assert list(here.iterdir()) == []
    assert main(["train", "--memory"]) == 1
    assert "--memory needs one preset" in capsys.readouterr().err
    big = ["trm-att-maze", "model.gradient_checkpointing=false", "device=cpu", "training.precision=fp16"]
    assert main(["train", *big, "--memory"]) == 0
    assert "more than 16.00 GB: type model.gradient_checkpointing=true" in capsys.readouterr().out
    assert main(["presets", "sudoku-4x4", "--memory"]) == 0
    assert "sudoku-4x4" in capsys.readouterr().out
    assert main(["presets", "nothing", "--memory"]) == 1
    assert "no preset's name begins with nothing" in capsys.readouterr().err


def test_what_changed_when_training_went_on_stays_so(
    half: Path, sudoku_4x4: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The set is moved and named once; the line that resumes and evaluate.py then find it."""
    shutil.copytree(sudoku_4x4, here / "moved")
    assert main(["train", "run=half", f"data={here / 'moved'}", "--resume", "--max-steps", "3"]) == 0
    assert "go on with: python train.py run=half --resume" in capsys.readouterr().out
    assert read_config(half / "config.json").data.directory == str(here / "moved")
    shutil.copytree(half, here / "other")
    assert main(["train", "run=half", "data=nowhere", "--resume"]) == 1
    assert read_config(half / "config.json").data.directory == str(here / "moved")  # a refused word changes nothing


@pytest.mark.parametrize("damage", ["ema.safetensors", "{}", "null", "[]"])
def test_a_damaged_checkpoint_is_passed_over(damage: str, half: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its average missing, its state empty: the one before it goes on."""
    assert main(["train", "run=half", "training.checkpoint_every=1", "training.keep_checkpoints=3", "--resume"]) == 0
    newest = checkpoints(half)[-1]
    assert newest.name == "step-000004"
    if damage == "ema.safetensors":
        (newest / damage).unlink()
    else:
        (newest / "state.json").write_text(damage)
    with pytest.warns(UserWarning, match="step-000004 is torn"):
        assert next(checkpoint.readable(half)).name == "step-000003"
    assert main(["train", "run=half", "--resume"]) == 0


def test_lost_metrics_are_said_and_leave_whole_lines(half: Path, capsys: pytest.CaptureFixture[str]) -> None:
    metrics = half / "metrics.jsonl"
    metrics.write_bytes(metrics.read_bytes()[:-5])
    assert main(["train", "run=half", "--resume"]) == 0
    assert "metrics.jsonl has lost lines" in capsys.readouterr().err
    assert [line["step"] for line in read_metrics(half)] == [4]


def test_weights_that_do_not_fit_the_config_are_not_evaluated(half: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = json.loads((half / "config.json").read_text())
    record["config"]["model"]["hidden_size"] = 32
    (half / "config.json").write_text(json.dumps(record))
    assert main(["evaluate", "half"]) == 1
    assert "does not fit the model of config.json" in capsys.readouterr().err


def test_another_family_of_the_same_shape_is_refused(half: Path, capsys: pytest.CaptureFixture[str]) -> None:
    maze = ["--size", "4", "--min-path", "3", "--train", "0", "--test", "4", "--seed", "0"]
    assert main(["generate", "maze", *maze, "--output-dir", "mazes"]) == 0
    assert main(["evaluate", "half", "data=mazes"]) == 1
    assert "mazes holds puzzles of name maze, half was trained on name sudoku" in capsys.readouterr().err


def test_what_cannot_be_written_is_refused_before_the_work(
    half: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(**_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("reason.cli.evaluate.tempfile.TemporaryFile", refuse)
    monkeypatch.setattr("reason.cli.evaluate.evaluate", lambda *_: pytest.fail("it was read"))
    assert main(["evaluate", "half"]) == 1
    assert "half/evaluation cannot be written to (Permission denied)" in capsys.readouterr().err


def test_the_packed_run_says_that_its_best_stays_behind(
    monitored_4x4: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["train", "sudoku-4x4", f"data={monitored_4x4}", *NARROW, "run=best", "training.monitor.every=2"]
    assert main(words) == 0
    (here / "best/checkpoints/best.json").write_text(json.dumps({"step": 2}))
    assert main(["pack", "best"]) == 0
    out = capsys.readouterr().out
    assert ("step-000002, stays behind" in out) == (here / "best/checkpoints/step-000002").is_dir()
