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
        description="T supervision steps, steps=T for short; none: twice the trained ones, more on larger boards "
        "and with decimation",
    )
    decimation: Annotated[int, Field(ge=1)] | Literal["auto"] | None = Field(
        "auto",
        description="K: after every K steps the surest undecided cell becomes a clue, and the state starts anew; "
        "clues that lead to no answer which keeps the rules are taken back; auto: N_super where puzzles may have "
        "several solutions, else none",
    )
    split: str = Field("test", pattern=PLAIN, description="which split of the data set")
    batch_size: int = Field(256, ge=1, description="puzzles at a time; changes no number beyond rounding")
    compile: Literal["auto", "none", "inductor"] = Field(
        "auto",
        description="torch.compile of network calls, changes numbers by rounding; auto: inductor where it works and "
        "the evaluation takes minutes",
    )
    weights: Literal["auto", "ema", "raw"] = Field("auto", description="auto: the EMA where the run keeps one")
    checkpoint: Literal["newest", "best"] = Field(
        "newest", description="best: the one that read best on the monitor's split in training"
    )
    blind_spot: bool = Field(
        False, description="also probe what the readout does not see: norms, radial gradients, clamps, in float64"
    )
    caches: bool = Field(False, description="also decode with each way of sharing keys and values (causal models)")
    limit: int | None = Field(None, ge=1, description="only the first so many puzzles")
    boards: int = Field(6, ge=0, description="solved and failed puzzles (so many each) that the page shows")
    policies: bool = Field(False, description="calibrate stopping policies and time them; each costs up to a pass")
    restarts: int = Field(1, ge=1, le=100_000, description="K answers to every puzzle, each as costly as a pass")
    vary: Literal["all", "initial", "symmetry", "noise"] = Field(
        "all", description="what differs between restarts: the initial state, the puzzle's symmetry, noise on the state"
    )
    sigma: float = Field(0.1, gt=0, description="noise of vary=noise, relative to the state's root mean square")
    probes: bool = Field(False, description="probe the dynamics in float64: minutes where states are large")
    probed: int = Field(8, ge=1, description="solved and failed puzzles (so many each) that are probed")
    spectra: int = Field(2, ge=0, description="of these, solved and failed puzzles (so many each) with spectral radius")

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
