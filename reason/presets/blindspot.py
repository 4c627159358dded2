"""The readout blind spot on addition: its 2×2 and its five controls are one base and their differences (MATH.md §5).

The paper trains 44M (8 layers, D 512) and 129M (12 layers, D 768) on WikiText-103, whose text is not to be had here:
all rows train on 4-digit addition instead (ours), the small ones, one layer of D 64, on 3-digit addition.
"""

from __future__ import annotations

from collections.abc import Callable

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

ADDITION_4 = DataConfig(directory="data/addition-4", generate="addition --digits 4 --train 100000 --test 5000 --seed 0")
ADDITION_3 = DataConfig(
    directory="data/addition-3-causal", generate="addition --digits 3 --train 20000 --test 1000 --seed 0"
)


def paper_base(num_layers: int = 8, width: int = 512, num_heads: int = 8, batch_size: int = 64) -> Config:
    """Pre-norm RMSNorm/SwiGLU, K = 4, no inter-loop norm; AdamW 3e-4, weight decay 0.01, clip 1, dropout 0.1.

    betas (0.9, 0.999), a constant learning rate and 20,000 steps are ours: the paper states 4 epochs of WikiText-103.
    """
    return Config(
        data=ADDITION_4,
        model=LoopedConfig(
            hidden_size=width,
            num_layers=num_layers,
            num_heads=num_heads,
            expansion=4.0,
            block="llama",
            norm_placement="pre",
            norm="rmsnorm",
        ),
        rollout=RolloutConfig(supervision_steps=1, carry="fresh", halting="none", loops=LoopsConfig(count=4)),
        loss=LossConfig(likelihood="softmax", weights=LossWeights(q_halt=0)),
        optimizer=OptimizerConfig(kind="adamw", lr=3e-4, betas=(0.9, 0.999), weight_decay=0.01, grad_clip=1.0),
        ema=EmaConfig(decay=None),
        training=TrainingConfig(steps=20_000, batch_size=batch_size, log_every=100, checkpoint_every=2000),
    )


def small_base() -> Config:
    """One layer of D 64 on 3-digit addition, 500 steps of batch 64: some twenty seconds of one core.

    No dropout; lr 3e-3 after 50 steps, falling to a tenth from step 300 on; float32, since bfloat16 would round away
    small updates of a large state; initial weights N(0, 0.1²): from 0.02 a raw readout, whose first logits are then all
    but 0, had not learned to carry after 1,600 steps (all ours).
    """
    base = paper_base(num_layers=1, width=64, num_heads=4)
    falling = ScheduleConfig(kind="cosine", warmup_steps=50, start=300, min_ratio=0.1)
    return base.model_copy(
        update={
            "data": ADDITION_3,
            "model": base.model.model_copy(update={"dropout": 0.0, "init_std": 0.1}),
            "optimizer": base.optimizer.model_copy(update={"lr": 3e-3, "schedule": falling}),
            "training": TrainingConfig(steps=500, batch_size=64, precision="fp32", log_every=50, checkpoint_every=250),
        }
    )


PER_LOOP = {"rollout.loops.supervision": "per-loop"}
ROWS: dict[str, tuple[str, dict[str, str]]] = {
    "terminal-norm": ("terminal loss, normalised readout. Claimed: ‖h_K‖ 5,674 (44M), 5,997 (129M).", {}),
    "terminal-raw": ("terminal loss, raw readout. Claimed: ‖h_K‖ 15, 24.", {"model.readout": "raw"}),
    "per-loop-norm": ("loss at every loop, normalised readouts. Claimed: ‖h_K‖ 39,207, 56,051.", PER_LOOP),
    "per-loop-raw": ("loss at every loop, raw readouts. Claimed: ‖h_K‖ 44, 77.", PER_LOOP | {"model.readout": "raw"}),
    "final-only": (
        "loss at every loop, only the last readout normalised. Claimed: ‖h_K‖ 57, 83.",
        PER_LOOP | {"model.readout": "final-only", "model.final_from": "4"},
    ),
    "penalty": (
        "loss at every loop, normalised readouts, norm penalty 0.01. Claimed: ‖h_K‖ 17, 22.",
        PER_LOOP | {"loss.weights.norm_penalty": "0.01"},
    ),
    "exit-weighted": (
        "losses weighted by an exit gate, β 0.1, normalised readouts. Claimed: ‖h_K‖ 6,470, 4,710.",
        PER_LOOP
        | {
            "model.gate": "position",
            "loss.weights.lm": "0",
            "loss.weights.exit": "1",
            "loss.weights.exit_entropy": "0.1",
        },
    ),
    "damping": (
        "terminal loss, normalised readout, the state times a learned γ < 1 before every loop. Claimed: ‖h_K‖ 2,432, "
        "2,973.",
        {"model.damping": "true"},
    ),
    "inter-loop-norm": (
        "loss at every loop, normalised readouts, the state normalised between loops. Claimed: effective, no figure.",
        PER_LOOP | {"model.inter_loop_norm": "true"},
    ),
}


SIZES: dict[str, Callable[[], Config]] = {
    "44m": paper_base,
    "129m": lambda: paper_base(num_layers=12, width=768, num_heads=12, batch_size=32),
    "small": small_base,
}


def recipes() -> dict[str, Callable[[], Config]]:
    """Every row at three sizes: blindspot-44m-NAME, blindspot-129m-NAME and blindspot-small-NAME."""
    return {f"blindspot-{size}-{name}": _recipe(size, name) for size in SIZES for name in ROWS}


def _recipe(size: str, name: str) -> Callable[[], Config]:
    text, changes = ROWS[name]

    def recipe() -> Config:
        return override(SIZES[size](), changes)

    base = small_base if size == "small" else paper_base
    recipe.__doc__ = f"Blind spot, {text}\n\n    {base.__doc__}"
    return recipe
