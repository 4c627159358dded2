"""Settings of an evaluation."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

import reason.settings.capabilities as can
from reason.settings.base import PLAIN, BaseConfig


class EvaluationConfig(BaseConfig):
    """How a trained model is read: one pass always; policies, restarts and probes where asked, at their cost."""

    steps: int | None = Field(
        None,
        ge=1,
        le=100_000,
        description="T, number of supervision steps (short form: steps=T); none: twice the number in training, more "
        "for larger boards and with decimation",
    )
    decimation: Annotated[int, Field(ge=1)] | Literal["auto"] | None = Field(
        "auto",
        description="K: after every K steps the most certain undecided cell becomes a clue, and the puzzle restarts "
        "from the initial state; if the clues lead to no answer that satisfies the rules, they are removed; auto: "
        "N_super if puzzles may have several solutions, otherwise none",
    )
    split: str = Field("test", pattern=PLAIN, description="which split of the data set")
    batch_size: int = Field(256, ge=1, description="puzzles per batch; results change only by rounding")
    compile: Literal["auto", "none", "inductor"] = Field(
        "auto",
        description="torch.compile of the network calls; results change only by rounding; auto: inductor if it works "
        "and the evaluation takes minutes",
    )
    weights: Literal["auto", "ema", "raw"] = Field("auto", description="auto: the EMA if the run has one, else raw")
    checkpoint: Literal["newest", "best"] = Field(
        "newest", description="best: the checkpoint with the highest validation accuracy in training"
    )
    blind_spot: bool = Field(
        False, description="also measure the readout blind spot in float64: norms, radial gradients, clamps"
    )
    caches: bool = Field(False, description="causal models: also decode with each way of sharing keys and values")
    limit: int | None = Field(None, ge=1, description="evaluate only this many puzzles, the first of the split")
    boards: int = Field(6, ge=0, description="number of solved puzzles, and of failed puzzles, shown on the page")
    policies: bool = Field(False, description="calibrate and time stopping policies; each costs at most one pass")
    restarts: int = Field(1, ge=1, le=100_000, description="K, number of answers per puzzle; each costs one pass")
    vary: Literal["all", "initial", "symmetry", "noise"] = Field(
        "all", description="what differs between restarts: the initial state, the puzzle's symmetry, noise on the state"
    )
    sigma: float = Field(
        0.1, gt=0, description="vary=noise: standard deviation of the noise, relative to the state's root mean square"
    )
    probes: bool = Field(False, description="probe the dynamics in float64; takes minutes if states are large")
    probed: int = Field(8, ge=1, description="number of solved puzzles, and of failed puzzles, that are probed")
    spectra: int = Field(
        2, ge=0, description="number of probed solved puzzles, and of probed failed puzzles, with a spectral radius"
    )

    def unread(self) -> dict[str, str]:
        """Own settings that change nothing in this evaluation, each with why."""
        found: dict[str, str] = {}
        if self.restarts == 1:
            found |= dict.fromkeys(("vary", "sigma"), "restarts=1")
        elif self.vary not in ("all", "noise"):
            found["sigma"] = f"vary={self.vary}"
        if not self.probes:
            found |= dict.fromkeys(("probed", "spectra"), "probes=false")
        if isinstance(self.decimation, int) and self.steps is not None and self.decimation >= self.steps:
            found["decimation"] = f"steps={self.steps}"
        return {f"evaluation.{key}": f"evaluation.{why}" for key, why in found.items()}

    @model_validator(mode="after")
    def _steps_without_decimation(self) -> EvaluationConfig:
        if isinstance(self.decimation, int) and self._undecimated:
            name = self._undecimated[0]
            raise ValueError(
                f"{name}=true reads steps of a puzzle that stays as it is: type evaluation.decimation=none, or "
                f"evaluation.{name}=false"
            )
        return self

    @property
    def _undecimated(self) -> list[str]:
        return [name for name in ("policies", "probes", "blind_spot") if getattr(self, name)]

    def decimated_every(self, several: bool, trained_steps: int) -> int | None:
        """Steps between decimations, None: no decimation. several: may the puzzles have several solutions?"""
        if self.decimation == "auto":
            return trained_steps if several and not self._undecimated else None
        return self.decimation

    def needs(self) -> list[can.Need]:
        """Caches ask for a model that generates with them, probes for maps with a Jacobian, inductor for networks."""
        asked = (("caches", self.caches, can.CACHES), ("probes", self.probes, can.MAPS))
        found = [can.Need(f"evaluation.{n}=true", needed, f"evaluation.{n}=false") for n, on, needed in asked if on]
        if isinstance(self.decimation, int):
            asks = f"evaluation.decimation={self.decimation}"
            found.append(can.Need(asks, can.ALL_CELLS, "evaluation.decimation=none"))
        if self.compile == "inductor":
            found.append(can.Need("evaluation.compile=inductor", can.NETWORKS, "evaluation.compile=none"))
        return found
