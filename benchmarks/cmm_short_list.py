"""CMM's choices on 10×10 mazes and on 9×9 Sudoku, each a preset of its own, since several change two settings at once.

    reason ablate $(python benchmarks/cmm_short_list.py) training.steps=1000 training.precision=bf16 steps=64 …
    reason ablate $(python benchmarks/cmm_short_list.py sudoku) training.steps=500 training.precision=bf16 steps=64 …

It prints the names of all presets of a task, the base first, as `reason ablate` takes them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from reason.config.overrides import Changes, derive
from reason.config.schema import Config
from reason.presets.structured import maze_10x10_cmm_node, sudoku_9x9, sudoku_9x9_cmm_node, sudoku_9x9_cmm_nsde

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


def sudoku() -> Config:
    """sudoku-9x9-cmm-node as it stands: all eight terms under AlgGradNorm, one state that starts at random."""
    return sudoku_9x9_cmm_node()


def sudoku_trm() -> Config:
    """TRM with one state: sudoku-9x9 with all symbols."""
    return derive(sudoku_9x9(), {"model.open_symbols": False})


def sudoku_without_terms() -> Config:
    """TRM's two losses alone, under AlgGradNorm, 50 to 1."""
    return derive(sudoku(), TWO_LOSSES)


def sudoku_without_algradnorm() -> Config:
    """All eight terms with fixed weights: 50 for LM, 1 for the others, as AlgGradNorm's targets are."""
    return derive(sudoku(), FIXED | {"loss.weights.lm": 50})


def sudoku_without_both() -> Config:
    """TRM's two losses alone with fixed weights, 50 to 1."""
    return derive(sudoku(), FIXED | TWO_LOSSES | {"loss.weights.lm": 50})


def sudoku_with_noise() -> Config:
    """As an SDE: sudoku-9x9-cmm-nsde."""
    return sudoku_9x9_cmm_nsde()


def sudoku_without_ema() -> Config:
    """Judged by the weights of the last step."""
    return derive(sudoku(), {"ema.decay": None})


def sudoku_softmax() -> Config:
    """Softmax in place of StableMax3."""
    return derive(sudoku(), {"loss.likelihood": "softmax"})


def sudoku_from_input() -> Config:
    """From the encoded puzzle x̂ in place of a random state."""
    return derive(sudoku(), {"model.initial": "input"})


def sudoku_two_states() -> Config:
    """z_H and z_L in place of one state, both random at first."""
    return derive(sudoku(), {"model.states": 2})


def sudoku_identical_layers() -> Config:
    """One layer twice in every call in place of two layers, half of the parameters."""
    return derive(sudoku(), {"model.num_layers": 1, "model.repeats": 2})


def sudoku_stablemax1() -> Config:
    """StableMax in place of StableMax3."""
    return derive(sudoku(), {"loss.likelihood": "stablemax"})


def sudoku_stablemax5() -> Config:
    """StableMax5 in place of StableMax3."""
    return derive(sudoku(), {"loss.likelihood": "stablemax5"})


def sudoku_fewer_l_cycles() -> Config:
    """N_L 4 in place of 5, which saves a step one of six calls."""
    return derive(sudoku(), {"model.l_cycles": 4})


def sudoku_more_l_cycles() -> Config:
    """N_L 6 in place of 5, which a step also pays for: seven calls in place of six."""
    return derive(sudoku(), {"model.l_cycles": 6})


def sudoku_same_batch() -> Config:
    """A row that halts takes its puzzle again; every batch stays for N_super steps."""
    return derive(sudoku(), {"rollout.carry": "same-batch", "rollout.accum_steps": 16})


def sudoku_handover() -> Config:
    """Every second step brings new puzzles under the states of the former ones."""
    return derive(sudoku(), HANDOVER)


def _sudoku_without(term: str) -> Callable[[], Config]:
    def recipe() -> Config:
        """Seven terms in place of eight."""
        return derive(sudoku(), {f"loss.weights.{term}": 0})

    return recipe


globals().update({f"sudoku_without_{term}": _sudoku_without(term) for term in TERMS})

if __name__ == "__main__":
    own = [name for name, made in list(globals().items()) if getattr(made, "__module__", "") == __name__]
    on_sudoku = sys.argv[1:] == ["sudoku"]
    recipes = [name for name in own if name[0] != "_" and name.startswith("sudoku") == on_sudoku]
    print(",".join(f"{sys.argv[0]}:{name}" for name in recipes))
