"""What a checkpoint says of itself: its files as they were written, its numbers finite, its best the best."""

import json
import os
import pkgutil
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from conftest import refusal, trainer_of
from safetensors.torch import load_file, save_file
from survivors import change_json, flip, same

from reason.cli import main
from reason.config.overrides import read_config
from reason.config.schema import Config
from reason.errors import Diverged
from reason.runs.archive import pack_run, unpack_run
from reason.runs.directory import load_run
from reason.runs.export import export_run
from reason.training import checkpoint
from reason.training.checkpoint import FILES, MANIFEST, checkpoints, fault, readable, seal, step_of
from reason.training.warm_start import warm_start

CPU = torch.device("cpu")

RESUME = ["train", "run=half", "--resume"]


@pytest.fixture
def three(half: Path) -> Path:
    """The run at step 3 of 4, with the checkpoint of step 2 before it."""
    assert main([*RESUME, "--max-steps", "3"]) == 0
    return half


@pytest.mark.parametrize("file", [*FILES, MANIFEST])
@pytest.mark.parametrize("at", [0.3, 0.9])
def test_a_flipped_bit_passes_the_checkpoint_over(file: str, at: float, three: Path) -> None:
    """The one before goes on."""
    path = three / "checkpoints/step-000003" / file
    flip(path, int(at * 8 * path.stat().st_size))
    with pytest.warns(UserWarning, match=r"step-000003 is torn \("):
        assert next(readable(three)).name == "step-000002"


def test_not_a_step_is_trained_on_a_flipped_bit(three: Path, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The end is the same to the bit."""
    shutil.copytree(three, here / "whole")
    assert main(["train", "run=whole", "--resume"]) == 0
    flip(three / "checkpoints/step-000003/weights.safetensors", 4000)
    capsys.readouterr()
    assert main(RESUME) == 0
    (warning,) = (line for line in capsys.readouterr().err.splitlines() if "step-000003 is torn (" in line)
    assert "going back to the one before it" in warning
    assert same(three, here / "whole")


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "no manifest": (lambda folder: (folder / MANIFEST).unlink(), "manifest.json is missing"),
    "no weights": (lambda folder: (folder / "weights.safetensors").unlink(), "weights.safetensors is missing"),
    "an average too many": (
        lambda folder: change_json(folder / MANIFEST, lambda sums: sums.pop("ema.safetensors")),
        "ema.safetensors is not of this checkpoint",
    ),
    "a list": (lambda folder: (folder / MANIFEST).write_text("[]"), "does not list its files"),
    "deep": (lambda folder: (folder / MANIFEST).write_text("[" * 9999), "is nested too deep"),
    "renamed": (lambda folder: folder.rename(folder.with_name("step-000009")), "its state is of step 3"),
    "a folder": (lambda folder: replaced_by(Path.mkdir, folder / MANIFEST), "is no regular file"),
    **{
        f"a pipe for {name}": (lambda folder, name=name: replaced_by(os.mkfifo, folder / name), "is no regular file")
        for name in ("state.json", "weights.safetensors", MANIFEST)
    },
}


def replaced_by(other: Callable[[Path], object], file: Path) -> None:
    file.unlink()
    other(file)


@pytest.mark.parametrize("damage", DAMAGES)
def test_other_damage_is_named(damage: str, three: Path) -> None:
    apply, said = DAMAGES[damage]
    apply(three / "checkpoints/step-000003")
    with pytest.warns(UserWarning, match=said):
        assert next(readable(three)).name == "step-000002"


def _loaded_step(run: Path) -> int:
    return load_run(run, CPU, read_config(run / "config.json")).step


def _exported_step(run: Path) -> int:
    return export_run(run, run / "out", read_config(run / "config.json"), "fp16", [])["step"]


def _packed_step(run: Path) -> int:
    pack_run(run, run / "out.tar.gz")
    unpack_run(run / "out.tar.gz", run / "out")
    return step_of(checkpoints(run / "out")[0])


def _warm_start(run: Path) -> int:
    warm_start(load_run(run, CPU, read_config(run / "config.json")).model, run, "same")
    return step_of(checkpoints(run)[-1])


READERS: dict[str, tuple[str, Callable[[Path], int]]] = {  # what is called after the removal, and what reads
    "the choice": ("training.checkpoint.torn", _loaded_step),
    "load": ("training.checkpoint.load_file", _loaded_step),
    "export": ("runs.export.load_weights", _exported_step),
    "pack": ("runs.archive._pack", _packed_step),
    "warm start": ("training.warm_start.load_weights", _warm_start),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.filterwarnings("error")
def test_where_a_trainer_removed_a_checkpoint_the_next_one_is_read(
    reader: str, three: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, step = READERS[reader]
    function = pkgutil.resolve_name(f"reason.{name}")

    def removed_before(*arguments: object) -> object:
        shutil.rmtree(three / "checkpoints/step-000003", ignore_errors=True)
        return function(*arguments)

    monkeypatch.setattr(f"reason.{name}", removed_before)
    assert step(three) == 2


def test_a_checkpoint_is_out_of_sight_before_its_files_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint.save_checkpoint(tmp_path, 1, {}, None, {"step": 1}, keep=1)
    monkeypatch.setattr(checkpoint.shutil, "rmtree", lambda *_, **__: None)
    newest = checkpoint.save_checkpoint(tmp_path, 2, {}, None, {"step": 2}, keep=1)
    assert checkpoints(tmp_path) == [newest]


@pytest.mark.skipif(os.name == "nt", reason="no FIFOs")
@pytest.mark.parametrize("make", [os.mkfifo, Path.touch, lambda path: path.symlink_to(path.name)])
def test_what_lies_under_the_name_of_a_checkpoint_gives_way(make: Callable[[Path], None], half: Path) -> None:
    """A FIFO made training wait for its writer, a file or a link ended it after the step."""
    for name in ("step-000004", ".step-000001.partial"):
        make(half / "checkpoints" / name)
    assert main(RESUME) == 0
    assert [path.name for path in checkpoints(half)][-1] == "step-000004"
    assert not list(half.glob("checkpoints/.*"))


def test_a_seal_covers_what_is_there(tmp_path: Path) -> None:
    for name in FILES:
        (tmp_path / name).write_bytes(name.encode())
    seal(tmp_path)
    assert fault(tmp_path) is None
    (tmp_path / "notes.txt").write_text("mine")  # no part of it
    assert fault(tmp_path) is None
    assert json.loads((tmp_path / MANIFEST).read_text()) == {name: checkpoint.sha256(tmp_path / name) for name in FILES}


@pytest.mark.parametrize("part", ["average of", "moment"])
def test_so_are_averages_and_moments(part: str, tiny: Config, tmp_path: Path) -> None:
    trainer = trainer_of(tiny, tmp_path / "run")
    trainer.optimizer_step()
    assert trainer.ema is not None
    tensors = trainer.ema._average if part == "average of" else [trainer.optimizers.state_dict()[0]["exp_avg"]]
    tensors[0].flatten()[-1] = float("nan")
    with pytest.raises(Diverged, match=f"{part} .* is not finite at step 1"):
        trainer.save(0)


@pytest.mark.parametrize("words", [["evaluate", "half"], ["solve", "half", "1..............."]])
def test_weights_that_are_no_numbers_are_not_evaluated(words: list[str], half: Path) -> None:
    """They would read as "exact 0.0 %"."""
    folder = checkpoints(half)[-1]
    for name in ("weights", "ema"):
        broken = load_file(folder / f"{name}.safetensors")
        broken["head.weight"][0, 0] = float("nan")
        save_file(broken, folder / f"{name}.safetensors")
    seal(folder)
    refusal(words, "weight head.weight holds a number that is infinite or NaN")


def test_others_may_read_what_the_umask_lets_them(half: Path) -> None:
    modes = {path.stat().st_mode for path in next(readable(half)).iterdir()}
    (half / "beside").touch()
    assert modes == {(half / "beside").stat().st_mode}


def test_a_run_whose_path_is_not_utf8_is_refused(here: Path) -> None:
    """safetensors would write there, and nothing could read it."""
    refusal(["train", "sudoku-4x4", "run=caf\udce9", "training.steps=1"], "its path is not UTF-8; name another run=DIR")
    assert not [path for path in here.iterdir() if path.name.startswith("caf")]
