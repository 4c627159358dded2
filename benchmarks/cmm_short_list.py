"""CMM's choices on 10×10 mazes, each a preset of its own, since several change two settings at once.

    reason ablate $(python benchmarks/cmm_short_list.py) training.steps=1000 training.precision=bf16 steps=64 …

It prints the names of all presets, the base first, as `reason ablate` takes them.
"""

from __future__ import annotations

import sys

from reason.config.overrides import Changes, derive
from reason.config.schema import Config
from reason.presets.structured import maze_10x10_cmm_node

TERMS = ("equil_x", "equil_z", "rh_unstable_x", "rh_stable_z", "rep_x", "rep_z")
TWO_LOSSES: Changes = {f"loss.weights.{term}": 0 for term in TERMS}
HANDOVER: Changes = {"rollout.carry": "handover", "rollout.accum_steps": 2}
FIXED: Changes = {"balance.kind": "fixed", "balance.targets": {}}


def base() -> Config:
    """maze-10x10-cmm-node as it stands: all eight terms, StableMax3, N_L 2, carry persistent."""
    return maze_10x10_cmm_node()


def without_terms() -> Config:
    """TRM's two losses alone, with fixed weights."""
    return derive(base(), FIXED | TWO_LOSSES)


def without_algradnorm() -> Config:
    """All eight terms with fixed weights: 50 for LM, 1 for the others, as AlgGradNorm's targets are."""
    return derive(base(), FIXED | {"loss.weights.lm": 50})


def identical_layers() -> Config:
    """One layer four times in place of four layers, a quarter of the parameters."""
    return derive(base(), {"model.num_layers": 1, "model.repeats": 4})


def stablemax1() -> Config:
    """StableMax in place of StableMax3."""
    return derive(base(), {"loss.likelihood": "stablemax"})


def stablemax5() -> Config:
    """StableMax5 in place of StableMax3."""
    return derive(base(), {"loss.likelihood": "stablemax5"})


def odd_l_cycles() -> Config:
    """N_L 3 in place of 2, which a step also pays for: four calls in place of three."""
    return derive(base(), {"model.l_cycles": 3})


def one_l_cycle() -> Config:
    """N_L 1 in place of 2: two calls in place of three."""
    return derive(base(), {"model.l_cycles": 1})


def same_batch() -> Config:
    """A row that halts takes its puzzle again; every batch stays for N_super steps."""
    return derive(base(), {"rollout.carry": "same-batch", "rollout.accum_steps": 8})


def handover() -> Config:
    """Every second step brings new puzzles under the states of the former ones."""
    return derive(base(), HANDOVER)


if __name__ == "__main__":
    own = [name for name, made in list(globals().items()) if getattr(made, "__module__", "") == __name__]
    print(",".join(f"{sys.argv[0]}:{name}" for name in own))
