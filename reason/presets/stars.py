"""STARS on 4-digit addition: every row of its figures and tables is one base and its difference (MATH.md §4).

The paper's size is D 512 and 10,000 steps of batch 512, for a GPU; the small one D 128, minutes on two cores.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from reason.config import Config, override
from reason.data import DataConfig
from reason.losses import LossConfig, LossWeights
from reason.models import LoopedConfig
from reason.rollout import LoopsConfig, RolloutConfig
from reason.schedules import ScheduleConfig
from reason.training.config import TrainingConfig
from reason.training.ema import EmaConfig
from reason.training.optim import OptimizerConfig


def paper_base() -> Config:
    """Post-sandwich LayerNorm, one GPT block, D 512, T = 4; AdamW, 10,000 steps of batch 512."""
    return Config(
        data=DataConfig(
            directory="data/addition-4", generate="addition --digits 4 --train 100000 --test 5000 --seed 0"
        ),
        model=LoopedConfig(),
        rollout=RolloutConfig(supervision_steps=1, carry="fresh", halting="none", loops=LoopsConfig(count=4)),
        loss=LossConfig(likelihood="softmax", weights=LossWeights(halt=0)),
        optimizer=OptimizerConfig(
            kind="adamw",
            lr=1e-4,
            betas=(0.9, 0.999),
            weight_decay=0.01,
            schedule=ScheduleConfig(kind="cosine", warmup=2000),
        ),
        ema=EmaConfig(rate=None),
        training=TrainingConfig(steps=10_000, batch_size=512, log_every=100, checkpoint_every=1000),
    )


def small_base() -> Config:
    """The same at D 128: lr 1e-3, warm-up 100, 600 steps of batch 256 (ours, for two cores)."""
    return override(
        paper_base(),
        {
            "model.hidden_size": "128",
            "optimizer.lr": "1e-3",
            "optimizer.schedule.warmup": "100",
            "training.steps": "600",
            "training.batch_size": "256",
            "training.log_every": "20",
            "training.checkpoint_every": "200",
        },
    )


@dataclass(frozen=True)
class Row:
    """One row: what it is, where from, and what it changes at the paper's size and, beyond that, at the small one."""

    text: str
    changes: dict[str, str]
    small: dict[str, str] = field(default_factory=dict)


PLACEMENTS = ("pre", "post", "pre-sandwich", "post-sandwich")
NORMS = ("layernorm", "rmsnorm", "simple")


def _random(law: str, most: int, **parameters: float) -> dict[str, str]:
    settings = {"law": law, "most": most, **parameters}
    return {f"rollout.loops.{key}": str(value) for key, value in settings.items()}


TABLE_1 = {
    "log-normal-1": _random("log-normal", 40, mu=2.62, sigma=0.6),
    "log-normal-2": _random("log-normal", 100, mu=2.0, sigma=0.7),
    "poisson-1": _random("poisson", 30, rate=5),
    "poisson-2": _random("poisson", 30, rate=10),
    "uniform-1": _random("uniform", 10),
    "uniform-2": _random("uniform", 40),
}
TABLE_3 = TABLE_1 | {
    "log-normal-2": _random("log-normal", 80, mu=3.2, sigma=0.45),
    "uniform-2": _random("uniform", 30),
}


def _rows() -> dict[str, Row]:
    rows = {}
    for placement in PLACEMENTS:
        for norm in NORMS:
            text = f"""STARS figure 2: {placement} {norm}, trained at T = 4.

            Claimed: which norm it is hardly matters; pre and pre-sandwich grow and drift beyond T = 4, post and
            post-sandwich stay bounded and fail there too. Initial weights N(0, 0.02), GELU and dropout 0.1 of GPT;
            batch 512, 10,000 steps and the optimizer are those of the authors' code, where the paper is silent.
            """
            rows[f"{placement}-{norm}"] = Row(text, {"model.placement": placement, "model.norm": norm})
    return rows


ROWS = _rows()


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

    recipe.__doc__ = row.text
    return recipe
