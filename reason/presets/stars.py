"""STARS on 4-digit addition: every row of its figures and tables is one base and its difference (docs/math.md §8).

The paper's size is D 512 and 10,000 steps of batch 512, for a GPU; the small one D 128, minutes on two cores.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import replace

from reason.config.overrides import Changes, derive
from reason.config.schema import Config
from reason.presets.bases import ADDITION_4, LOOPED, SUMS_4
from reason.presets.tables import Departure, PaperTable, Row


def paper_base() -> Config:
    """One GPT block of D 512, T = 4 unless said otherwise, post-sandwich LayerNorm.

    AdamW, batch 512, 10,000 steps, dropout 0.1, initial weights N(0, 0.02²), a final LayerNorm whatever the other norms
    are, and CE as the mean over all tokens of a batch are those of the authors' code; the paper does not state them.
    """
    return derive(
        Config(),
        SUMS_4
        | LOOPED
        | {
            "model.final_norm": "layernorm",
            "rollout.loops.count": 4,
            "loss.likelihood": "softmax",
            "loss.reduction": "token",
            "optimizer.kind": "adamw",
            "optimizer.lr": 1e-4,
            "optimizer.betas": (0.9, 0.999),
            "optimizer.weight_decay": 0.01,
            "optimizer.schedule.kind": "cosine",
            "optimizer.schedule.warmup_steps": 2000,
            "ema.decay": None,
            "training.precision": "fp32",
            "training.steps": 10_000,
            "training.batch_size": 512,
            "training.log_every": 100,
            "training.checkpoint_every": 1000,
        },
    )


def small_base() -> Config:
    """For two cores: D 128, batch 256, lr 1e-3 after 100 steps, no dropout, gradients clipped to 1 (all ours).

    600 steps at T = 4; where loops are random or JSRR enters, 1,000 more, JSRR with K = 4 on 64 rows from step 700 on.
    Initial weights N(0, 0.06²): with 0.02, GPT's for wider models, the loss hardly fell in 500 steps.
    """
    return derive(
        paper_base(),
        {
            "model.hidden_size": 128,
            "model.init_std": 0.06,
            "model.dropout": 0,
            "optimizer.lr": 1e-3,
            "optimizer.grad_clip": 1,
            "optimizer.schedule.warmup_steps": 100,
            "training.precision": "auto",
            "training.steps": 600,
            "training.batch_size": 256,
            "training.log_every": 20,
            "training.checkpoint_every": 200,
        },
    )


PLACEMENTS = ("pre", "post", "pre-sandwich", "post-sandwich")
NORMS = ("layernorm", "rmsnorm", "simple")


def _placed(placement: str) -> Changes:
    return {"model.norm_placement": placement}


def _random(distribution: str, most: int, **parameters: float) -> Changes:
    settings = {"distribution": distribution, "max": most, **parameters}
    return {f"rollout.loops.{key}": value for key, value in settings.items()}


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


def _jsrr_from(step: int) -> Changes:
    return {"loss.schedules": {"jsrr": {"kind": "piecewise", "points": ((0, 0), (step, 1))}}}


JSRR: Changes = {"loss.weights.jsrr": 0.1} | _jsrr_from(2000)  # after the warm-up, as in the authors' code
# At D 128 random loops and JSRR start once T = 4 is learned (ours): from the first step on neither run learned.
LATER_SMALL: Changes = {"rollout.loops.start": 600, "training.steps": 1600}
JSRR_SMALL: Changes = LATER_SMALL | {
    "loss.jsrr.iterations": 4,
    "loss.jsrr.rows": 64,  # a quarter of the batch: at K = 4 the term then costs less than the loops
    **_jsrr_from(700),
}


PER_SAMPLE: Departure = (
    lambda config: "jsrr" in config.loss.present,
    "J v per sample, as in Algorithm 1, without dropout in J, where the code takes vᵀJ of the whole batch "
    "(loss.jsrr.transposed=true), with dropout.",
)


def _part(paper: str, title: str, claimed: str, rows: tuple[Row, ...]) -> PaperTable:
    return PaperTable(
        name="stars",
        paper=paper,
        title=title,
        base=paper_base,
        shape=ADDITION_4,
        rows=rows,
        inherited=inspect.getdoc(paper_base) or "",
        departure="The sums are generated here, not the published ones.",
        departures=(PER_SAMPLE,),
        claimed=claimed,
    )


def _jsrr() -> Iterator[PaperTable]:
    random_loops = TABLE_1["log-normal-2"] | JSRR
    yield _part(
        "STARS figure 5",
        "Random loops and JSRR: K = 1, from optimizer step 2,000 on (the code).",
        "100 % at any number of loops",
        (Row("", "post-sandwich LayerNorm, log-normal random loops, JSRR with λ = 0.1", changes=random_loops),),
    )
    yield _part(
        "STARS figure 4",
        "Its ablation, on addition: JSRR without random loops.",
        "on mathematics, random loops and JSRR each delay the decline",
        (Row("jsrr", "JSRR at T = 4", changes=JSRR),),
    )
    yield _part(
        "STARS §6.1",
        "The loops of its fine-tuned Ouro-1.4B, μ = 1.7, σ = 0.4 in [1, 16], on addition (ours).",
        "on mathematics, 74.2 % on average at T = 4 and 65.6 % at T = 8",
        (
            Row(
                "ouro-loops",
                "post-sandwich LayerNorm, those random loops, JSRR with λ = 0.1",
                changes=_random("log-normal", 16, mu=1.7, sigma=0.4) | JSRR,
            ),
        ),
    )
    yield _part(
        "STARS figure 7",
        "The weight λ of JSRR. Values below 0.1 are ours.",
        "every λ leads to an attractor; 0.15 and 0.20 impede learning",
        tuple(
            Row(f"lambda-{weight}", f"λ = {weight}", changes=random_loops | {"loss.weights.jsrr": weight})
            for weight in (0.01, 0.05, 0.15, 0.2)
        ),
    )


def _architectures() -> PaperTable:
    return _part(
        "STARS figure 2",
        "Norms and where they stand, trained at T = 4.",
        "it hardly matters which norm; pre and pre-sandwich drift beyond T = 4 while the state grows, post and "
        "post-sandwich stay bounded and fail there too",
        tuple(
            Row(f"{placement}-{norm}", f"{placement} {norm}", changes=_placed(placement) | {"model.norm": norm})
            for placement in PLACEMENTS
            for norm in NORMS
        ),
    )


def _prelude_and_coda() -> PaperTable:
    return _part(
        "STARS figure 3",
        "Prelude and coda, trained at T = 4. One layer each (ours: the paper names no number).",
        "the dynamics stay what they are without",
        tuple(
            Row(
                f"{placement}-{name}",
                f"{placement} LayerNorm with {name.replace('-', ' and ')}",
                changes=_placed(placement) | {"model.prelude": prelude, "model.coda": coda},
            )
            for placement in PLACEMENTS[2:]
            for name, prelude, coda in (("prelude", 1, 0), ("coda", 0, 1), ("prelude-coda", 1, 1))
        ),
    )


def _random_loops(table: int, placements: tuple[str, ...], laws: dict[str, Changes]) -> PaperTable:
    return _part(
        f"STARS table {table}",
        "Random loops.",
        "under random loops performance lasts; post-sandwich does not always learn, the less so the wider the range",
        tuple(
            Row(
                f"{placement}-{law}",
                f"{placement} LayerNorm, random loops, {law[:-2]} set {law[-1]}",
                changes=_placed(placement) | settings,
            )
            for placement in placements
            for law, settings in laws.items()
        ),
    )


def _l2(paper: str, title: str, claimed: str, suffix: str, loops: Changes) -> PaperTable:
    rows = (
        Row(
            f"{placement}-l2{suffix}",
            f"{placement} LayerNorm, {'random loops' if loops else 'T = 4'}, L2 baseline",
            changes=_placed(placement) | {"loss.weights.l2": 1} | loops,
        )
        for placement in PLACEMENTS[2:]
    )
    return _part(paper, f"{title} Norm of the last move, weight 1 (the code).", claimed, tuple(rows))


PARTS: tuple[tuple[PaperTable, Changes], ...] = (  # and what D 128 changes besides
    *((part, JSRR_SMALL) for part in _jsrr()),
    (_architectures(), {}),
    (_prelude_and_coda(), {}),
    (_random_loops(1, PLACEMENTS[2:], TABLE_1), LATER_SMALL),
    (_random_loops(3, PLACEMENTS[:2], TABLE_3), LATER_SMALL),
    (_l2("STARS figure 3", "The L2 baseline.", "marginal for pre-sandwich, nothing for post-sandwich", "", {}), {}),
    (
        _l2(
            "STARS §4.3.2",
            "The L2 baseline. Log-normal set 2 of table 1 (ours: the paper names no law).",
            "worse than random loops alone",
            "-random",
            TABLE_1["log-normal-2"],
        ),
        LATER_SMALL,
    ),
)


def _small(part: PaperTable, changes: Changes) -> PaperTable:
    def of(row: Row) -> Changes:
        """Without a first step of random loops where loops are fixed."""
        fixed = "rollout.loops.distribution" not in row.changes
        return {key: value for key, value in changes.items() if not (fixed and key == "rollout.loops.start")}

    return replace(
        part,
        name="stars-small",
        paper=f"{part.paper} at D 128",
        base=small_base,
        rows=tuple(replace(row, changes=row.changes | of(row)) for row in part.rows),
        inherited=inspect.getdoc(small_base) or "",
    )


TABLES = (*(part for part, _ in PARTS), *(_small(part, changes) for part, changes in PARTS))
