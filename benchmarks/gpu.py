"""Everything that this project wants to know of a CUDA GPU, in five minutes, as one JSON.

    python benchmarks/gpu.py --out gpu.json [--original DIR] [--minutes 5]

The tests marked gpu; `python -m benchmarks.bench` of TRM-MLP and CMM-128 in bf16, eager, compiled and captured as a
graph, beside the authors' code where a checkout of it is named; the estimated memory of presets against the measured
peak; a training that is stopped and resumed, and must end with the same weights as one that was not. Each part is a
process of its own with a time limit, and the JSON is written anew after each: what a part could not say is in its
`error`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from safetensors.torch import load_file

ROOT = Path(__file__).parents[1]
HERE = {"PYTHONPATH": str(ROOT), "TQDM_DISABLE": "1"}
REASON = [sys.executable, "-m", "reason"]
BENCH = [sys.executable, "-m", "benchmarks.bench"]
TRM = ["trm-mlp-sudoku", "training.precision=bf16"]
COMPILED = "training.compile=none,inductor,graph"
MEMORY = ["cmm-1-trm", "cmm-1-hrm", "cmm-9-7", "trm-att-maze"]


def run(words: list[str], seconds: float, folder: Path) -> str:
    """Run a command in `folder`; its output. A failure is an error with the end of what it said."""
    try:
        done = subprocess.run(
            words, cwd=folder, capture_output=True, text=True, timeout=seconds, check=False, env=os.environ | HERE
        )
    except subprocess.TimeoutExpired as late:
        said = (late.stdout or b"").decode(errors="replace")[-2000:]
        raise RuntimeError(f"not done in {seconds:.0f} s: {' '.join(words)}; so far: {said}") from None
    if done.returncode:
        raise RuntimeError(f"status {done.returncode}: {(done.stdout + done.stderr)[-2000:]}")
    return done.stdout


def tests(seconds: float, folder: Path) -> dict[str, Any]:
    """The tests marked gpu, the slowest excluded by the time limit alone."""
    words = [sys.executable, "-m", "pytest", "-v", "-m", "gpu", "-p", "no:cacheprovider", str(ROOT / "tests")]
    return {"summary": run(words, seconds, ROOT).strip().splitlines()[-1]}


def bench(words: list[str], rounds: int = 3, steps: int = 3) -> Callable[[float, Path], Any]:
    """`python -m benchmarks.bench`, its JSON: speed, memory as estimated and as measured."""

    def measured(seconds: float, folder: Path) -> Any:
        run([*BENCH, *words, "--rounds", f"{rounds}", "--steps", f"{steps}", "--json", "bench.json"], seconds, folder)
        return json.loads((folder / "bench.json").read_text())

    return measured


def resumable(device: str, steps: int) -> Callable[[float, Path], Any]:
    """A training in two pieces and one in one piece: are the weights the same to the bit?"""

    def compared(seconds: float, folder: Path) -> Any:
        half = str(max(1, steps // 2))
        words = [*REASON, "train", "sudoku-4x4", f"device={device}", f"training.steps={steps}"]
        started = time.perf_counter()
        run([*words, "run=whole"], seconds, folder)
        run([*words, "run=pieces", "--max-steps", half], seconds, folder)
        run([*REASON, "train", "run=pieces", "--resume"], seconds, folder)
        whole, pieces = (_weights(folder / name) for name in ("whole", "pieces"))
        same = whole.keys() == pieces.keys() and all(whole[name].equal(pieces[name]) for name in whole)
        return {"same_weights": same, "steps": steps, "seconds": time.perf_counter() - started}

    return compared


def _weights(run: Path) -> dict[str, Any]:
    return load_file(max((run / "checkpoints").glob("step-*")) / "weights.safetensors")


def parts(original: Path | None) -> dict[str, tuple[float, Callable[[float, Path], Any]]]:
    """Every part by name: its share of the minutes, and what it does."""
    beside = [] if original is None else ["--original", str(original.resolve())]
    compiled = [*TRM, "training.compile=inductor", *beside, "--original-compiled"]
    return {
        "trm": (0.2, bench([*TRM, COMPILED, *beside])),
        **({"trm beside compiled original": (0.2, bench(compiled))} if original else {}),
        "cmm-128": (0.2, bench(["cmm-9-7", COMPILED])),
        "memory": (0.06, bench([*MEMORY, "training.compile=none"], 1, 1)),
        "resume": (0.07, resumable("cuda", 60)),
        "tests": (0.27, tests),
    }


def measure(
    chosen: dict[str, tuple[float, Callable[[float, Path], Any]]], out: Path, minutes: float
) -> dict[str, dict[str, Any]]:
    """Run the parts one after the other, each for its share at most of what is left; write after each."""
    ends = time.monotonic() + 60 * minutes
    found: dict[str, dict[str, Any]] = {}
    left = dict(chosen)
    for name, (share, part) in chosen.items():
        allowed = max(1.0, (ends - time.monotonic()) * share / sum(weight for weight, _ in left.values()))
        started = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            try:
                found[name] = {"result": part(allowed, Path(folder))}
            except Exception as error:
                found[name] = {"error": f"{type(error).__name__}: {error}"}
        found[name]["seconds"] = time.monotonic() - started
        del left[name]
        out.write_text(json.dumps(found, indent=1) + "\n")
        print(f"{name}: {'error' if 'error' in found[name] else 'done'} in {found[name]['seconds']:.0f} s", flush=True)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("gpu.json"))
    parser.add_argument("--original", type=Path, metavar="DIR", help="a checkout of the authors' TRM code")
    parser.add_argument("--minutes", type=float, default=5)
    arguments = parser.parse_args()
    measure(parts(arguments.original), arguments.out, arguments.minutes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
