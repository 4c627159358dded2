"""Average the weights of a run and of the run that went on from it, as a run that evaluate and export read.

    python benchmarks/average.py FIRST SECOND OUT --share 0.3

SECOND began from FIRST (init_from=FIRST). OUT has (1 − share) of the first one's weights and `share` of the second
one's, the EMA where a run keeps one; what else it holds is the second one's. The average of a network and of what it
was tuned to often keeps what both are good at (Wortsman et al. 2022, "Robust fine-tuning of zero-shot models").
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

from torch import Tensor

from reason.cli import guarded
from reason.errors import ConfigError
from reason.runs.directory import chosen_checkpoint, which_weights
from reason.runs.folders import new_path
from reason.training.checkpoint import load_weights, save_checkpoint, step_of


def read(run: Path) -> tuple[int, dict[str, Tensor]]:
    """The step and the weights of the newest checkpoint."""
    folder = chosen_checkpoint(run, "newest")
    return step_of(folder), load_weights(folder, which_weights(folder, "auto"))


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("first", type=Path, metavar="FIRST", help="a run")
    parser.add_argument("second", type=Path, metavar="SECOND", help="the run that began from it")
    parser.add_argument("out", type=Path, metavar="OUT", help="the folder of the average, a new one")
    parser.add_argument("--share", type=float, default=0.5, help="of the second run's weights, from 0 to 1")
    options = parser.parse_args(arguments)
    if not 0 <= options.share <= 1:
        raise ConfigError(f"--share {options.share}: a number from 0 to 1 is needed")
    (_, one), (step, two) = read(options.first), read(options.second)
    if unlike := sorted(name for name in {*one, *two} if name not in one or one[name].shape != two[name].shape):
        raise ConfigError(f"{options.first} and {options.second} differ in {unlike[0]}; name two runs of one network")
    share = options.share
    weights = {name: ((1 - share) * one[name].float() + share * two[name].float()).to(two[name].dtype) for name in two}
    with new_path(options.out, "name another folder, or remove it") as run:
        run.mkdir()
        for name in ("config.json", "metrics.jsonl"):
            shutil.copy(options.second / name, run / name)
        save_checkpoint(run, step, weights, None, {"step": step, "exported": "ema"}, keep=1)
    return 0


if __name__ == "__main__":
    raise SystemExit(guarded(main, sys.argv[1:]))
