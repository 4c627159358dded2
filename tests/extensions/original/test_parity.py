"""The original HRM and TRM code, recorded: in float32 everything must agree, in bfloat16 x̂ to the bit."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import output
from recordings import checkpoint_of, deviations, limits, reproduced, to_original

from reason.cli import main
from reason.config.overrides import read_config
from reason.config.schema import Config
from reason.extensions.original.command import read_weights
from reason.extensions.original.weights import from_original, inferred, load_original
from reason.models import FAMILIES
from reason.models.base import Batch, Shape
from reason.models.recursive import RecursiveModel
from reason.rollout import unroll
from reason.runs.directory import load_run

FIXTURES = Path(__file__).parents[2] / "fixtures" / "parity"
NAMES = ["hrm", "trm_att", "trm_mlp"]


def recording(name):
    with np.load(FIXTURES / f"{name}.npz") as arrays:
        return dict(arrays)


def imported(name, run):
    """A fixture through `reason import-weights`, and the fixture's arrays."""
    recorded = recording(name)
    file = checkpoint_of(recorded, run.parent / "weights.pt")
    assert main(["import-weights", str(file), f"run={run}", "rollout.halt_exploration_prob=0"]) == 0
    config = read_config(run / "config.json")
    return load_run(run, torch.device("cpu"), config).model, config, recorded


@pytest.mark.parametrize("name", NAMES)
def test_everything_recorded_agrees(name, tmp_path):
    model, config, arrays = imported(name, tmp_path / "run")
    ours = reproduced(model, config, arrays)
    model.double().dtype = torch.float64
    exact = reproduced(model, config, arrays)
    found, allowed = deviations(ours, arrays), limits(ours, exact)
    compared = {key for key in arrays if key.split(".")[0] in ("eval", "train", "grad")}
    assert set(found) == compared
    assert all(1e-5 <= limit <= (0.05 if key.startswith("eval.") else 2e-4) for key, limit in allowed.items())
    assert {key: value for key, value in found.items() if value > allowed[key]} == {}
    assert {key: value for key, value in deviations(exact, arrays).items() if value > allowed[key]} == {}


@pytest.mark.parametrize("name", NAMES)
def test_x_in_bfloat16_is_equal_to_the_bit_and_logits_are_within_the_types_own_rounding(name, tmp_path):
    """Four segments, beside twice the distance of the original in bfloat16 from the original in float32."""
    single, half = recording(name), recording("bfloat16")  # made of the same weights and batch
    weights, stated, _ = read_weights(checkpoint_of(single, tmp_path / "half.pt"))
    ours = from_original(weights)
    section, shape, _ = inferred(ours, None, stated)
    model = RecursiveModel(Config.model_validate({"model": section}).model, shape, torch.bfloat16).eval()
    load_original(model, ours)
    batch = Batch(*(torch.from_numpy(single[f"batch.{k}"]).long() for k in ("inputs", "labels", "puzzle_identifiers")))
    with torch.no_grad():
        assert np.array_equal(model.encode(batch).x.float().numpy(), half[f"{name}/x"])
        for segment, out in enumerate(unroll(model, batch, 4)):
            theirs = half[f"{name}/eval.logits.{segment}"]
            rounding = np.abs(theirs - single[f"eval.logits.{segment}"]).max()
            assert np.abs(out.logits.float().numpy() - theirs).max() <= 2 * rounding, segment


def test_a_wrong_model_is_seen(tmp_path):
    """The comparison can fail: one low cycle more, and nothing agrees."""
    model, config, arrays = imported("trm_att", tmp_path / "run")
    model.config = model.config.model_copy(update={"l_cycles": 3})
    found = deviations(reproduced(model, config, arrays), arrays)
    del found["train.halted"]  # everybody halts in both
    assert min(found.values()) > 1e-5


SIZES = {"hidden_size": 16, "num_heads": 2, "h_cycles": 3, "l_cycles": 6}
STATED = {"num_heads": 2, "H_cycles": 3, "L_cycles": 6, "seq_len": 9}
LITTLE = {"num_heads": None, "loss": "stablemax_cross_entropy"}
CYCLES = ["model.h_cycles=3", "model.l_cycles=6"]
CELLS = ["cells=9", "model.num_heads=2", *CYCLES]
HRM, MLP = {"separate_networks": True, "gradient": "last-call"}, {"mixer": "mlp", "positions": "none"}
FORMS = {  # model, what the file states, what is typed
    "HRM of two layers each": (HRM | {"num_layers": 2, "puzzle_emb_len": 1}, STATED, []),
    "another base of rotations": ({"rope_theta": 500.0}, STATED | {"puzzle_emb_len": 16, "rope_theta": 500.0}, []),
    "mixer, prefix typed": (MLP | {"puzzle_emb_len": 2}, {}, ["model.puzzle_emb_len=2", *CYCLES]),
    "learned positions, cells typed": ({"positions": "learned", "puzzle_emb_len": 3}, {}, CELLS),
    "rotary, cells typed": ({"puzzle_emb_len": 16}, LITTLE, [*CELLS, "model.puzzle_emb_len=16"]),
}


@pytest.mark.parametrize(("form", "inside"), [*zip(FORMS, itertools.cycle([True, False]), strict=False)])
def test_shapes_file_and_words_are_put_together(form, inside, tmp_path):
    """A model of ours under their names, in another wrapping each: imported, it is the same model, in float32."""
    settings, stated, typed = FORMS[form]
    config = FAMILIES["recursive"].config(**SIZES | settings)
    model = RecursiveModel(config, Shape(seq_len=9, vocab_size=5, num_puzzle_identifiers=3))
    stated = {"hidden_size": 16, **stated}
    file = tmp_path / "weights.pt"
    if inside:
        weights = to_original(model, "module._orig_mod.model.inner.")
        torch.save({"state_dict": weights, "config": {"arch": stated}, "step": 3}, file)
    else:
        torch.save(to_original(model), file)
        (tmp_path / "config.json").write_text(json.dumps(stated))
    assert "assumed" not in output(["import-weights", str(file), f"run={tmp_path / 'run'}", *typed])
    run = load_run(tmp_path / "run", torch.device("cpu"), read_config(tmp_path / "run/config.json"))
    assert run.model.dtype == torch.float32
    assert run.model.config == config.model_copy(update={"num_heads": run.model.config.num_heads})
    assert run.model.shape == model.shape
    for name, value in model.state_dict().items():
        assert torch.equal(run.model.state_dict()[name], value), name
