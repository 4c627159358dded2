"""Starting from a finished run: unchanged, on other constraints, and what does not fit."""

import pytest
import torch
from conftest import TINY, trainer_of
from evaluators import random_batch, shaken
from safetensors.torch import load_file

import reason
from datasets_gen.structure import Structure
from reason.config.overrides import override
from reason.errors import ConfigError
from reason.models import RecursiveConfig, Shape, build_model
from reason.models.mixing import group_names
from reason.presets import preset
from reason.rollout import unroll
from reason.training.checkpoint import checkpoints
from reason.training.warm_start import moved

LINES = {"row": (0, 0, 1, 1), "column": (0, 1, 0, 1)}


@pytest.fixture(scope="module")
def first(sudoku_4x4, tmp_path_factory):
    """A finished run whose averages differ from its weights."""
    changes = {"data.directory": str(sudoku_4x4), "ema.decay": "0.5"}
    config, run = override(preset("sudoku-4x4").config(), TINY | changes), tmp_path_factory.mktemp("runs") / "first"
    trainer_of(config, run).train()
    return config, run


def test_a_run_begins_with_the_weights_that_evaluation_reads(first, tmp_path):
    begun = trainer_of(override(first[0], {"init_from": str(first[1])}), tmp_path / "new").model.state_dict()
    average = load_file(checkpoints(first[1])[-1] / "ema.safetensors")
    assert all(torch.equal(begun[name], average[name]) for name in average)


@pytest.mark.parametrize(("changes", "text"), [
    ({"model.hidden_size": "32"}, r"size mismatch.*; give the model the settings"),
    ({"model.num_layers": "3"}, r"Missing key.*f_l.blocks.2|size"),
    ({"model.states": "1", "model.num_layers": "1"}, "do not fit the model"),
    ({"init_from": "nowhere"}, "no run at nowhere"),
    ({"init_from": "any"}, "init_from=.*any: the weights do not fit.* model.hidden_size=48 .*model.mixer=linear"),
])  # fmt: skip
def test_what_does_not_fit_is_refused(first, tmp_path, changes, text):
    config = override(first[0], {"init_from": str(first[1])} | changes)
    with pytest.raises(ConfigError, match=text):
        trainer_of(config, tmp_path / "run")


def test_a_run_that_has_weights_refuses_others(first):
    with pytest.raises(ConfigError, match="init_from=x changes nothing"):
        reason.resume(first[1], init_from="x")


def of_groups(groups):
    """A model with random weights of 2×2 puzzles with three symbols."""
    shape = Shape(seq_len=4, vocab_size=5, structure=Structure(grid=(2, 2), groups=groups, symbols=(2, 3, 4)))
    config = RecursiveConfig(
        hidden_size=8, mixer="groups", symbols=True, positions="none", num_heads=1,
        expansion=1, puzzle_emb_len=0, h_cycles=1, l_cycles=2, num_layers=1, states=1, gradient="all-cycles",
    )  # fmt: skip
    return shaken(build_model(config, shape)), group_names(config, shape)


def test_messages_follow_the_names_of_groups_and_new_ones_say_nothing_at_first():
    (old, had), (new, has) = of_groups(LINES), of_groups({"diagonal": (0, 1, 2, 0)} | LINES)
    new.load_state_dict(moved(old.state_dict(), new.state_dict(), had, has))
    batch = random_batch(2, 4, 5)
    for a, b in zip(unroll(new, batch, 2), unroll(old, batch, 2), strict=True):
        torch.testing.assert_close(a.logits, b.logits)
    # A run on rows, columns and boxes begins one of boxes and rows: each keeps its weights, columns are left out.
    (old, had), (new, has) = of_groups(LINES | {"box": (0,) * 4}), of_groups({"box": (0,) * 4, "row": LINES["row"]})
    before, after = old.state_dict(), moved(old.state_dict(), new.state_dict(), had, has)
    assert after.keys() == new.state_dict().keys()
    layer = "f_l.blocks.0.mixer."
    for now, then in (("relations.0", "relations.2"), ("relations.1", "relations.0"), ("own", "own")):
        assert torch.equal(after[f"{layer}{now}.weight"], before[f"{layer}{then}.weight"])
