"""Training on sets of several sizes at once, and reading any size with the weights of one."""

import pytest
from conftest import NARROW, make_set, output, pairs, refusal, trainer_of
from test_loop import resumes_to_the_bit

from reason.cli import main
from reason.config.overrides import override

LOCAL = "model.mixer=local model.q_from=mean model.puzzle_emb_len=0 model.positions=none"


@pytest.fixture(scope="module")
def mazes(tmp_path_factory):
    here = tmp_path_factory.mktemp("mazes")
    words = "maze --min-path 4 --train 20 --validation 5 --test 5 --size"
    return {size: make_set(f"{words} {size}", here / str(size)) for size in (4, 5, 7)}


def config_of(tiny, mazes, **changes):
    two = {"data.directory": f"{mazes[4]},{mazes[5]}", "model.noise": "additive", "loss.weights.equil_z": "0.1"}
    more = {"training.monitor.every": "2"}
    return override(tiny, pairs(LOCAL) | two | more | changes)


def test_batches_come_by_size_in_turn_and_each_size_keeps_its_own_carry(tiny, mazes, tmp_path):
    trainer = trainer_of(config_of(tiny, mazes), tmp_path)
    seen = []
    for _ in range(4):
        seen.append(trainer.carries[trainer.index % 2].batch.inputs.shape[1])
        trainer.optimizer_step()
    assert seen == [16, 25, 16, 25]
    assert [carry.state.z_h.shape[1] for carry in trainer.carries] == [16, 25]
    assert all(carry.steps.max() == 2 for carry in trainer.carries), "both went two steps"
    assert trainer.monitor.validate(trainer.model, trainer.ema, 4).puzzles == 10


@pytest.mark.parametrize(
    ("stop", "changes"), [(2, {}), (1, {"model.open_only": "true", "model.noise": "multiplicative"})], ids=str
)
def test_a_resumed_run_is_the_one_that_did_not_stop(stop, changes, tiny, mazes, tmp_path):
    resumes_to_the_bit(config_of(tiny, mazes, **changes), tmp_path, stop)


def test_a_run_on_two_sizes_evaluates_and_solves_a_third(mazes, tmp_path):
    run = tmp_path / "run"
    words = [*NARROW, *LOCAL.split(), "model.open_only=true"]
    assert main(["train", "sudoku-4x4", f"data={mazes[4]},{mazes[5]}", f"run={run}", *words]) == 0
    assert main(["evaluate", str(run), f"data={mazes[7]}", "steps=2"]) == 0
    output(["evaluate", str(run), "steps=2"], f"evaluated on {mazes[4]}; the run was trained on {mazes[5]} as well")
    for name in ("7-test-T2", "4-test-T2"):
        assert (run / "evaluation" / name / "results.json").exists()
    refusal(["evaluate", str(run), f"data={mazes[4]},{mazes[7]}"], f"one set at a time; type data={mazes[4]}")
    output(["solve", str(run), "S..#....G", "steps=1"], "step 1: ", status=None)
