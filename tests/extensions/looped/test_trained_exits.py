"""Exits, readouts and penalties: trained one step, or refused at the start with the mend."""

from pathlib import Path

import numpy as np
import pytest
from conftest import make_set, trainer_of

from datasets_gen.layout import Split, write_dataset
from reason.cli.train import main as train
from reason.config.overrides import override, read_config
from reason.errors import ConfigError
from reason.presets import preset
from reason.runs.evaluation import evaluate_run
from reason.training.log import read_metrics

SMALL = {"model.hidden_size": "8", "model.num_heads": "2", "training.batch_size": "4"}
SMALL |= {"training.steps": "2", "training.log_every": "1"}
GATED = "blindspot-small-exit-weighted"

TRAINED = {
    "norm readout": ("sudoku-4x4", {"model.readout": "norm"}),
    "norm penalty": ("sudoku-4x4", {"loss.weights.norm_penalty": "0.01", "model.dt": "0.5"}),
    "looped, stage I": ("blindspot-small-exit-weighted", {}),
    "looped, both stages at once": ("blindspot-small-exit-weighted", {"loss.weights.exit_gate": "1"}),
    "looped, random loops": (
        "blindspot-small-exit-weighted", {"rollout.loops.distribution": "uniform", "rollout.loops.max": "5"}),
    "looped, not causal": ("blindspot-small-exit-weighted", {"model.causal": "false"}),
    "looped, final-only": ("blindspot-small-final-only", {}),
    "looped, penalty": ("blindspot-small-penalty", {}),
}  # fmt: skip


@pytest.mark.parametrize("name", TRAINED)
def test_it_trains(name: str, tmp_path: Path) -> None:
    chosen, changes = TRAINED[name]
    shape = preset(chosen).shape
    config = override(preset(chosen).config(), SMALL | changes | {"data.directory": str(tmp_path / "set")})
    tokens = np.random.default_rng(0).integers(1, shape.vocab_size, (8, shape.seq_len))
    task = {"causal": getattr(config.model, "causal", False)}
    write_dataset(tmp_path / "set", {"train": Split.of_puzzles(tokens, tokens)}, task=task, vocab_size=shape.vocab_size)
    trainer_of(config, tmp_path / "run").train()
    lines = read_metrics(tmp_path / "run")
    assert len(lines) == 2
    assert all(np.isfinite(line[f"loss/{term}"]) for line in lines for term in config.loss.present)


REFUSED = {
    "no gate": ("blindspot-small-per-loop-norm", {"loss.weights.exit_gate": "1"},
                "needs an exit gate, .*: type model.gate=position"),
    "a family without gates": ("sudoku-4x4", {"loss.weights.exit_gate": "1"},
                               "needs an exit gate, .*: type loss.weights.exit_gate=0"),
    "two loops": (GATED, {"rollout.loops.count": "2"}, "rollout.loops.count=4"),
    "last loop only": ("blindspot-small-terminal-norm", {"model.gate": "position", "loss.weights.exit_gate": "1"},
                       "rollout.loops.supervision=per-loop"),
    "stage II from nothing": (GATED, {"model.only": "gate"}, "type init_from=RUN"),
    "stage II without its loss": ("blindspot-small-per-loop-norm", {"init_from": "x", "model.only": "gate"},
                                  "loss.weights.exit_gate=1"),
    "never final": ("blindspot-small-final-only", {"model.final_from": "6"}, "type model.final_from=4"),
    "final in which step": ("blindspot-small-final-only",
                            {"rollout.supervision_steps": "2", "rollout.accum_steps": "2",
                             "rollout.carry": "same-batch"},
                            "type rollout.supervision_steps=1"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused(name: str) -> None:
    chosen, changes, text = REFUSED[name]
    with pytest.raises(ConfigError, match=text):
        override(preset(chosen).config(), changes)


def test_from_the_command_line(here: Path) -> None:
    """Stage I, stage II from its run, and an evaluation that reads exits, caches and the blind spot."""
    make_set("addition --digits 2 --train 40 --test 12", here / "set")
    small = [f"{key}={value}" for key, value in SMALL.items()]
    assert train(["ouro-small-stage-1", "data=set", "run=one", *small]) == 0
    assert train(["ouro-small-stage-2", "data=set", "run=two", "init_from=one", *small]) == 0
    pairs = {"evaluation.blind_spot": "true", "evaluation.caches": "true", "evaluation.batch_size": "5"}
    results, _ = evaluate_run(Path("two"), override(read_config("two/config.json"), pairs))
    found = results["exits"]
    assert sum(found["p"]) == pytest.approx(1)
    assert [row["exact"] for row in found["fixed"]] == results["exact_by_step"][:4]
    assert [row["mean_loops"] for row in found["fixed"]] == [1, 2, 3, 4]
    means = [row["mean_loops"] for row in found["gate"]]
    assert means == sorted(means)
    assert 1 <= means[0] <= means[-1] <= 4
    assert len(results["caches"]) == 7
    rows = {row["cache"]: row for row in results["caches"] if not row["keep_prompt"]}
    assert rows["per-loop"]["exact"] == results["exact_by_step"][3]  # greedy is teacher-forced
    assert rows["per-loop"]["bytes"] == 4 * rows["mean"]["bytes"]
    assert results["blind_spot"]["puzzles"] == 12
