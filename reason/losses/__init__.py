"""Loss terms: functions of a SupervisionStep, each of which returns a float32 scalar. `weighted_sum` adds them up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import torch
from pydantic import BeforeValidator, Field, SerializeAsAny, ValidationInfo, create_model, model_validator
from torch import Tensor

from reason.errors import ConfigError
from reason.losses.equilibrium import equilibrium_x, equilibrium_z
from reason.losses.halting import halt_loss, q_continue_loss
from reason.losses.lm import Likelihood, Reduction, lm_loss
from reason.losses.repulsion import repulsion_x, repulsion_z
from reason.losses.stability import rh_stable_z, rh_unstable_x
from reason.models import FAMILIES
from reason.models.mapped import Mapped
from reason.plugins import defined
from reason.rollout import SupervisionStep
from reason.settings.base import BaseConfig, Need, leaves
from reason.settings.schedules import ScheduleConfig

if TYPE_CHECKING:
    from reason.config.schema import Config


class Term(NamedTuple):
    """A loss term, `function(step, *settings)` → a float32 scalar, and its metadata."""

    function: Callable[..., Tensor]
    description: str
    weight: float = 0.0  # default λ
    settings: tuple[str, ...] = ()  # keys of the section `loss` that are passed to the function
    section: type[BaseConfig] | None = None  # its settings loss.NAME: the function's last argument
    needs: Callable[[Config], Iterable[Need]] = lambda config: ()  # its requirements on the rest of a config
    trains: str = ""  # the value of a Readout that it trains, which the model must have: q_halt, q_continue, gate
    convex: bool = False  # LM's weight is multiplied by 1 − λ (STARS eq. 4)


def maps(config: Config) -> list[Need]:
    """Return the need of maps of the state."""
    has = issubclass(FAMILIES[config.model.kind].model, Mapped)
    return [Need(has, "maps of the state (reason.models.mapped.Mapped)")]


def _next_value(config: Config) -> list[Need]:
    has = config.rollout.halting == "q-learning"
    return [Need(has, "the readout of the next step", "rollout.halting=q-learning")]


TERMS: dict[str, Term] = {  # add an entry to define your own term
    "lm": Term(lm_loss, "cross-entropy of the cells", weight=1.0, settings=("likelihood", "reduction")),
    "q_halt": Term(halt_loss, "BCE of q_halt against 'row exact'", weight=0.5, trains="q_halt"),
    "q_continue": Term(
        q_continue_loss, "HRM's BCE of q_continue against its bootstrapped target", needs=_next_value,
        trains="q_continue"),
    "equil_x": Term(equilibrium_x, "x̂ as a fixed point (CMM: 1)", needs=maps),
    "equil_z": Term(equilibrium_z, "the solution z_H as a fixed point (CMM: 1)", needs=maps),
    "rh_unstable_x": Term(
        rh_unstable_x, "Routh-Hurwitz: x̂ unstable, judged by the trace only (CMM: 10)", settings=("rows",),
        needs=maps),
    "rh_stable_z": Term(
        rh_stable_z, "Routh-Hurwitz: z_H stable, judged by the trace only (CMM: 1e4)", settings=("rows",), needs=maps),
    "rep_x": Term(repulsion_x, "encoded puzzles x̂ repel each other (CMM: 1e3)"),
    "rep_z": Term(repulsion_z, "high states z_H repel each other (CMM: 1e3)"),
}  # fmt: skip


class LossConfig(BaseConfig):
    """The loss terms and their weights; `loss_config` adds a section for each term that has its own settings."""

    likelihood: Likelihood = Field("stablemax", description="what turns logits into probabilities")
    reduction: Reduction = Field(
        "row",
        description="average of lm, and of exit terms with a gate per position: row: over the labelled cells of each "
        "row, then over the rows (HRM, TRM); token: over all labelled cells of the batch (STARS)",
    )
    weights: BaseConfig = BaseConfig()  # λ of each term; 0 leaves it out, at no cost
    rows: int | None = Field(
        None,
        ge=1,
        description="rows, the first of the batch, at which terms with Jacobians (rh_…, jsrr) are measured; none: all",
    )
    schedules: dict[str, ScheduleConfig] = Field(
        {}, description='schedule of a term\'s weight: {"TERM": {"kind": …}}, with the keys of optimizer.schedule'
    )

    @model_validator(mode="after")
    def _is_a_loss(self) -> LossConfig:
        if not self.present:
            raise ValueError("every loss weight is 0, so nothing would be learned: type loss.weights.lm=1")
        for name in self.convex:
            if getattr(self.weights, name) >= 1:
                raise ValueError(f"weights.{name} leaves 1 − λ ≤ 0 to LM: type loss.weights.{name}=0.1")
        return self

    @property
    def present(self) -> list[str]:
        """Return the terms whose configured weight is not 0; they take part in the run at some time."""
        return [name for name, weight in self.weights if weight]

    @property
    def idle(self) -> dict[str, str]:
        """Return the settings without effect, including the sections of terms whose weight is 0."""
        off = [name for name, weight in self.weights if not weight and TERMS[name].section]
        own = {f"{name}.{key}": f"weights.{name}=0" for name in off for key in leaves(getattr(self, name).model_dump())}
        readers = [name for name, term in TERMS.items() if "rows" in term.settings]
        if not set(readers) & set(self.present):
            own["rows"] = " and loss.".join(f"weights.{name}=0" for name in readers)
        return super().idle | own

    @property
    def convex(self) -> list[str]:
        """Return the present terms whose λ is subtracted from LM's weight."""
        return [name for name in self.present if TERMS[name].convex]

    def trains(self, value: str) -> bool:
        """Return whether a present term trains that value of a Readout (q_halt, q_continue, gate)."""
        return any(TERMS[name].trains == value for name in self.present)

    def arguments(self, name: str) -> list[Any]:
        """Return the arguments of the term's function after the SupervisionStep."""
        own = [] if TERMS[name].section is None else [name]
        return [getattr(self, setting) for setting in (*TERMS[name].settings, *own)]

    def shares_at(self, step: int, steps: int) -> dict[str, float]:
        """Return the scheduled factor of each present term's weight at optimizer step `step` (from 0) of `steps`."""
        schedules = self.schedules
        return {name: schedules[name].factor(step, steps) if name in schedules else 1.0 for name in self.present}

    def weights_at(self, step: int, steps: int) -> dict[str, float]:
        """Return λ of each term at optimizer step `step` (from 0) of `steps`, without terms whose λ is 0 then."""
        shares = self.shares_at(step, steps)
        weights = {name: getattr(self.weights, name) * share for name, share in shares.items() if share}
        if "lm" in weights:
            weights["lm"] *= 1 - sum(weights.get(name, 0.0) for name in self.convex)
        return weights


def loss_config() -> type[LossConfig]:
    """Return the section `loss` with the terms that TERMS has now."""
    return _with_terms(tuple(TERMS.items()))


@lru_cache
def _with_terms(terms: tuple[tuple[str, Term], ...]) -> type[LossConfig]:  # making a class takes milliseconds
    fields: dict[str, Any] = {
        name: (float, Field(term.weight, ge=0, description=term.description)) for name, term in terms
    }
    weights = create_model("LossWeights", __base__=BaseConfig, **fields)
    sections: dict[str, Any] = {name: (term.section, term.section()) for name, term in terms if term.section}
    return create_model("LossConfig", __base__=LossConfig, weights=(weights, weights()), **sections)


def _validate_by_terms(section: Any, info: ValidationInfo) -> Any:
    if not isinstance(section, dict):
        return section
    strict = (info.context or {}).get("strict")
    return loss_config().model_validate(section, strict=strict, context=info.context)


AnyLossConfig = Annotated[SerializeAsAny[LossConfig], BeforeValidator(_validate_by_terms)]


def evaluate_terms(step: SupervisionStep, config: LossConfig, names: Iterable[str]) -> dict[str, Tensor]:
    """Return the named terms as float32 scalars. Raises ConfigError if one is not a scalar or has no gradient."""
    return {name: _checked(name, TERMS[name].function(step, *config.arguments(name)), step) for name in names}


def _checked(name: str, term: object, step: SupervisionStep) -> Tensor:
    if not isinstance(term, Tensor) or term.ndim:
        got = f"a tensor of shape {tuple(term.shape)}" if isinstance(term, Tensor) else f"{term!r}"
        fault = f"{got}; it must return a scalar tensor: step.row_mean(rows) of rows (B,)"
    elif torch.is_grad_enabled() and not term.requires_grad and all(p.requires_grad for p in step.model.parameters()):
        fault = f"{term.item():g} without a gradient; leave out detach(), item() and argmax"  # no frozen x̂ explains it
    else:
        return term.float()
    raise ConfigError(f"{defined(TERMS[name].function)} returned {fault}, or type loss.weights.{name}=0")


def weighted_sum(terms: Mapping[str, Tensor], weights: Mapping[str, float | Tensor]) -> Tensor:
    """Return Σ λ_n L_n."""
    return torch.stack([weights[name] * loss for name, loss in terms.items()]).sum()
