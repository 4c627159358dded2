"""The library: loads or trains a reasoner, steps through it, evaluates it and solves with it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from datasets_gen.layout import DatasetError, Metadata, Split, read_metadata, splits_of, write_dataset
from datasets_gen.structure import Structure
from reason.config.describe import refuse_unreadable
from reason.config.overrides import derive, flattened
from reason.config.schema import Config
from reason.data.puzzles import PuzzleData, shape_of
from reason.errors import ConfigError
from reason.models.base import IGNORE, Batch, Reasoner
from reason.presets import preset
from reason.rollout import StepRecord, unroll
from reason.runs.build import resume as resume_run
from reason.runs.build import start
from reason.runs.directory import accept_shape, load_run, run_and_config
from reason.runs.evaluation import evaluate_run
from reason.solve import SECONDS, solve_text
from reason.training.device import own_float32, pick_device
from reason.training.log import read_metrics
from reason.training.loop import Trainer

ONE_AT_A_TIME = threading.RLock()  # guards calls that draw from torch's generators


class Dataset:
    """A puzzle set in its folder (docs/data.md)."""

    def __init__(self, directory: Path | str):
        self.directory = Path(directory)

    @classmethod
    def from_arrays(
        cls,
        directory: Path | str,
        *,
        train: tuple[ArrayLike, ArrayLike],
        test: tuple[ArrayLike, ArrayLike] | None = None,
        validation: tuple[ArrayLike, ArrayLike] | None = None,
        vocab_size: int | None = None,
        task: Mapping[str, Any] | None = None,
        structure: Structure | None = None,
    ) -> Dataset:
        """Write a set from (inputs, labels) of each split, tokens (N, S); a label of -100 is not scored.

        vocab_size: the largest token + 1 unless given. task: {"name": "sudoku", "size": 9} for a known family;
        else the set trains without rules and drawings. structure: grid, groups and symbols without a family.

        Raises DatasetError if the folder is not empty, or the arrays are not of one shape or hold other tokens.
        """
        given = {"train": train, "validation": validation, "test": test}
        splits = {name: _split(name, *arrays) for name, arrays in given.items() if arrays is not None}
        widths = {name: split.inputs.shape[1] for name, split in splits.items()}
        if len(set(widths.values())) > 1:
            raise DatasetError(f"splits of different lengths: {widths}; all must be (N, S) with one S")
        largest = max(int(a.max(initial=0)) for split in splits.values() for a in (split.inputs, split.labels))
        vocab_size = largest + 1 if vocab_size is None else vocab_size
        if largest >= vocab_size:
            raise DatasetError(f"token {largest} with vocab_size={vocab_size}; {largest + 1} or more is needed")
        if fault := structure and structure.fault(next(iter(widths.values()), 0), vocab_size):
            raise DatasetError(f"structure: {fault}")
        write_dataset(
            directory, splits, task=task or {}, vocab_size=vocab_size, ignore_label_id=None, structure=structure
        )
        return cls(directory)

    @property
    def splits(self) -> list[str]:
        """Return the names of the splits."""
        return splits_of(self.directory)

    @property
    def metadata(self) -> Metadata:
        """Return dataset.json of the first split. Raises DatasetError if the folder has no set."""
        return read_metadata(self.directory, next(iter(self.splits), "train"))

    def batch(self, split: str = "test", rows: int | None = None, device: torch.device | str = "cpu") -> Batch:
        """Return the first `rows` examples of a split, or all of them."""
        data = PuzzleData(self.directory, split, pick_device(str(device)))
        return data.take(torch.arange(len(data), device=data.device)[:rows])


def _split(name: str, *arrays: ArrayLike) -> Split:
    inputs, labels = map(np.asarray, arrays)
    if inputs.ndim != 2 or inputs.shape != labels.shape or {inputs.dtype.kind, labels.dtype.kind} - {"i", "u"}:
        given = f"{inputs.dtype} {inputs.shape} and {labels.dtype} {labels.shape}"
        raise DatasetError(f"{name}: inputs and labels are whole numbers, both (N, S); got {given}")
    if inputs.min(initial=0) < 0 or ((labels < 0) & (labels != IGNORE)).any():
        raise DatasetError(f"{name}: tokens are 0 or more, and a label of {IGNORE} is not scored")
    return Split.of_puzzles(inputs, labels)


@dataclass(frozen=True)
class Run:
    """A trained reasoner and its run directory."""

    directory: Path
    config: Config = field(repr=False)
    model: Reasoner = field(repr=False)  # in evaluation mode, its weights without gradient
    step: int  # optimizer steps of the weights
    weights: str  # "ema" or "raw"

    def batch(self, inputs: ArrayLike, labels: ArrayLike | None = None, identifiers: ArrayLike | None = None) -> Batch:
        """Put puzzles (B, S), or one (S,), on the model's device; without labels nothing is scored.

        Raises ConfigError if they are not tokens of the model, or not of one shape.
        """
        device, most = next(self.model.parameters()).device, self.model.shape.vocab_size
        tokens = _tokens("inputs", inputs, most, device)
        answers = torch.full_like(tokens, IGNORE) if labels is None else _tokens("labels", labels, most, device)
        if answers.shape != tokens.shape:
            raise ConfigError(f"labels of shape {tuple(answers.shape)} for inputs of shape {tuple(tokens.shape)}")
        rows = torch.zeros(len(tokens), dtype=torch.int64, device=device)
        return Batch(tokens, answers, rows if identifiers is None else torch.as_tensor(identifiers).to(rows))

    def accept(self, data: Dataset | Path | str) -> None:
        """Accept puzzles of a set's size, too. Raises ConfigError if a weight is bound to another size."""
        dataset = data if isinstance(data, Dataset) else Dataset(data)
        accept_shape(self.model, shape_of(dataset.metadata), dataset.directory, self.directory)

    def steps(self, puzzles: Batch | ArrayLike, count: int | None = None) -> Iterator[StepRecord]:
        """Yield `count` supervision steps (default: twice the trained ones) of a batch, or of tokens (B, S).

        Each record has `logits`, `answer`, `exact`, `q_halt`, `state`, `before`, `context` and more
        (`reason.rollout.StepRecord`).

        Raises ConfigError if the puzzles are not tokens of the model.
        """
        batch = puzzles if isinstance(puzzles, Batch) else self.batch(puzzles)
        device = next(self.model.parameters()).device
        batch = batch.each(lambda tensor: tensor.to(device))
        return unroll(self.model, batch, 2 * self.config.rollout.trained_steps if count is None else count)

    def solve(
        self, puzzle: str | ArrayLike, steps: int | None = None, restarts: int | None = None, seconds: float = SECONDS
    ) -> dict[str, Any]:
        """Solve one puzzle step by step; return what `reason solve --json` prints.

        puzzle: as a person types it, or rows of its cells' characters or digits, 0 or None for an open cell.
        """
        if not isinstance(puzzle, str):
            rows = np.asarray(puzzle, object)
            if not rows.ndim:
                raise ConfigError(f"a puzzle is text, or rows of cells; got {type(puzzle).__name__}")
            puzzle = "\n".join("".join(map(_character, np.ravel(row))) for row in rows)
        with _torch_as_it_was():
            solution = solve_text(self.directory, self.model, self.config, puzzle, steps, restarts, seconds)
        return solution.describe() | solution.exact_entry() | {"run": self.directory.resolve().name}

    def evaluate(
        self,
        data: Dataset | Path | str | None = None,
        *,
        steps: int | None = None,
        split: str | None = None,
        name: str | None = None,
        **settings: Any,
    ) -> dict[str, Any]:
        """Evaluate (docs/evaluation.md): write results.json to the run's folder, as evaluate.py does, and return it.

        settings: sections of the config, `evaluation={"studies": ["policies"]}`, `model={"integrator": "rk4"}`; the
        arguments of `load` (settings, device, weights) also apply here.
        """
        named = {"evaluation.steps": steps, "evaluation.split": split, "data.directory": _directory(data)}
        changes = flattened(settings) | {key: value for key, value in named.items() if value is not None}
        if self.weights == "raw" and self.config.ema.decay is not None:
            changes = {"evaluation.weights": "raw"} | changes
        refuse_unreadable(changes)
        with _torch_as_it_was():
            return evaluate_run(self.directory, derive(self.config, changes), name)[0]

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """Return the records of metrics.jsonl."""
        return read_metrics(self.directory)


def load(source: Path | str, *, device: str = "auto", weights: str = "auto", **settings: Any) -> Run:
    """Load a run: a folder, an archive (unpacked into runs/), a model of the package, or hf:OWNER/NAME.

    weights: "ema", "raw" or "auto" (the average if there is one). settings: sections of the config, of what may
    change after training: `model={"h_cycles": 4}`.

    Raises ConfigError if there is no such run, it is damaged, or a setting cannot change for a trained model.
    """
    changes = flattened(settings)
    refuse_unreadable(changes)
    run, run_config = run_and_config(source)
    config = derive(run_config, changes | {"device": device})
    with _torch_as_it_was():
        trained = load_run(run, pick_device(device), config, weights)
    return Run(run, config, trained.model.requires_grad_(False), trained.step, trained.weights)


def train(
    config: Config | str,
    *,
    data: Dataset | Path | str | Mapping[str, Any] | None = None,
    run: Path | str | None = None,
    max_steps: int | None = None,
    max_minutes: float | None = None,
    **settings: Any,
) -> Run:
    """Train a preset or a config, as train.py does, in a new run directory: `run`, or runs/NAME-N.

    data: a set, or settings of this section, `data={"augment": False}`; without a set, the config's is used, and
    generated if it is missing. settings: sections of the config, `training={"steps": 100}`,
    `model={"h_cycles": 1}`, `seed=1`. torch's generators are left as they were.

    Raises ConfigError or DatasetError if the run exists already, or a setting, the set or the machine does not fit.
    """
    base = preset(config).config() if isinstance(config, str) else config
    settings["data"] = data if isinstance(data, Mapping) else {"directory": _directory(data)} if data else {}
    changes = flattened(settings)
    make = "data.directory" not in changes
    with contextlib.ExitStack() as stack, _torch_as_it_was():
        trainer = start(derive(base, changes), None if run is None else Path(run), stack, make_data=make)
        return _trained(trainer, max_steps, max_minutes)


def resume(run: Path | str, *, max_steps: int | None = None, max_minutes: float | None = None, **settings: Any) -> Run:
    """Continue training from a run's newest checkpoint, with the same numbers as if it had never stopped.

    Raises ConfigError or DatasetError if the run is finished, has no checkpoint, or a setting may not change.
    """
    with contextlib.ExitStack() as stack, _torch_as_it_was():
        return _trained(resume_run(Path(run), flattened(settings), stack), max_steps, max_minutes)


@contextlib.contextmanager
def _torch_as_it_was() -> Iterator[None]:
    """Restore torch's generators and its precision of float32 products after the block.

    Both belong to the process, so only one thread at a time runs the block.
    """
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_available() else []
    with ONE_AT_A_TIME, torch.random.fork_rng(devices), own_float32():
        yield


def _trained(trainer: Trainer, max_steps: int | None, max_minutes: float | None) -> Run:
    trainer.train(max_steps, max_minutes)
    return load(trainer.run, device=str(trainer.device))


def _character(cell: Any) -> str:
    """Return a cell as it is typed: a whole number by its digits; None, NaN, -1 and "" are open."""
    if cell in (None, "", -1) or cell != cell:
        return "."
    return str(int(cell)) if isinstance(cell, float | np.floating) and cell.is_integer() else str(cell)


def _directory(data: Dataset | Path | str | None) -> str | None:
    return None if data is None else str(data.directory if isinstance(data, Dataset) else data)


def _tokens(what: str, values: ArrayLike | Tensor, vocab_size: int, device: torch.device) -> Tensor:
    """Return tokens as a tensor (B, S) int64. Raises ConfigError if they are not tokens of the model."""
    try:
        array = values.cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)
    except ValueError as error:  # rows of several lengths
        raise ConfigError(f"{what}: tokens (B, S) are needed ({error})") from None
    if array.ndim not in (1, 2) or not array.size or not np.issubdtype(array.dtype, np.integer):
        raise ConfigError(f"{what}: whole numbers (B, S) are needed, got {array.dtype} {array.shape}")
    strange = array[((array < 0) & ((array != IGNORE) | (what == "inputs"))) | (array >= vocab_size)]
    if strange.size:
        raise ConfigError(f"{what}: token {strange[0]} is outside the model's 0..{vocab_size - 1}")
    return torch.from_numpy(np.atleast_2d(array).astype(np.int64)).to(device)
