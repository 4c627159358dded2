"""The original HRM and TRM code, recorded in float32: states, logits, losses and gradients must agree."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from reason.balance import weighted_sum
from reason.cli import main
from reason.cli.import_weights import read_weights
from reason.config import Config, read_config
from reason.losses import evaluate_terms
from reason.models.base import Batch
from reason.models.foreign import from_foreign, inferred, load_foreign, to_foreign
from reason.models.recursive import RecursiveModel
from reason.rollout import first_carry, supervise, unroll
from reason.run import load_run

FIXTURES = Path(__file__).parents[1] / "fixtures" / "parity"
NAMES = ["hrm", "trm_att", "trm_mlp"]


def imported(name: str, run: Path) -> tuple[RecursiveModel, Config, dict[str, np.ndarray]]:
    """A fixture through `reason import-weights`, and the fixture's arrays."""
    assert main(["import-weights", str(FIXTURES / f"{name}.npz"), f"run={run}", "rollout.exploration=0"]) == 0
    config = read_config(run / "config.json")
    with np.load(FIXTURES / f"{name}.npz") as arrays:
        return load_run(run, torch.device("cpu"), config).model, config, dict(arrays)


def batch_of(arrays: dict[str, np.ndarray]) -> Batch:
    keys = ("inputs", "labels", "puzzle_identifiers")
    return Batch(*(torch.from_numpy(arrays[f"batch.{key}"]).long() for key in keys))


@pytest.mark.parametrize("name", NAMES)
def test_four_segments(name: str, tmp_path: Path) -> None:
    model, _, arrays = imported(name, tmp_path / "run")
    with torch.no_grad():
        for segment, (state, out) in enumerate(unroll(model, batch_of(arrays), 4)):
            got = {
                "z_H": state.z_h,
                "z_L": state.z_l,
                "logits": out.logits,
                "q_halt": out.halt,
                "q_continue": out.go_on,
            }
            for key, value in got.items():
                expected = torch.from_numpy(arrays[f"eval.{key}.{segment}"])
                torch.testing.assert_close(value, expected, atol=1e-5, rtol=0, msg=lambda m, k=key: f"{k}: {m}")


@pytest.mark.parametrize("name", NAMES)
def test_first_training_segment(name: str, tmp_path: Path) -> None:
    model, config, arrays = imported(name, tmp_path / "run")
    batch = batch_of(arrays)
    carry, seen = supervise(model, first_carry(model, batch), lambda: batch, config.rollout, 0)
    terms = evaluate_terms(seen, config.loss)
    total = weighted_sum(terms, config.loss.weights)
    theirs = {"lm": "lm_loss", "halt": "q_halt_loss", "q_continue": "q_continue_loss"}
    for term, loss in terms.items():
        assert loss.item() == pytest.approx(float(arrays[f"train.{theirs[term]}"]), abs=1e-5)
    assert total.item() == pytest.approx(float(arrays["train.loss"]), abs=1e-5)
    assert carry.halted.tolist() == arrays["train.halted"].tolist()
    total.backward()
    names = dict(zip(model.state_dict(), to_foreign(model, prefix=""), strict=True))
    for ours, p in model.named_parameters():
        if ours.startswith("puzzle_embedding"):
            gradient, expected = p.grad._values(), arrays["grad.puzzle_emb.local_weights"]
        else:
            gradient, expected = p.grad, arrays[f"grad.{names[ours]}"]
        assert np.linalg.norm(gradient.numpy() - expected) <= 1e-4 * np.linalg.norm(expected), ours


@pytest.mark.parametrize("prefix", ["", "model.inner.", "_orig_mod.model.inner."])
@pytest.mark.parametrize("name", NAMES)
def test_their_names_survive_the_way_there_and_back(name: str, prefix: str) -> None:
    weights, stated = read_weights(FIXTURES / f"{name}.npz")
    ours = from_foreign({prefix + key: value for key, value in weights.items()})
    section, shape, assumed = inferred(ours, None, stated)
    assert assumed == []
    model = RecursiveModel(Config.model_validate({"model": section}).model, shape)
    load_foreign(model, ours)
    back = to_foreign(model, prefix)
    assert set(back) == {prefix + key for key in weights}
    for key, value in weights.items():
        torch.testing.assert_close(back[prefix + key], value, atol=0, rtol=0)


@pytest.mark.parametrize("suffix", [".pt", ".safetensors"])
def test_a_bare_state_dict_says_what_it_assumes(
    suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from safetensors.torch import save_file

    weights, _ = read_weights(FIXTURES / "trm_mlp.npz")
    file = tmp_path / f"weights{suffix}"
    if suffix == ".pt":
        torch.save({"_orig_mod.model.inner." + key: value for key, value in weights.items()}, file)
    else:
        save_file(weights, file)
    assert main(["import-weights", str(file), f"run={tmp_path / 'run'}", "model.h_cycles=2", "model.l_cycles=2"]) == 0
    assert "H_cycles=3" in capsys.readouterr().out
    assert read_config(tmp_path / "run" / "config.json").model.h_cycles == 2


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "no weights file"),
        (b"not a checkpoint", "cannot be read as weights"),
        ({"somebody.else": torch.zeros(2)}, "neither HRM nor TRM"),
        ([1, 2], "not a state_dict"),
    ],
)
def test_what_is_no_checkpoint_is_refused(
    content: object, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "weights.pt"
    if isinstance(content, bytes):
        file.write_bytes(content)
    elif content is not None:
        torch.save(content, file)
    assert main(["import-weights", str(file), f"run={tmp_path / 'run'}"]) == 1
    assert words in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
