"""Ouro's exit gate on addition: stage I, stage II, and a stack grown deeper (MATH.md §4).

Ouro trains 1.4B (24 layers of D 2048) on text; its weights and data are not to be had here, so all rows train on
4-digit addition (ours), the small ones, one layer of D 64, on 3-digit addition.
"""

from __future__ import annotations

from reason.config.overrides import override
from reason.config.schedules import ScheduleConfig
from reason.config.schema import Config
from reason.losses import LossWeights
from reason.presets import blindspot


def stage_1() -> Config:
    """Ouro stage I at 1.4B: loss expected under the exit gate − β·entropy, T = 4. No figure is claimed on addition.

    Sandwich RMSNorm, SwiGLU of 5632, RMSNorm between loops; β 0.1, from half way on 0.05 (Ouro; where it falls is
    ours). Learned positions, AdamW and the number of steps are those of blindspot-44m (ours).
    """
    return _gated(blindspot.paper_base(num_layers=24, width=2048, num_heads=16), expansion=2.75)


def stage_2() -> Config:
    """Ouro stage II at 1.4B: the gate alone learns from what each loop gained; all else is frozen.

    k 50, γ 0.005 (Ouro); a fifth of stage I's steps, learning rate 1e-3 (ours). init_from names stage I's run.
    """
    return _gate_alone(stage_1(), "runs/ouro-stage-1-1")


def upcycled() -> Config:
    """Ouro's stack of 24 layers grown to 48 (2.6B) by duplication, and trained on.

    Order 1 … 24 1 … 24 (ours). init_from names stage I's run.
    """
    return _grown(stage_1(), "runs/ouro-stage-1-1")


def small_stage_1() -> Config:
    """Ouro stage I, one layer of D 64 on 3-digit addition: minutes on a CPU.

    As ouro-stage-1 on blindspot-small's base, but for 1,000 steps and from N(0, 0.02²) (ours).
    """
    longer = {
        "model.init_std": "0.02",
        "training.steps": "1000",
        "training.checkpoint_every": "500",
        "optimizer.schedule.warmup_steps": "100",
        "optimizer.schedule.start": "600",
    }
    return _gated(override(blindspot.small_base(), longer), expansion=2.75)


def small_stage_2() -> Config:
    """Ouro stage II of ouro-small-stage-1: the gate alone learns.

    As ouro-stage-2. init_from names stage I's run.
    """
    return _gate_alone(small_stage_1(), "runs/ouro-small-stage-1-1")


def small_upcycled() -> Config:
    """Ouro's upcycling in small: one layer grown to two, trained on.

    As ouro-upcycled. init_from names stage I's run.
    """
    return _grown(small_stage_1(), "runs/ouro-small-stage-1-1")


def _gated(base: Config, expansion: float) -> Config:
    half = ScheduleConfig(kind="piecewise", points=((base.training.steps // 2, 0.5),))
    return base.model_copy(
        update={
            "model": base.model.model_copy(
                update={
                    "expansion": expansion,
                    "norm_placement": "pre-sandwich",
                    "inter_loop_norm": True,
                    "gate": "position",
                    "dropout": 0.0,
                }
            ),
            "rollout": base.rollout.model_copy(
                update={"loops": base.rollout.loops.model_copy(update={"supervision": "per-loop"})}
            ),
            "loss": base.loss.model_copy(
                update={
                    "weights": LossWeights(lm=0, q_halt=0, exit=1, exit_entropy=0.1),
                    "schedules": {"exit_entropy": half},
                }
            ),
        }
    )


def _gate_alone(base: Config, run: str) -> Config:
    return override(
        base.model_copy(
            update={"loss": base.loss.model_copy(update={"weights": LossWeights(lm=0, q_halt=0), "schedules": {}})}
        ),
        {
            "init_from": run,
            "training.only": "gate",
            "training.steps": str(base.training.steps // 5),
            "optimizer.lr": "1e-3",
            "optimizer.weight_decay": "0",
            "loss.weights.exit_gate": "1",
        },
    )


def _grown(base: Config, run: str) -> Config:
    layers = 2 * base.model.num_layers
    return override(base, {"init_from": run, "init_layers": "cycle", "model.num_layers": str(layers)})
