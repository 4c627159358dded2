"""A run that something happened to: a full disk, no permission, damaged or lost checkpoints, other types of numbers."""

import json
import shutil
from unittest.mock import Mock

import pytest
from conftest import output, refusal, trainer_of
from safetensors import SafetensorError
from survivors import STEP, change_json, content, entry, flip, gone, same, snapshot

from reason.cli import main
from reason.config.overrides import read_config
from reason.errors import Diverged
from reason.runs.directory import locked
from reason.training.checkpoint import FILES, MANIFEST, checkpoints, readable
from reason.training.log import read_metrics
from reason.training.state import save

RESUME = ["train", "run=half", "--resume"]


def test_settings_of_a_missing_extension_are_read_where_they_are_off(half):
    whole = read_config(half / "config.json")
    entry("config.json", "config.rollout.loops.random", {})(half)
    entry("config.json", "config.loss.weights.gone", 0.0)(half)
    assert read_config(half / "config.json") == whole


def test_what_may_change_when_training_goes_on(half):
    """`auto` on a machine with other hardware: the type of numbers is asked for by name."""
    refusal("train run=half optimizer.lr=1 --resume", "leave out optimizer.lr (what may change:", "training.tracker")
    dtype = json.loads((checkpoints(half)[-1] / "state.json").read_text())["dtype"]
    fix, other = ("bf16", "fp32") if dtype == "bfloat16" else ("fp32", "bf16")
    told = f"was computed in {dtype}", f"type training.precision={fix}"
    refusal(f"train run=half training.precision={other} --resume", *told)
    assert main([*RESUME, f"training.precision={fix}", "training.log_every=1", "device=cpu"]) == 0


@pytest.mark.parametrize(("error", "said"), [
    (OSError(28, "No space left on device", "somewhere"), "No space left on device: free some space; "),
    (SafetensorError("No space left on device"), "could not be written (No space left on device): "),
])  # fmt: skip
def test_a_full_disk_names_what_is_safe(error, said, half, monkeypatch):
    monkeypatch.setattr("reason.training.checkpoint.save_file", Mock(side_effect=error))
    refusal(RESUME, f"{said}step-000002 is safe; then python train.py run=half --resume")
    assert {path.name for path in (half / "checkpoints").iterdir()} == {"step-000000", "step-000002"}


def test_a_damaged_checkpoint_ahead_is_dropped(half):
    flip(half / STEP / "weights.safetensors", 4000)
    assert main([*RESUME, "--max-steps", "1"]) == 0
    assert [path.name for path in checkpoints(half)] == ["step-000000", "step-000001"]


def test_the_newest_checkpoint_is_found_by_number(tmp_path):
    for step in (999_999, 1_000_000):
        (tmp_path / f"checkpoints/step-{step}").mkdir(parents=True)
    assert checkpoints(tmp_path)[-1].name == "step-1000000"


def test_what_changed_when_training_went_on_stays_so(half, sudoku_4x4, here):
    shutil.copytree(sudoku_4x4, here / "moved")
    moved = [*RESUME, f"data={here / 'moved'}", "--max-steps", "3"]
    output(moved, "resume with: python train.py run=half --resume")
    assert read_config(half / "config.json").data.directory == str(here / "moved")
    assert main(["train", "run=half", "data=nowhere", "--resume"]) == 1
    assert read_config(half / "config.json").data.directory == str(here / "moved")  # a refused word changes nothing


def test_lost_metrics_are_said_and_leave_whole_lines(half, capsys):
    metrics = half / "metrics.jsonl"
    metrics.write_bytes(metrics.read_bytes()[:-5])
    assert main(["train", "run=half", "--resume"]) == 0
    assert "metrics.jsonl has lost lines" in capsys.readouterr().err
    assert [line["step"] for line in read_metrics(half)] == [4]


def test_a_run_that_another_process_trains_or_that_lost_its_checkpoints_is_left_alone(half):
    with locked(half):
        refusal(RESUME, "half is being trained by another process")
    assert main(RESUME) == 0
    shutil.rmtree(half / "checkpoints")
    before = snapshot(half)
    refusal(RESUME, "half has been trained and its checkpoints are gone; put half/checkpoints back")
    assert snapshot(half) == before


def flipped(file):
    return lambda folder: flip(folder / file, 5 * (folder / file).stat().st_size)


DAMAGES = {  # of the newest checkpoint
    **{f"a bit of {file}": (flipped(file), "") for file in (*FILES, MANIFEST)},
    "no manifest": (gone(MANIFEST), "manifest.json is missing"),
    "an average too many": (
        lambda folder: change_json(folder / MANIFEST, lambda sums: sums.pop("ema.safetensors")),
        "ema.safetensors is not of this checkpoint",
    ),
    "deep": (content(MANIFEST, "[" * 9999), "is not JSON"),
    "a folder": (lambda folder: (gone(MANIFEST)(folder), (folder / MANIFEST).mkdir()), "Is a directory"),
    "renamed": (lambda folder: folder.rename(folder.with_name("step-000009")), "its state is of step 2"),
    "of another step": (entry("state.json", "step", 1), "its state is of step 1"),
    "a state of nothing": (lambda folder: change_json(folder / "state.json", dict.clear), "holds no state"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_checkpoint_is_passed_over(damage, half):
    apply, said = DAMAGES[damage]
    apply(half / STEP)
    with pytest.warns(UserWarning, match=rf"step-00000. is torn \(.*{said}"):
        assert next(readable(half)).name == "step-000000"


def test_what_is_lost_is_trained_again_to_the_same_bits(half, here, capsys):
    flipped, died = (shutil.copytree(half, here / name) for name in ("flipped", "died"))
    flip(flipped / STEP / "weights.safetensors", 4000)
    shutil.rmtree(died / "checkpoints")
    (died / "metrics.jsonl").unlink()
    (died / "checkpoints/.step-000000.partial").mkdir(parents=True)
    for run in ("half", "flipped", "died"):
        assert main(["train", f"run={run}", "--resume"]) == 0
        assert same(half, here / run)
    (warning,) = (line for line in capsys.readouterr().err.splitlines() if "step-000002 is torn (" in line)
    assert "going back to the one before it" in warning


@pytest.mark.parametrize("part", ["average of", "moment"])
def test_averages_and_moments_that_are_not_finite_are_not_saved(part, tiny, tmp_path):
    trainer = trainer_of(tiny, tmp_path / "run")
    trainer.optimizer_step()
    average, moment = trainer.ema.state_dict()["head.weight"], trainer.optimizers.state_dict()[0]["exp_avg"]
    (average if part == "average of" else moment).flatten()[-1] = float("nan")
    with pytest.raises(Diverged, match=f"{part} .* is not finite at step 1"):
        save(trainer)
