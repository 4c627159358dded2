"""reason bench: time of a training step, variants measured in turns."""

from __future__ import annotations

import argparse
import itertools
import re
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from tqdm import tqdm

import reason.settings.capabilities as can
from datasets_gen.layout import Split, write_dataset
from reason.config.overrides import derive, override, split_arguments
from reason.config.schema import Config
from reason.errors import ConfigError
from reason.models.base import Shape
from reason.presets import preset
from reason.runs.build import build_trainer, load_training_set
from reason.training.device import pick_device
from reason.training.loop import Trainer

DESCRIPTION = """Puzzle-steps per second of whole optimizer steps (batch, forward, backward, update, EMA)
on random puzzles of the preset's shape. Values separated by commas are variants, measured in turns, so that
other load on the machine affects all of them; ratios are more reliable than absolute numbers.

  reason bench sudoku-6x6
  reason bench sudoku-6x6 training.precision=fp32,bf16 training.compile=none,inductor
  reason bench trm-mlp-sudoku training.batch_size=16 --rounds 3"""


def main(argv: list[str]) -> int:
    """Time every variant and print the table."""
    parser = argparse.ArgumentParser(
        prog="reason bench", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("words", nargs="+", metavar="PRESET | section.key=value[,value…]")
    parser.add_argument("--rounds", type=int, default=5, help="turns; the median over them is shown (default 5)")
    parser.add_argument("--steps", type=int, default=4, help="optimizer steps in a turn (default 4)")
    arguments = parser.parse_intermixed_args(argv)
    words, pairs = split_arguments(arguments.words)
    if arguments.rounds < 1 or arguments.steps < 1:
        raise ConfigError(f"--rounds {arguments.rounds} --steps {arguments.steps}: both must be at least 1")
    if len(words) != 1:
        raise ConfigError(f"one preset is needed, got {' '.join(words) or 'none'}; see: reason presets")
    chosen = preset(words[0])
    choices = [[(key, value) for value in re.split(r",(?![^\[]*\])", values)] for key, values in pairs.items()]
    variants = [dict(variant) for variant in itertools.product(*choices)]
    configs = [override(chosen.config(), variant) for variant in variants]
    with tempfile.TemporaryDirectory() as folder:
        trainers = [_trainer(config, chosen.shape, Path(folder) / str(i)) for i, config in enumerate(configs)]
        seconds = _measure(trainers, arguments.rounds, arguments.steps)
    view = Table(title=f"{chosen.name}: optimizer steps", title_justify="left")
    for column in ("variant", "ms / step", "puzzle-steps / s", "speed"):
        view.add_column(column, justify="left" if column == "variant" else "right")
    for variant, trainer, median in zip(variants, trainers, seconds, strict=True):
        rows = trainer.config.training.batch_size * trainer.config.rollout.grad_steps
        name = " ".join(f"{key.rsplit('.')[-1]}={value}" for key, value in variant.items()) or "preset"
        first_rows = trainers[0].config.training.batch_size * trainers[0].config.rollout.grad_steps
        speed = (rows / median) / (first_rows / seconds[0])
        view.add_row(name, f"{1e3 * median:.1f}", f"{rows / median:,.0f}", f"{speed:.2f} ×")
    Console().print(view)
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, {trainers[0].device}")
    return 0


def _trainer(config: Config, shape: Shape, folder: Path) -> Trainer:
    tokens = np.random.default_rng(0).integers(1, shape.vocab_size, (2048, shape.seq_len))
    task = {"causal": config.model.has(can.CAUSAL)}
    split = Split.of_puzzles(tokens, tokens)
    write_dataset(folder, {"train": split}, task=task, vocab_size=shape.vocab_size, structure=shape.structure)
    config = derive(config, {"data.directory": str(folder)})
    return build_trainer(config, folder, load_training_set(config, pick_device(config.device)))


def _measure(trainers: list[Trainer], rounds: int, steps: int) -> list[float]:
    """Median seconds per optimizer step of each trainer, after two warm-up steps."""
    seconds: list[list[float]] = [[] for _ in trainers]
    for trainer in trainers:
        trainer.optimizer_step()
        trainer.optimizer_step()
    for _ in tqdm(range(rounds), unit="round", desc="measuring", leave=False):
        for trainer, times in zip(trainers, seconds, strict=True):
            _wait(trainer)
            started = time.perf_counter()
            for _ in range(steps):
                trainer.optimizer_step()
            _wait(trainer)
            times.append((time.perf_counter() - started) / steps)
    return [float(np.median(times)) for times in seconds]


def _wait(trainer: Trainer) -> None:
    if trainer.device.type == "cuda":
        torch.cuda.synchronize(trainer.device)
