"""STARS on 4-digit addition: every row of its figures and tables is one base and its difference (MATH.md §4).

The paper's size is D 512 and 10,000 steps of batch 512, for a GPU; the small one D 128, minutes on two cores.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from reason.config.overrides import override
from reason.config.schedules import ScheduleConfig
from reason.config.schema import Config
from reason.data import DataConfig
from reason.losses import LossConfig, LossWeights
from reason.models import LoopedConfig
from reason.rollout import LoopsConfig, RolloutConfig
from reason.training.config import TrainingConfig
from reason.training.ema import EmaConfig
from reason.training.optim import OptimizerConfig


def paper_base() -> Config:
    """One GPT block of D 512, T = 4 unless said otherwise, post-sandwich LayerNorm.

    AdamW, batch 512, 10,000 steps, dropout 0.1 and initial weights N(0, 0.02²) are those of the authors' code, where
    the paper is silent.
    """
    return Config(
        data=DataConfig(
            directory="data/addition-4", generate="addition --digits 4 --train 100000 --test 5000 --seed 0"
        ),
        model=LoopedConfig(),
        rollout=RolloutConfig(supervision_steps=1, carry="fresh", halting="none", loops=LoopsConfig(count=4)),
        loss=LossConfig(likelihood="softmax", weights=LossWeights(q_halt=0)),
        optimizer=OptimizerConfig(
            kind="adamw",
            lr=1e-4,
            betas=(0.9, 0.999),
            weight_decay=0.01,
            schedule=ScheduleConfig(kind="cosine", warmup_steps=2000),
        ),
        ema=EmaConfig(decay=None),
        training=TrainingConfig(steps=10_000, batch_size=512, log_every=100, checkpoint_every=1000),
    )


def small_base() -> Config:
    """For two cores: D 128, batch 256, lr 1e-3 after 100 steps, no dropout, gradients clipped to 1 (all ours).

    600 steps at T = 4; where loops are random or JSRR enters, 1,000 more, JSRR with K = 4 on 64 rows from step 700 on.
    Initial weights N(0, 0.06²): with 0.02, GPT's for wider models, 500 steps hardly left the start.
    """
    return override(
        paper_base(),
        {
            "model.hidden_size": "128",
            "model.init_std": "0.06",
            "model.dropout": "0",
            "optimizer.lr": "1e-3",
            "optimizer.grad_clip": "1",
            "optimizer.schedule.warmup_steps": "100",
            "training.steps": "600",
            "training.batch_size": "256",
            "training.log_every": "20",
            "training.checkpoint_every": "200",
        },
    )


@dataclass(frozen=True)
class Row:
    """One row: what it is, what is said of it, and what it changes at the paper's size and, beyond that, at D 128."""

    title: str
    claim: str
    changes: dict[str, str]
    small: dict[str, str] = field(default_factory=dict)


Rows = Iterator[tuple[str, Row]]
PLACEMENTS = ("pre", "post", "pre-sandwich", "post-sandwich")
NORMS = ("layernorm", "rmsnorm", "simple")


def _random(law: str, most: int, **parameters: float) -> dict[str, str]:
    settings = {"distribution": law, "max": most, **parameters}
    return {f"rollout.loops.{key}": str(value) for key, value in settings.items()}


TABLE_1 = {
    "log-normal-1": _random("log-normal", 40, mu=2.62, sigma=0.6),
    "log-normal-2": _random("log-normal", 100, mu=2.0, sigma=0.7),
    "poisson-1": _random("poisson", 30, mean=5),
    "poisson-2": _random("poisson", 30, mean=10),
    "uniform-1": _random("uniform", 10),
    "uniform-2": _random("uniform", 40),
}
TABLE_3 = TABLE_1 | {
    "log-normal-2": _random("log-normal", 80, mu=3.2, sigma=0.45),
    "uniform-2": _random("uniform", 30),
}


JSRR_LATE = {  # it enters after the warm-up, as in the authors' code
    "loss.weights.jsrr": "0.1",
    "loss.schedules": '{"jsrr": {"kind": "piecewise", "points": [[0, 0], [2000, 1]]}}',
}
# At D 128 random loops and JSRR enter once T = 4 is learned (ours): from the first step on neither left the start.
START_SMALL = {"rollout.loops.start": "600", "training.steps": "1600"}
JSRR_SMALL = {
    "loss.jsrr.iterations": "4",
    "loss.jsrr.rows": "64",  # a quarter of the batch: at K = 4 the term then costs less than the loops
    "loss.schedules": '{"jsrr": {"kind": "piecewise", "points": [[0, 0], [700, 1]]}}',
}


def _architectures() -> Rows:
    claim = (
        "Claimed: it hardly matters which norm; pre and pre-sandwich drift beyond T = 4 while the state grows, post "
        "and post-sandwich stay bounded and fail there too."
    )
    for placement in PLACEMENTS:
        for norm in NORMS:
            title = f"STARS figure 2: {placement} {norm}, trained at T = 4"
            yield f"{placement}-{norm}", Row(title, claim, {"model.norm_placement": placement, "model.norm": norm})


def _prelude_and_coda() -> Rows:
    claim = "Claimed: the dynamics stay what they are without. One layer each (ours: the paper names no number)."
    for placement in PLACEMENTS[2:]:
        for name, (prelude, coda) in {"prelude": (1, 0), "coda": (0, 1), "prelude-coda": (1, 1)}.items():
            title = f"STARS figure 3: {placement} LayerNorm with {' and '.join(name.split('-'))}, trained at T = 4"
            depths = {"model.prelude": str(prelude), "model.coda": str(coda)}
            yield f"{placement}-{name}", Row(title, claim, {"model.norm_placement": placement, **depths})


def _random_loops() -> Rows:
    claim = (
        "Claimed: under random loops performance lasts; post-sandwich does not always learn, the less so the wider "
        "the range."
    )
    for table, placements, laws in ((1, PLACEMENTS[2:], TABLE_1), (3, PLACEMENTS[:2], TABLE_3)):
        for placement in placements:
            for law, settings in laws.items():
                title = f"STARS table {table}: {placement} LayerNorm, random loops, {law[:-2]} set {law[-1]}"
                yield (
                    f"{placement}-{law}",
                    Row(title, claim, {"model.norm_placement": placement, **settings}, START_SMALL),
                )


def _l2() -> Rows:
    for placement in PLACEMENTS[2:]:
        base = {"model.norm_placement": placement, "loss.weights.l2": "1"}
        title = f"STARS figure 3: {placement} LayerNorm, T = 4, L2 baseline"
        claim = (
            "Claimed: marginal for pre-sandwich, nothing for post-sandwich. Norm of the last move, weight 1 (the code)."
        )
        yield f"{placement}-l2", Row(title, claim, base)
        title = f"STARS §4.3.2: {placement} LayerNorm, random loops, L2 baseline"
        claim = "Claimed: worse than random loops alone. Log-normal set 2 of table 1 (ours: the paper names no law)."
        yield f"{placement}-l2-random", Row(title, claim, base | TABLE_1["log-normal-2"], START_SMALL)


def _jsrr() -> Rows:
    random_loops = TABLE_1["log-normal-2"]
    title = "STARS, figure 5: post-sandwich LayerNorm, log-normal random loops, JSRR with λ = 0.1"
    claim = "Claimed: 100 % at any number of loops. K = 1, from optimizer step 2,000 on (the code)."
    yield "", Row(title, claim, random_loops | JSRR_LATE, START_SMALL | JSRR_SMALL)
    title = "STARS without random loops: JSRR at T = 4 (figure 4's ablation, on addition)"
    claim = "Claimed there, on mathematics: random loops and JSRR each delay the decline."
    yield "jsrr", Row(title, claim, JSRR_LATE, START_SMALL | JSRR_SMALL)
    for weight in ("0.01", "0.05", "0.15", "0.2"):
        claim = "Claimed: every λ leads to an attractor; 0.15 and 0.20 impede learning. Values below 0.1 are ours."
        rest = random_loops | JSRR_LATE | {"loss.weights.jsrr": weight}
        yield f"lambda-{weight}", Row(f"STARS figure 7: λ = {weight}", claim, rest, START_SMALL | JSRR_SMALL)


ROWS = {name: row for part in (_jsrr, _architectures, _prelude_and_coda, _random_loops, _l2) for name, row in part()}


def recipes() -> dict[str, Callable[[], Config]]:
    """Every row at both sizes: stars-NAME, and stars-small-NAME."""
    return {
        f"{prefix}-{name}".removesuffix("-"): _recipe(row, small)
        for prefix, small in (("stars", False), ("stars-small", True))
        for name, row in ROWS.items()
    }


def _recipe(row: Row, small: bool) -> Callable[[], Config]:
    def recipe() -> Config:
        return override(small_base(), row.changes | row.small) if small else override(paper_base(), row.changes)

    about = inspect.getdoc(small_base if small else paper_base)
    recipe.__doc__ = f"{row.title}{', at D 128' if small else ''}.\n\n{row.claim}\n\n{about}"
    return recipe
