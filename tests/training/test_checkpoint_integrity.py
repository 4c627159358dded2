"""What a checkpoint says of itself: its files as they were written, its numbers finite."""

import shutil
from pathlib import Path

import pytest
from conftest import trainer_of
from survivors import STEP, Damage, change_json, content, entry, flip, gone, same

from reason.cli import main
from reason.config.schema import Config
from reason.errors import Diverged
from reason.training.checkpoint import FILES, MANIFEST, readable, seal
from reason.training.state import save


def flipped(file: str, at: float) -> Damage:
    return lambda folder: flip(folder / file, int(at * 8 * (folder / file).stat().st_size))


def sealed(damage: Damage) -> Damage:
    """Damage that the manifest agrees with."""
    return lambda folder: (damage(folder), seal(folder))


DAMAGES: dict[str, tuple[Damage, str]] = {  # of the newest checkpoint
    **{f"a bit of {file}": (flipped(file, 0.6), "") for file in (*FILES, MANIFEST)},
    "no manifest": (gone(MANIFEST), "manifest.json is missing"),
    "no weights": (gone("weights.safetensors"), "weights.safetensors is missing"),
    "an average too many": (
        lambda folder: change_json(folder / MANIFEST, lambda sums: sums.pop("ema.safetensors")),
        "ema.safetensors is not of this checkpoint",
    ),
    "a list": (content(MANIFEST, "[]"), "does not list its files"),
    "deep": (content(MANIFEST, "[" * 9999), "is nested too deep"),
    "cut": (content("weights.safetensors", b"\x08"), "weights.safetensors has changed since it was written"),
    "a folder": (lambda folder: (gone(MANIFEST)(folder), (folder / MANIFEST).mkdir()), "Is a directory"),
    "renamed": (lambda folder: folder.rename(folder.with_name("step-000009")), "its state is of step 2"),
    "of another step": (entry("state.json", "step", 1), "its state is of step 1"),
    **{f"a state of {text}": (sealed(content("state.json", text)), "holds no state") for text in ("{}", "null", "[]")},
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_checkpoint_is_passed_over(damage: str, half: Path) -> None:
    """The one before goes on."""
    apply, said = DAMAGES[damage]
    apply(half / STEP)
    with pytest.warns(UserWarning, match=rf"step-00000. is torn \(.*{said}"):
        assert next(readable(half)).name == "step-000000"


def test_not_a_step_is_trained_on_a_flipped_bit(half: Path, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The end is the same to the bit."""
    shutil.copytree(half, here / "whole")
    assert main(["train", "run=whole", "--resume"]) == 0
    flip(half / STEP / "weights.safetensors", 4000)
    capsys.readouterr()
    assert main(["train", "run=half", "--resume"]) == 0
    (warning,) = (line for line in capsys.readouterr().err.splitlines() if "step-000002 is torn (" in line)
    assert "going back to the one before it" in warning
    assert same(half, here / "whole")


@pytest.mark.parametrize("part", ["average of", "moment"])
def test_averages_and_moments_that_are_not_finite_are_not_saved(part: str, tiny: Config, tmp_path: Path) -> None:
    trainer = trainer_of(tiny, tmp_path / "run")
    trainer.optimizer_step()
    assert trainer.ema is not None
    average, moment = trainer.ema.state_dict()["head.weight"], trainer.optimizers.state_dict()[0]["exp_avg"]
    (average if part == "average of" else moment).flatten()[-1] = float("nan")
    with pytest.raises(Diverged, match=f"{part} .* is not finite at step 1"):
        save(trainer)
