"""No dead settings: what a table's row states changes what is trained, or is refused."""

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import numpy as np
import pytest
import torch
from conftest import output

from datasets_gen.layout import Split, write_dataset
from reason.config.overrides import Changes, _field, derive, leaves
from reason.config.schema import Config
from reason.data import PuzzleData, TrainingSets
from reason.errors import ConfigError
from reason.models import RecursiveModel
from reason.models.base import Batch
from reason.models.recursive import RecursiveState
from reason.presets import TABLES, preset
from reason.presets.tables import PaperTable
from reason.runs.build import build_trainer

STEPS = 3  # of the optimizer
SMALL: Changes = {
    "device": "cpu",
    "init_from": None,
    "model.hidden_size": 8,
    "model.num_heads": 2,
    "model.expansion": 1.0,
    "model.dropout": 0.0,
    "optimizer.lr": 1e-2,
    "optimizer.schedule.warmup_steps": 0,
    "training.steps": STEPS,
    "training.batch_size": 6,  # of 8: some of each half of the set
    "model.only": "all",
    "training.compile": "none",
    "training.precision": "fp32",
    "training.monitor.puzzles": 0,
}
AT_MOST = {
    "model.num_layers": 2,
    "model.h_cycles": 2,
    "model.l_cycles": 2,
    "model.puzzle_emb_len": 1,
    "model.final_from": 2,
    "rollout.supervision_steps": 3,
    "rollout.accum_steps": 2,
    "rollout.grad_steps": 2,
    "rollout.loops.count": 3,
    "rollout.loops.start": 1,
    "rollout.loops.mu": 0.7,
    "rollout.loops.mean": 2.0,
    "rollout.loops.max": 6,
    "loss.jsrr.rows": 3,
    "loss.jsrr.iterations": 2,
    "optimizer.schedule.start": 0.5,
    "optimizer.schedule.end": 0.95,  # epochs of 8 puzzles, a step has 6
    "optimizer.freeze_embedding_after": 0.5,
}


def miniature(config: Config, **more: object) -> Config:
    """The config in small: the same things are on, and warm-ups, epochs and schedules are over within three steps."""
    values = leaves(config.model_dump())
    changes: Changes = {key: value for key, value in SMALL.items() if key in values}
    for key, most in AT_MOST.items():
        if isinstance(values.get(key), int | float) and values[key] > most:
            changes[key] = type(values[key])(most)
    schedules = config.model_dump()["loss"]["schedules"]
    changes["loss.schedules"] = {
        name: bent | {"points": tuple((min(at, max(i, 1)), share) for i, (at, share) in enumerate(bent["points"]))}
        for name, bent in schedules.items()
    }
    return derive(config, changes | more)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Config], list[torch.Tensor]]:
    """Weights and averages after three optimizer steps on nine cells, rows with more and with fewer labels.

    The halting head starts from random weights and biases at which half of the puzzles halt after a step, and F_H from
    larger weights, so that its trace is on both sides of 1; a config that was trained before is remembered.
    """
    folder, known = tmp_path_factory.mktemp("unused"), {}
    sets = {}
    for causal in (False, True):
        rng = np.random.default_rng(0)
        inputs, labels = rng.integers(1, 6, (2, 8, 9))
        labels[np.arange(9) < rng.integers(1, 6, (8, 1))] = 0  # not scored
        write_dataset(
            folder / f"{causal}", {"train": Split.of_puzzles(inputs, labels)}, task={"causal": causal}, vocab_size=6
        )
        sets[causal] = TrainingSets([PuzzleData(folder / f"{causal}", "train")])

    def train(config: Config) -> list[torch.Tensor]:
        key = json.dumps(config.model_dump(exclude={"name", "data", "evaluation"}), default=str)
        if key not in known:
            trainer = build_trainer(config, folder, sets[getattr(config.model, "causal", False)])
            if isinstance(trainer.model, RecursiveModel):
                with torch.no_grad():
                    trainer.model.networks()[-1].output.mul_(3)
                    halt_half(trainer.model, trainer.data.parts[0].take(torch.arange(8)))
            for _ in range(STEPS):
                trainer.optimizer_step()
            averaged = {} if trainer.ema is None else trainer.ema.state_dict()
            known[key] = [t.detach().clone() for t in (*trainer.model.state_dict().values(), *averaged.values())]
        return known[key]

    return train


def halt_half(model: RecursiveModel, batch: Batch) -> None:
    """Random weights for the halting head, and biases at which half of the puzzles halt after a step."""
    model.q_head.weight.normal_(generator=torch.Generator().manual_seed(2))
    model.q_head.bias.zero_()
    x = model.encode(batch)
    step, pair = model.map(model.initial_state(x), x, "step")  # without noise
    read = model.readout(RecursiveState(*step(pair)[:, [0, -1]].unbind(1)), x)
    model.q_head.bias.copy_(-torch.stack([read.q_halt.quantile(0.5), read.q_continue.quantile(0.5)]))


def same(a: list[torch.Tensor], b: list[torch.Tensor]) -> bool:
    return len(a) == len(b) and all(x.shape == y.shape and torch.equal(x, y) for x, y in zip(a, b, strict=True))


OTHERS: dict[str, list[object]] = {  # where the next value of the type would not do
    "model.expansion": [100.0],
    "model.num_heads": [1, 4],
    "model.mixer": [{"model.mixer": "mlp", "model.positions": "none"}, {"model.mixer": "attention"}],
    "model.final_norm": ["rmsnorm", "simple"],
    "model.sigma": [0.3],
    "loss.schedules": [
        {"lm": {"kind": "piecewise", "points": ((1, 0.5),)}},
        {"exit": {"kind": "piecewise", "points": ((1, 0.5),)}},
    ],
    "loss.jsrr.rows": [2],
    "loss.trace.rows": [2],
    "balance.targets": [{"lm": 5.0}],
    "optimizer.betas": [(0.5, 0.5)],
    "optimizer.eps": [0.01],
    "optimizer.grad_clip": [1e-3],
    "optimizer.freeze_embedding_after": [0.4, None],
    "optimizer.schedule.end": [1.0, 2.0],
    "optimizer.schedule.after": [0.9],
    "optimizer.schedule.points": [((0, 0.5),)],
    "ema.decay": [0.05],
    "rollout.halt_exploration_prob": [1.0],
    "rollout.loops.max": [1],
    "rollout.loops.start": [0, 2, 3],
    "training.monitor.every": [1],
    "training.precision": ["bf16"],
}
ELSEWHERE = {  # what three steps on one set cannot show, and where it is shown
    "init_from": "tests/training/test_warm_start.py",
    "model.only": "tests/extensions/looped/test_stages.py",
    "training.steps": "the length of the run",
    "training.compile": "tests/training/test_compiling.py: the same numbers up to rounding",
    "data.directory": "the set",
    "data.augment": "tests/test_data.py: a set without symmetries has nothing to augment",
    "data.hints": "tests/test_data.py: a set without symbols has nothing to fill in",
    "data.marks": "tests/test_marks.py: a set without mazes has no marks",
    "model.kind": "another family",
    "device": "where it is computed",
}


SILENT = {  # what a row may state though it changes no number
    "model.gradient_checkpointing": "the same numbers are computed again",
    "loss.weights.rh_stable_z": "0 wherever tr J/K ≤ 1, as it is in every recursive model here at the start",
    "loss.weights.rh_unstable_x": "0 wherever tr J/K ≥ 1, as it is where the residual stream is not normalised",
}


def accepted(config: Config, changes: Iterable[Changes]) -> Iterator[Config]:
    """The config with each of the changes that it does not refuse."""
    for each in changes:
        try:
            changed = derive(config, each)
        except ConfigError:
            continue
        if changed != config:
            yield changed


def others(config: Config, key: str) -> Iterator[Config]:
    """The config with other values of a setting, those that it accepts."""
    value = leaves(config.model_dump(), "").get(key)
    if value is None and key not in OTHERS:
        value = config.model_dump()
        for part in key.split("."):
            value = value[part]
    tried = OTHERS.get(key) or _next(key, value, config)
    yield from accepted(config, (each if isinstance(each, dict) and key in each else {key: each} for each in tried))


def _next(key: str, value: Any, config: Config) -> list[object]:
    field = _field(key.split("."), config.model.kind)
    kind = None if field is None else field.annotation
    literal = next((each for each in (kind, *get_args(kind)) if get_origin(each) is Literal), None)
    if literal is not None:
        return [each for each in get_args(literal) if each != value]
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, value + 2, max(1, value - 1)]
    if isinstance(value, tuple):
        return []
    return [f"{value} "] if isinstance(value, str) else [] if value is None else [3 * value + 0.1, value / 3]


def pairs(tables: tuple[PaperTable, ...]) -> Iterator[tuple[str, str]]:
    for table in tables:
        for row in table.rows:
            for key in row.changes:
                if key not in ELSEWHERE:
                    yield table.preset_name(row), key


ALL = list(pairs(TABLES))
FIRST = {
    (name.rsplit("-", 1)[0] if name.startswith("cmm") else name.split("-")[0], key): (name, key)
    for name, key in reversed(ALL)
}.values()


@pytest.mark.parametrize(
    ("name", "key"), [pytest.param(*pair, marks=() if pair in FIRST else pytest.mark.slow) for pair in ALL]
)
def test_a_stated_setting_changes_what_is_trained(name: str, key: str, trained: Callable) -> None:
    """Another value trains other weights, or is refused."""
    config = miniature(preset(name).config())
    changed = list(others(config, key))
    if key.startswith("loss.weights.") and config.balance.kind != "fixed":  # under a balancer a term is there or not
        changed = list(accepted(config, [{key: 0.0}]))
    if any(not same(trained(config), trained(other)) for other in changed):
        return
    assert not changed or key in SILENT, f"{name}: {key} is stated and does nothing"


def test_what_is_typed_and_does_nothing_is_said(tmp_path: Path, sudoku_4x4: Path) -> None:
    words = ["train", "sudoku-4x4", f"data={sudoku_4x4}", f"run={tmp_path / 'run'}", "training.steps=1"]
    told = output([*words, "model.sigma=0.5", "optimizer.lr=1e-3", "loss.trace.rows=4"])
    assert [line for line in told.splitlines() if "changes nothing" in line] == [
        "model.sigma=0.5 changes nothing in this training: model.noise=none",
        "loss.trace.rows=4 changes nothing in this training: no rh_unstable_x or rh_stable_z in this loss, to use it",
    ]
