"""The account of a step: FLOPs, bytes, the machine's peaks in the same turns, and the share of them that is reached.

    OMP_NUM_THREADS=1 python -m benchmarks.bench.account [--rounds 5] [--rows 16] [--json FILE]

A supervision step of sudoku-9x9 (D 32, 64, 128; all symbols) and maze-any (D 64, 128; 15×15, 30×30), of random puzzles:
networks compiled by torch, and the kernel of whole steps, in turns within one process; without a gradient, and forward
and backward. Walls are computed by torch, and left out by the kernel (`model.open_cells`). Processor time, since other
work may share the machine, and the clock beside it.

FLOPs are those of the products that the model asks for, of all cells; a backward pass has twice as many. Bytes are the
least that must pass beyond the caches: states, and with a gradient what the kernel keeps for it, written and read once.
The roofline is the longer of FLOPs at the peak of products and bytes at that of memory.

`python benchmarks/results.py write` puts docs/results/speed/account.json into docs/log/performance.md.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from benchmarks.bench.timing import Spread, gemm
from datasets_gen.maze import Maze
from datasets_gen.sudoku import Sudoku
from reason.config.overrides import derive
from reason.models import build_model
from reason.models.base import Batch, Shape
from reason.models.recursive import RecursiveModel
from reason.presets import preset
from reason.training.compiling import compile_networks
from reason.training.device import pick_device

PRECISIONS = {"bf16": torch.bfloat16, "fp32": torch.float32}
COPIED = 64 * 2**20  # float32 numbers of the array whose copy is the peak of memory
KINDS = {"products": ("mm", "conv", "linear"), "fused code": ("graph", "cpp_fused", "Compiled", "CompiledFxGraph")}


class Case(NamedTuple):
    """A preset at a width, on boards of a size; with walls on a third of their cells, which the kernel leaves out."""

    name: str
    width: int
    size: int
    walls: bool = False

    def __str__(self) -> str:
        return f"{self.name}, D {self.width}, {self.size}×{self.size}{', walls left out' * self.walls}"


CASES = [Case("sudoku-9x9", width, 9) for width in (32, 64, 128)]
CASES += [Case("maze-any", width, size, walls) for width in (64, 128) for size in (15, 30) for walls in (False, True)]


class Account:
    """A case, its model by torch and by the kernel, and what a step of it asks for."""

    def __init__(self, case: Case, rows: int, dtype: torch.dtype):
        puzzle = Sudoku(9) if case.name == "sudoku-9x9" else Maze(case.size)
        shape = Shape(seq_len=puzzle.seq_len, vocab_size=puzzle.vocab_size, structure=puzzle.structure)
        changes = {"model.hidden_size": case.width, "model.open_symbols": False, "model.open_cells": False}
        plain = derive(preset(case.name).config(), changes)
        configs = {"torch": plain, "kernel": derive(plain, {"model.open_cells": case.walls})}
        torch.manual_seed(0)
        self.case, self.rows = case, rows
        self.models = {by: build_model(config.model, shape, dtype) for by, config in configs.items()}
        self.models["kernel"].load_state_dict(self.models["torch"].state_dict())
        self.models["kernel"].fuse(True)
        compile_networks(self.models["torch"])
        tokens = torch.randint(2, puzzle.vocab_size, (rows, puzzle.seq_len))
        if case.walls:
            tokens[torch.rand(tokens.shape) < 1 / 3] = puzzle.structure.outside
        self.batch = Batch(tokens, tokens, torch.zeros(rows, dtype=torch.long))
        model = self.models["kernel"]
        assert isinstance(model, RecursiveModel)
        self.flops, self.bytes, self.kept = _asked(model, model.encode(self.batch).x[0])

    def steps(self) -> dict[str, Callable[[], object]]:
        """What takes turns: by torch and by the kernel, without a gradient and with one."""
        return {
            f"{by} {how.__name__}": lambda m=model, how=how: how(m)
            for by, model in self.models.items()
            for how in (self.forward, self.both)
        }

    def forward(self, model: RecursiveModel) -> None:
        """A step without a gradient."""
        with torch.no_grad():
            x = model.encode(self.batch)
            model.step(model.initial_state(x), x)

    def both(self, model: RecursiveModel) -> None:
        """A step and its gradients."""
        x = model.encode(self.batch)
        state = model.step(model.initial_state(x), x)
        torch.autograd.grad(state.z_h.sum(), [p for network in model.networks() for p in network.parameters()])


def _asked(model: RecursiveModel, x: Tensor) -> tuple[int, int, int]:
    """Of a puzzle's step: FLOPs, bytes without a gradient, and those that are kept for one."""
    (positions, width), size = x.shape, x.element_size()
    block: Any = model.networks()[0].blocks[0]
    inner = block.mixer.out.weight.shape[1]
    wiring = model.layouts.of_positions(x[None]).wiring(x[None])
    heard = 1 if wiring.taps is None else len(wiring.taps)
    groups = 0 if wiring.counts is None else int(wiring.counts.sum())
    calls = len(model._stages[0])
    products = positions * width * (2 * inner * heard + inner) + groups * width * 2 * inner
    moved = size * positions * width * (1 + 2 * model.config.states)  # x̂, and the states before and after
    return 2 * products * calls, moved, calls * positions * size * (2 * width + 2 * inner)


def account(cases: list[Case], rows: int, rounds: int, dtype: torch.dtype) -> dict[str, Any]:
    """Every case, in turns with the peaks."""
    product, flops = gemm(torch.device("cpu"), dtype)
    source, target = torch.ones(COPIED), torch.empty(COPIED)
    found = []
    for case in cases:
        one = Account(case, rows, dtype)
        turns = {"peak": product.step, "memory": lambda: target.copy_(source), **one.steps()}
        for step in turns.values():
            step(), step()
        seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in turns}
        for _ in range(rounds):
            for name, step in turns.items():
                seconds[name].append(_timed(step))
        found.append(_figures(one, {name: np.array(each) for name, each in seconds.items()}, flops))
        print(*_lines(found[-1:]), sep="\n", flush=True)
    return {
        "rows": rows,
        "rounds": rounds,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "cases": found,
    }


def _timed(step: Callable[[], object]) -> tuple[float, float]:
    """Seconds of the processor and by the clock."""
    used, started = time.process_time(), time.perf_counter()
    step()
    return time.process_time() - used, time.perf_counter() - started


def _figures(one: Account, seconds: dict[str, np.ndarray], flops: int) -> dict[str, Any]:
    """Rates, and the share of the roofline in every round."""
    peak, memory = flops / seconds["peak"][:, 0], 8 * COPIED / seconds["memory"][:, 0]
    ways = {}
    for name in one.steps():
        how = name.split()[1]
        asked = one.flops * (1 if how == "forward" else 3), one.bytes + (0 if how == "forward" else 2 * one.kept)
        used, clock = (one.rows / seconds[name][:, part] for part in (0, 1))  # puzzle-steps a second
        least = np.maximum(asked[0] / peak, asked[1] / memory)
        rates = {"per_second": used, "by_the_clock": clock, "share": least * used}
        spreads = {key: Spread.of(values)._asdict() for key, values in rates.items()}
        ways[name] = {"flops": asked[0], "bytes": asked[1], **spreads}
    for how in ("forward", "both"):
        ratio = seconds[f"torch {how}"][:, 0] / seconds[f"kernel {how}"][:, 0]
        ways[f"kernel {how}"]["ratio"] = Spread.of(ratio)._asdict()
    return {"case": str(one.case), "peak": Spread.of(peak)._asdict(), "memory": Spread.of(memory)._asdict(),
            "ways": ways, "where": _where(one)}  # fmt: skip


def _where(one: Account) -> dict[str, float]:
    """Of torch's step with a gradient the shares of products, of code that its compiler fused, and of the rest."""
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        one.both(one.models["torch"])
    shares = dict.fromkeys((*KINDS, "rest"), 0.0)
    for event in seen.key_averages():
        kind = next((k for k, words in KINDS.items() if any(word in event.key for word in words)), "rest")
        shares[kind] += event.self_cpu_time_total
    return {kind: spent / sum(shares.values()) for kind, spent in shares.items()}


def _lines(found: list[dict[str, Any]]) -> list[str]:
    return [
        f"{one['case']}: {name} {way['per_second']['median']:.0f} puzzle-steps/s, {way['share']['median']:.0%}"
        for one in found
        for name, way in one["ways"].items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=16)
    parser.add_argument("--precision", choices=PRECISIONS, default="bf16")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--only", default="", metavar="WORD", help="the cases whose name holds it")
    options = parser.parse_args()
    pick_device("cpu")
    dtype = PRECISIONS[options.precision]
    found = account([case for case in CASES if options.only in str(case)], options.rows, options.rounds, dtype)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
