"""CMM-128 (0.52 M) from 1,000 generated extreme puzzles in one sitting on a GPU: trained in pieces, resumed between
them, then read by step on the generated test set and, where one is given, on a CSV of real puzzles.

    python benchmarks/cmm_128.py --minutes 25 --csv real.csv
    python benchmarks/cmm_128.py --minutes 1 --pieces 2 --puzzles 50 data=data/sudoku model.hidden_size=32   # to try it

The recipe is cmm-10-4 (Claimed: 86.1 % after 50,000 epochs) shortened for half an hour, all ours: B 1000, N_accum and
N_grad 1, 200 warm-up steps, the average's rate ramped, λ moved every seventh step. Settings given last win. Prints
and writes RUN/benchmark.json: minutes, puzzle-steps/s, peak memory, exact accuracy by step. Figures on generated sets
are labelled so: they are no published benchmark.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import torch

from datasets_gen.__main__ import main as generate
from reason.cli import main as reason
from reason.config.overrides import override, read_config
from reason.runs.evaluation import evaluate_run
from reason.training.log import read_metrics

RECIPE = {
    "rollout.accum_steps": "1",
    "rollout.grad_steps": "1",
    "optimizer.schedule.warmup_steps": "200",
    "optimizer.freeze_embedding_after": "none",
    "ema.warmup": "true",
    "balance.every": "7",
    "training.steps": "1000000",
    "training.log_every": "50",
    "training.checkpoint_every": "2000",
}


def train_in_pieces(run: Path, settings: list[str], minutes: float, pieces: int) -> None:
    for piece in range(pieces):
        begin = ["cmm-10-4", *settings] if piece == 0 else ["--resume"]
        if reason(["train", *begin, f"run={run}", "--max-minutes", f"{minutes / pieces:g}"]):
            raise SystemExit("the training did not end as it should; see above")


def read(run: Path, label: str, puzzles: int, **pairs: str) -> dict[str, object]:
    limit = {"evaluation.limit": str(puzzles), "evaluation.batch_size": "1000"}
    asked = limit | {key.replace("__", "."): value for key, value in pairs.items()}
    results, folder = evaluate_run(run, override(read_config(run / "config.json"), asked))
    exact = results["exact_by_step"]
    steps = [1, results["trained_steps"], len(exact)]
    print(f"{label}: exact " + ", ".join(f"{exact[m - 1]:.1%} at step {m}" for m in steps))
    return {"set": label, "puzzles": results["puzzles"], "exact_by_step": exact, "report": str(folder)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("settings", nargs="*", metavar="section.key=value")
    parser.add_argument("--minutes", type=float, default=25.0, help="of training in all (default 25)")
    parser.add_argument("--pieces", type=int, default=5, help="stops and resumes between them (default 5)")
    parser.add_argument("--run", type=Path, default=Path("runs/cmm-128"))
    parser.add_argument("--csv", type=Path, help="real puzzles in Sudoku-Extreme's CSV form, to be read only")
    parser.add_argument("--puzzles", type=int, default=5000, help="of each set that is read (default 5000)")
    arguments = parser.parse_args()
    given = dict(setting.split("=", 1) for setting in arguments.settings)
    settings = [f"{key}={value}" for key, value in (RECIPE | given).items()]
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    started = time.perf_counter()
    train_in_pieces(arguments.run, settings, arguments.minutes, arguments.pieces)
    last = [line for line in read_metrics(arguments.run) if "puzzle_steps" in line][-1]
    report: dict[str, object] = {
        "preset": "cmm-10-4",
        "settings": settings,
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
        "optimizer_steps": last["step"],
        "puzzle_steps": last["puzzle_steps"],
        "minutes": last["seconds"] / 60,
        "puzzle_steps_per_second": last["puzzle_steps_per_second"],
        "peak_memory_gib": torch.cuda.max_memory_allocated() / 2**30 if torch.cuda.is_available() else None,
    }
    readings = [read(arguments.run, "generated test set", arguments.puzzles)]
    if arguments.csv is not None:
        imported = arguments.run / "real"
        if not imported.exists():
            generate(["import", "sudoku-csv", str(arguments.csv), "--split", "test", "--output-dir", str(imported)])
        pairs = {"data__directory": str(imported)}
        readings.append(read(arguments.run, f"real puzzles, {arguments.csv.name}", arguments.puzzles, **pairs))
    report |= {"readings": readings, "seconds_with_evaluation": time.perf_counter() - started}
    (arguments.run / "benchmark.json").write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps({key: value for key, value in report.items() if key not in ("readings", "settings")}, indent=1))


if __name__ == "__main__":
    main()
