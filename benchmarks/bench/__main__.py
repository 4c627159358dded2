"""Speed of training and evaluation: variants and the authors' code in turns; minutes to an accuracy."""

from __future__ import annotations

import argparse
import itertools
import json
import platform
import re
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from benchmarks.bench.original import original_step
from benchmarks.bench.timing import PEAK, Spread, Turn, flops_of, gemm, in_turns
from datasets_gen.layout import Split, write_dataset
from datasets_gen.typed import Parser
from reason.cli import guarded
from reason.config.overrides import derive, override, split_arguments
from reason.config.schema import Config
from reason.errors import ConfigError
from reason.extensions.memory.estimate import estimate_memory
from reason.files import published, readable_size
from reason.models.base import Context, Shape, State
from reason.plugins import extension
from reason.presets import Preset, preset
from reason.rollout import unroll
from reason.runs.build import build_trainer
from reason.runs.sets import load_training_set
from reason.training.accelerate import fused
from reason.training.device import pick_device
from reason.training.loop import Trainer
from reason.training.precision import dtypes
from reason.version import __version__

STEPS = 16  # T of the evaluation that is timed
DESCRIPTION = """Puzzle-steps per second of whole optimizer steps (batch, forward, backward, update, EMA), and puzzles
per second of an evaluation at T = 16, on random puzzles of the preset's shape. Values separated by commas are variants,
measured in turns, so that other load on the machine affects all of them; ratios to the first are more reliable than
absolute numbers, and stand with their least, median and greatest. "of peak" is the share of a large matrix product of
the same type that is timed in the same turns; FLOPs are counted from shapes. "all steps": the preset's training at this
speed, without compiling and reading.

  python -m benchmarks.bench sudoku-6x6
  python -m benchmarks.bench sudoku-6x6 maze-10x10 training.precision=fp32,bf16 --json bench.json
  python -m benchmarks.bench trm-mlp-sudoku training.batch_size=16 --rounds 3 --original ~/TinyRecursiveModels"""


class Variant(NamedTuple):
    """A preset with settings of its own."""

    chosen: Preset
    settings: Mapping[str, str]

    @property
    def name(self) -> str:
        """For tables."""
        typed = " ".join(f"{key.rsplit('.')[-1]}={value}" for key, value in self.settings.items())
        return f"{self.chosen.name} {typed}".strip()

    @property
    def config(self) -> Config:
        """Its config."""
        return override(self.chosen.config(), self.settings)


def main(argv: list[str]) -> int:
    """Time every variant, print the table, write the JSON."""
    parser = Parser(prog="python -m benchmarks.bench", description=DESCRIPTION)
    parser.add_argument("words", nargs="+", metavar="PRESET | section.key=value[,value…]")
    parser.add_argument("--rounds", type=int, default=5, help="turns; the median over them is shown (default 5)")
    parser.add_argument("--steps", type=int, default=4, help="optimizer steps in a turn (default 4)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every number there")
    parser.add_argument("--original", type=Path, metavar="DIR", help="a checkout of the authors' TRM or HRM, timed too")
    parser.add_argument("--original-compiled", action="store_true", help="their code under torch.compile")
    parser.add_argument("--processor-time", action="store_true", help="of this process, not the clock: a busy machine")
    parser.add_argument("--training-only", action="store_true", help="without the evaluation at T = 16")
    arguments = parser.parse_intermixed_args(argv)
    words, pairs = split_arguments(arguments.words, {"data": "data.directory"})
    if "data.directory" in pairs:
        raise ConfigError(f"data={pairs['data.directory']} changes nothing: random puzzles are timed; drop it")
    if arguments.rounds < 1 or arguments.steps < 1:
        raise ConfigError(f"--rounds {arguments.rounds} --steps {arguments.steps}: both must be at least 1")
    if arguments.original_compiled and arguments.original is None:
        raise ConfigError("--original-compiled is of the authors' code: add --original DIR, a checkout of it")
    if not words:
        raise ConfigError("a preset is needed, got none; see: reason presets")
    if arguments.json is not None and (arguments.json.is_dir() or not arguments.json.parent.is_dir()):
        raise ConfigError(f"--json {arguments.json}: name a file in a folder that is there")
    choices = [[(key, value) for value in re.split(r",(?![^\[]*\])", values)] for key, values in pairs.items()]
    variants = [Variant(preset(word), dict(each)) for word in words for each in itertools.product(*choices)]
    varied = {key for key, values in zip(pairs, choices, strict=True) if len(values) > 1}
    devices = sorted({pick_device(variant.config.device) for variant in variants}, key=str)
    found = [row for device in devices for row in _on(device, variants, arguments)]
    Console().print(*_tables(found, varied))
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads")
    if arguments.json is not None:
        text = json.dumps({"machine": machine(), "results": found}, indent=1) + "\n"
        with published(arguments.json, replace=True) as part:
            part.write_text(text, encoding="utf-8")
        print(f"written to {arguments.json}")
    return 0


def machine() -> dict[str, Any]:
    """What the numbers depend on beside the code."""
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    threads = torch.get_num_threads()
    return {
        "version": __version__, "torch": torch.__version__, "python": platform.python_version(),
        "processor": torch.backends.cpu.get_cpu_capability(), "threads": threads, "gpu": gpu,
    }  # fmt: skip


def _on(device: torch.device, variants: list[Variant], arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """The variants of one device, in turns."""
    variants = [variant for variant in variants if pick_device(variant.config.device) == device]
    turns: dict[str, Turn] = {}
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for number, variant in enumerate(variants):
            held = torch.cuda.memory_allocated(device) if device.type == "cuda" else 0
            trainer = trainer_of(variant.config, variant.chosen.shape, Path(folder) / str(number))
            turns[variant.name] = Turn(trainer.run_step)
            if not arguments.training_only:
                graph = variant.config.training.compile == "graph"
                step = extension("graph", "capture").CapturedStep(trainer.model) if graph else None
                turns[f"{variant.name} evaluated"] = Turn(partial(evaluated, trainer, step), once=True)
            rows.append(_described(variant, trainer, held))
            products = trainer.model.products or trainer.model.dtype
            turn, flops = gemm(device, products)
            turns.setdefault(f"{PEAK} {products}", turn)
            rows[-1] |= {"gemm": f"{PEAK} {products}", "gemm_flops": flops}
            if arguments.original is not None:
                original = original_step(
                    arguments.original,
                    _config_of(trainer),
                    variant.chosen.shape,
                    trainer.model.dtype,
                    device,
                    arguments.original_compiled,
                )
                turns[f"{variant.name} original"] = Turn(original, torchs_own=True)
        clock = time.process_time if arguments.processor_time else time.perf_counter
        seconds = in_turns(turns, arguments.rounds, arguments.steps, device, clock)
    first = rows[0]["puzzle_steps"] / seconds[rows[0]["variant"]]
    for row in rows:
        _figures(row, seconds, first)
    return rows


def _config_of(trainer: Trainer) -> Config:
    """With what `auto` came to."""
    assert isinstance(trainer.config, Config)
    return trainer.config


def _described(variant: Variant, trainer: Trainer, held: int) -> dict[str, Any]:
    """What does not need turns: sizes, choices, FLOPs, memory."""
    config, shape, device = _config_of(trainer), variant.chosen.shape, trainer.device
    computed = dtypes(config.training.precision, device)
    peak = None
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        trainer.run_step()
        peak = torch.cuda.max_memory_allocated(device) - held
    return {
        "variant": variant.name,
        "preset": variant.chosen.name,
        "settings": dict(variant.settings),
        "device": str(device),
        "computed_in": trainer.model.computes_in,
        "compile": config.training.compile,
        "gradient_checkpointing": getattr(config.model, "gradient_checkpointing", False),
        "fused": fused(config.model) is True,
        "parameters": trainer.model.parameter_count(),
        "batch_size": config.training.batch_size,
        "optimizer_steps": config.training.steps,
        "puzzle_steps": config.training.batch_size * config.rollout.grad_steps,
        "flops": flops_of(config, shape),
        "memory_estimated": estimate_memory(config, shape, computed, device.type).total,
        "memory_peak": peak,
    }


def _figures(row: dict[str, Any], seconds: Mapping[str, np.ndarray], first: np.ndarray) -> None:
    """Add what the turns gave: medians, and ratios of every round."""
    own, rows = seconds[row["variant"]], row["puzzle_steps"]
    peak = row["gemm_flops"] / seconds[row["gemm"]]
    row |= {
        "seconds": Spread.of(own)._asdict(),
        "puzzle_steps_per_second": rows / float(np.median(own)),
        "training_minutes": row["optimizer_steps"] * float(np.median(own)) / 60,
        "ratio": Spread.of(rows / own / first)._asdict(),
        "gemm_flops_per_second": float(np.median(peak)),
        "share_of_peak": Spread.of(row["flops"] / own / peak)._asdict(),
    }
    if (read := seconds.get(f"{row['variant']} evaluated")) is not None:
        row["evaluated_per_second"] = row["batch_size"] / float(np.median(read))
    if (original := seconds.get(f"{row['variant']} original")) is not None:
        row["original_puzzle_steps_per_second"] = row["batch_size"] / float(np.median(original))
        row["ratio_to_original"] = Spread.of(original / row["batch_size"] / (own / rows))._asdict()


def _tables(rows: list[dict[str, Any]], varied: set[str]) -> list[Table]:
    """A table for training, one for evaluation and memory, and one beside the authors' code where it was timed."""
    parts = {
        "training": {
            "ms / step": lambda row: f"{1e3 * row['seconds']['median']:.1f}",
            "puzzle-steps / s": lambda row: f"{row['puzzle_steps_per_second']:,.0f}",
            "all steps": lambda row: f"{row['training_minutes']:,.1f} min",
            "speed": lambda row: f"{row['ratio']['median']:.2f} ×",
            "of peak": lambda row: f"{row['share_of_peak']['median']:.0%}",
        },
        f"evaluation at T {STEPS}, memory": {
            "puzzles / s": lambda row: f"{row['evaluated_per_second']:,.0f}" if "evaluated_per_second" in row else "–",
            "estimated": lambda row: readable_size(row["memory_estimated"]),
            "measured": lambda row: "–" if row["memory_peak"] is None else readable_size(row["memory_peak"]),
        },
    }
    if "ratio_to_original" in rows[0]:
        parts["beside the authors' code"] = {
            "theirs / s": lambda row: f"{row['original_puzzle_steps_per_second']:,.0f}",
            "ratio (least, median, greatest)": lambda row: " ".join(
                f"{v:.2f}" for v in row["ratio_to_original"].values()
            ),
        }
    views = []
    for title, columns in parts.items():
        view = Table(title=title, title_justify="left")
        view.add_column("variant")
        for column in columns:
            view.add_column(column, justify="right")
        for row in rows:
            typed = [f"{key.rsplit('.')[-1]}={value}" for key, value in row["settings"].items() if key in varied]
            compiled = [row["compile"]] if row["compile"] != "none" else []
            name = " ".join([row["preset"], *typed])
            how = ", ".join([row["device"], row["computed_in"], *compiled])
            view.add_row(f"{name} ({how})", *(cell(row) for cell in columns.values()))
        views.append(view)
    return views


def trainer_of(config: Config, shape: Shape, folder: Path) -> Trainer:
    """A trainer on 2,048 random puzzles of a shape; where it has walls, a third of their cells, as in mazes."""
    rng = np.random.default_rng(0)
    tokens = rng.integers(1, shape.vocab_size, (2048, shape.seq_len))
    if (wall := shape.structure.outside) is not None:
        free = np.setdiff1d(np.arange(1, shape.vocab_size), wall)
        tokens = np.where(rng.random(tokens.shape) < 1 / 3, wall, rng.choice(free, tokens.shape))
    task = {"causal": getattr(config.model, "causal", False)}
    split = Split.of_puzzles(tokens, tokens)
    write_dataset(folder, {"train": split}, task=task, vocab_size=shape.vocab_size, structure=shape.structure)
    config = derive(config, {"data.directory": str(folder)})
    return build_trainer(config, folder, load_training_set(config, pick_device(config.device)))


@torch.no_grad()
def evaluated(trainer: Trainer, step: Callable[[State, Context], State] | None) -> None:
    """T steps of a batch of puzzles, each read out, without gradient."""
    model, training = trainer.model, trainer.model.training
    model.eval()
    try:
        for record in unroll(model, trainer.carries[0].batch, STEPS, step=step):
            record.readout  # noqa: B018
    finally:
        model.train(training)


if __name__ == "__main__":
    sys.exit(guarded(main, sys.argv[1:]))
