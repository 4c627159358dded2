"""Starting from a finished run: stage II moves nothing but the gate, an upcycled stack computes what its order says."""

import shutil
from pathlib import Path

import pytest
import torch
from conftest import pairs, trainer_of
from evaluators import random_batch, shaken
from safetensors.torch import load_file

from datasets_gen.structure import Relation, Structure
from reason.cli import main
from reason.config.overrides import override
from reason.config.schema import Config
from reason.errors import ConfigError
from reason.models import LoopedConfig, LoopedModel, RecursiveConfig, Shape, build_model
from reason.models.base import Reasoner
from reason.presets import preset
from reason.rollout import unroll
from reason.training.checkpoint import checkpoints
from reason.training.loop import Trainer
from reason.training.state import restore
from reason.training.warm_start import duplicated, moved

NARROW = pairs(
    "model.hidden_size=8 model.num_heads=2 training.batch_size=8 training.steps=3 training.log_every=1 "
    "training.checkpoint_every=2"
)


def trained(config: Config, run: Path) -> Trainer:
    trainer = trainer_of(config, run)
    trainer.train()
    return trainer


@pytest.fixture(scope="module")
def stage_1(addition: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Config, Path]:
    config = override(preset("ouro-small-stage-1").config(), NARROW | {"data.directory": str(addition)})
    run = tmp_path_factory.mktemp("runs") / "stage-1"
    trained(config, run)
    return config, run


def weights(run: Path) -> dict[str, torch.Tensor]:
    return load_file(checkpoints(run)[-1] / "weights.safetensors")


def test_stage_two_changes_nothing_but_the_gate(stage_1: tuple[Config, Path], addition: Path, tmp_path: Path) -> None:
    """Not even through weight decay, the optimizer's moments or the average of weights."""
    changes = {"data.directory": str(addition), "init_from": str(stage_1[1]), "optimizer.weight_decay": "0.5",
               "ema.decay": "0.5"}  # fmt: skip
    config = override(preset("ouro-small-stage-2").config(), NARROW | changes)
    trained(config, tmp_path / "stage-2")
    before, after = weights(stage_1[1]), weights(tmp_path / "stage-2")
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed == {"gate.out.weight", "gate.out.bias"}
    average = load_file(checkpoints(tmp_path / "stage-2")[-1] / "ema.safetensors")
    assert {name for name in average if not torch.equal(average[name], before[name])} == changed


def test_stage_two_resumes_without_the_run_it_came_from(
    stage_1: tuple[Config, Path], addition: Path, tmp_path: Path
) -> None:
    changes = {"data.directory": str(addition), "init_from": str(stage_1[1])}
    config = override(preset("ouro-small-stage-2").config(), NARROW | changes)
    whole, run = trained(config, tmp_path / "whole"), tmp_path / "stopped"
    trainer_of(config, run).train(max_steps=2)
    again = trainer_of(config.model_copy(update={"init_from": str(tmp_path / "nowhere")}), run)
    restore(again, checkpoints(run)[-1])
    again.train()
    for a, b in zip(whole.model.parameters(), again.model.parameters(), strict=True):
        assert torch.equal(a, b)
    assert [p.requires_grad for p in again.model.parameters()].count(True) == 2


def test_a_run_without_a_gate_gets_a_fresh_one(stage_1: tuple[Config, Path], addition: Path, tmp_path: Path) -> None:
    plain = override(
        stage_1[0],
        {"model.gate": "none", "loss.weights.exit": "0", "loss.weights.exit_entropy": "0", "loss.weights.lm": "1",
         "loss.schedules": "{}", "ema.decay": "0.5"},
    )  # fmt: skip
    trained(plain, tmp_path / "plain")
    config = override(preset("ouro-small-stage-2").config(), NARROW | {"data.directory": str(addition),
                      "init_from": str(tmp_path / "plain"), "optimizer.lr": "1e-30"})  # fmt: skip
    begun = trainer_of(config, tmp_path / "new").model.state_dict()
    average = load_file(checkpoints(tmp_path / "plain")[-1] / "ema.safetensors")
    assert all(torch.equal(begun[name], average[name]) for name in average)  # as evaluation reads it
    assert begun["gate.out.weight"].abs().sum() == begun["gate.out.bias"].abs().sum() == 0


SHAPE = Shape(seq_len=5, vocab_size=7)


def looped(layers: int, **changes: object) -> LoopedModel:
    config = LoopedConfig(hidden_size=8, num_heads=2, num_layers=layers, dropout=0.0, **changes)
    return shaken(LoopedModel(config, SHAPE, torch.float64).double())


@pytest.mark.parametrize("times", [2, 3])
def test_a_cycled_stack_does_in_one_loop_what_the_old_one_did_in_several(times: int) -> None:
    old, new = looped(2, coda=1), looped(2 * times, coda=1)
    new.load_state_dict(duplicated(old.state_dict(), new.state_dict(), "cycle"))
    batch = random_batch(2, 5, 7)
    deep = list(unroll(new, batch, 2))
    shallow = list(unroll(old, batch, 2 * times))[times - 1 :: times]
    for said, expected in zip(deep, shallow, strict=True):
        torch.testing.assert_close(said.state.z, expected.state.z)
        torch.testing.assert_close(said.logits, expected.logits)


def test_a_repeated_stack_applies_each_layer_twice_in_turn() -> None:
    old, new = looped(2), looped(4)
    new.load_state_dict(duplicated(old.state_dict(), new.state_dict(), "repeat"))
    x = old.encode(random_batch(2, 5, 7))
    first, second = old.block.blocks
    expected = second(second(first(first(x.x))))
    torch.testing.assert_close(new.step(new.initial_state(x), x).z, expected)


def test_a_recursive_stack_grows_too() -> None:
    """TRM's two layers, cycled into four, are one network of two layers applied twice in a call."""
    settings = {"hidden_size": 8, "num_heads": 2, "expansion": 1, "puzzle_emb_len": 1, "h_cycles": 1, "l_cycles": 2}
    old = build_model(RecursiveConfig(**settings, num_layers=2, repeats=2), SHAPE)
    new = build_model(RecursiveConfig(**settings, num_layers=4), SHAPE)
    new.load_state_dict(duplicated(old.state_dict(), new.state_dict(), "cycle"))
    batch = random_batch(2, 5, 7)
    for a, b in zip(unroll(new, batch, 2), unroll(old, batch, 2), strict=True):
        torch.testing.assert_close(a.logits, b.logits)


def test_an_upcycled_run_trains_on(stage_1: tuple[Config, Path], addition: Path, tmp_path: Path) -> None:
    changes = {"data.directory": str(addition), "init_from": str(stage_1[1])}
    config = override(preset("ouro-small-upcycled").config(), NARROW | changes)
    begun = trainer_of(config, tmp_path / "new").model.state_dict()
    old = weights(stage_1[1])
    for name, tensor in begun.items():
        assert torch.equal(tensor, old[name.replace("block.blocks.1", "block.blocks.0")])
    after = trained(config, tmp_path / "run").model.state_dict()
    assert not torch.equal(after["block.blocks.0.mlp.down.weight"], after["block.blocks.1.mlp.down.weight"])


@pytest.mark.parametrize(("changes", "text"), [
    ({"model.hidden_size": "16"}, r"\[8, 8\] there and \[16, 16\] here; take the sizes"),
    ({"model.num_layers": "2"}, "holds 1 layers, this model's 2; type init_layers=cycle"),
    ({"model.num_layers": "3", "init_layers": "cycle", "model.coda": "1"}, "coda.blocks holds 0 layers, this"),
    ({"model.damping": "true"}, "lacks the weight damping of this model"),
    ({"model.norm": "simple"}, "which this model lacks"),
    ({"init_from": "nowhere"}, "no run at nowhere"),
])  # fmt: skip
def test_what_does_not_fit_is_refused(
    stage_1: tuple[Config, Path], tmp_path: Path, changes: dict[str, str], text: str
) -> None:
    config = override(stage_1[0], {"init_from": str(stage_1[1])} | changes)
    with pytest.raises(ConfigError, match=text):
        trainer_of(config, tmp_path / "run")


LINES = {"row": (0, 0, 1, 1), "column": (0, 1, 0, 1)}
DIAGONAL = Relation(name="alldifferent", instances=((0, 3),))
LESS = Relation(name="less", places=2, clues=1, highest=3, instances=((1, 2),))


def of_constraints(groups: dict[str, tuple[int, ...]], *relations: Relation) -> tuple[Reasoner, dict[str, tuple]]:
    """A model with random weights of 2×2 puzzles with three symbols, and what its messages stand for."""
    shape = Shape(
        seq_len=4,
        vocab_size=5,
        structure=Structure(grid=(2, 2), groups=groups, relations=relations, symbols=(2, 3, 4)),
    )
    config = RecursiveConfig(
        hidden_size=8, mixer="relations" if relations else "groups", symbols=True, positions="none", num_heads=1,
        expansion=1, puzzle_emb_len=0, h_cycles=1, l_cycles=2, num_layers=1, states=1, gradient="all-cycles",
    )  # fmt: skip
    return shaken(build_model(config, shape)), config.constraints(shape)


def test_a_constraint_that_the_run_did_not_have_says_nothing_at_first() -> None:
    (old, had), (new, has) = of_constraints(LINES), of_constraints(LINES, DIAGONAL, LESS)
    new.load_state_dict(moved(old.state_dict(), new.state_dict(), had, has))
    batch = random_batch(2, 4, 5)
    for a, b in zip(unroll(new, batch, 2), unroll(old, batch, 2), strict=True):
        torch.testing.assert_close(a.logits, b.logits)


def test_messages_follow_the_names_of_constraints() -> None:
    """A run on rows, columns and boxes begins one of boxes and rows: each keeps its weights, columns are left out."""
    (old, had), (new, has) = (
        of_constraints(LINES | {"box": (0,) * 4}, LESS),
        of_constraints({"box": (0,) * 4, "row": LINES["row"]}, DIAGONAL, LESS),
    )
    before, after = old.state_dict(), moved(old.state_dict(), new.state_dict(), had, has)
    assert after.keys() == new.state_dict().keys()
    layer = "f_l.blocks.0.mixer."
    for now, then in (("relations.0", "relations.2"), ("relations.1", "relations.0")):
        assert torch.equal(after[f"{layer}{now}.weight"], before[f"{layer}{then}.weight"])
    for part in ("sums", "numbers", "answer"):
        assert torch.equal(after[f"{layer}messages.1.{part}.weight"], before[f"{layer}messages.0.{part}.weight"])
    assert torch.equal(after[f"{layer}own.weight"], before[f"{layer}own.weight"])


def test_a_run_begins_on_other_constraints_and_says_so(
    sudoku_4x4: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(sudoku_4x4, tmp_path / "other")
    for file in (tmp_path / "other").glob("*/dataset.json"):
        file.write_text(file.read_text().replace('"box"', '"region"'))
    words = [f"{key}={value}" for key, value in (NARROW | {"model.num_heads": "1"}).items()]
    first, second = str(tmp_path / "first"), str(tmp_path / "second")
    assert main(["train", "sudoku-9x9", f"data={sudoku_4x4}", f"run={first}", *words]) == 0
    capsys.readouterr()
    assert (
        main(["train", "sudoku-9x9", f"data={tmp_path / 'other'}", f"run={second}", f"init_from={first}", *words]) == 0
    )
    told = capsys.readouterr().out
    assert f"init_from={first}: messages that start at zero: region\n" in told
    assert f"init_from={first}: messages of the run that are left out: box\n" in told
