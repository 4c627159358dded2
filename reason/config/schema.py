"""One run's whole config, and the command line's way to change it: `section.key=value`.

Defaults < preset < file < command line.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, get_args, get_origin

from pydantic import BaseModel, Field, ValidationError, model_validator
from pydantic.fields import FieldInfo

from reason.config.base import PLAIN, BaseConfig
from reason.config.files import read_json
from reason.data import DataConfig
from reason.errors import ConfigError
from reason.evaluation.config import EvaluationConfig
from reason.losses import LossConfig
from reason.losses.balance import BalanceConfig
from reason.models import FAMILIES, LoopedConfig, ModelConfig, RecursiveConfig
from reason.rollout import RolloutConfig
from reason.training.config import TrainingConfig
from reason.training.ema import EmaConfig
from reason.training.optim import OptimizerConfig
from reason.training.warm_start import LayerOrder


class Config(BaseConfig):
    """Everything that decides a run: the rooms' own sections, and a seed."""

    name: str = Field("custom", pattern=PLAIN, description="the preset it came from: a plain name")
    seed: int = Field(0, ge=0, lt=2**63, description="of weights, data order, augmentation and exploration")
    init_from: str | None = Field(None, description="a run whose trained weights this one starts from; none: random")
    init_layers: LayerOrder = Field(
        "same",
        description="how a stack of L layers fills one of n·L: same: not at all; cycle: 1…L 1…L, so that one loop does "
        "what n loops did; repeat: 1 1 … L L",
    )
    device: str = Field("auto", pattern=r"^(auto|cpu|mps|cuda(:\d+)?)$", description="auto, cpu, mps, cuda, cuda:1")
    data: DataConfig = DataConfig()
    model: ModelConfig = RecursiveConfig()
    rollout: RolloutConfig = RolloutConfig()
    loss: LossConfig = LossConfig()
    balance: BalanceConfig = BalanceConfig()
    optimizer: OptimizerConfig = OptimizerConfig()
    ema: EmaConfig = EmaConfig()
    training: TrainingConfig = TrainingConfig()
    evaluation: EvaluationConfig = EvaluationConfig()

    @model_validator(mode="after")
    def _model_fits_rollout(self) -> Config:
        loops, weights = self.rollout.loops, self.loss.weights
        if isinstance(self.model, LoopedConfig):
            trained = next((name for name in ("q_halt", "q_continue") if getattr(weights, name)), None)
            if trained is not None:
                raise ValueError(f"a looped model has no halting head to train: type loss.weights.{trained}=0")
            if self.rollout.halting not in ("none", "gate"):
                raise ValueError("a looped model has no halting head to ask: type rollout.halting=none")
            if self.optimizer.freeze_embedding_after is not None:
                raise ValueError(
                    "a looped model's embedding is its head too, and cannot rest alone: type "
                    "optimizer.freeze_embedding_after=none"
                )
        elif (loops.distribution != "fixed" or loops.count > 1) and self.model.gradient != "all-cycles":
            raise ValueError(
                f"rollout.loops asks for several supervision steps in one backward pass, and no gradient passes from "
                f"one to the one before under model.gradient={self.model.gradient}: type model.gradient=all-cycles, or "
                "rollout.loops.distribution=fixed rollout.loops.count=1 (rollout.grad_steps averages gradients over "
                "steps)"
            )
        return self

    @model_validator(mode="after")
    def _gate_is_there_and_learns(self) -> Config:
        weights, loops, gate = self.loss.weights, self.rollout.loops, self.model.gate
        stage_1 = next((name for name in ("exit", "exit_entropy") if getattr(weights, name)), None)
        learns = stage_1 or ("exit_gate" if weights.exit_gate else None)
        if learns and gate == "none":
            raise ValueError(f"loss.weights.{learns} needs an exit gate: type model.gate=position, or puzzle")
        several = loops.distribution != "fixed" or loops.count > 1
        if stage_1 and not (several and loops.supervision == "per-loop"):
            raise ValueError(
                f"loss.weights.{stage_1} weighs the losses of several loops of one backward pass: type "
                "rollout.loops.count=4 rollout.loops.supervision=per-loop"
            )
        if weights.exit_gate and several and loops.supervision != "per-loop":
            raise ValueError("loss.weights.exit_gate compares every loop: type rollout.loops.supervision=per-loop")
        if weights.exit_gate and self.rollout.trained_steps < (2 if self.loss.exit.first else 3):
            raise ValueError(
                f"loss.weights.exit_gate teaches the gate from loop 2 to the last but one, and there are "
                f"{self.rollout.trained_steps}: type rollout.loops.count=4"
            )
        if self.rollout.halting == "gate" and gate != "puzzle":
            raise ValueError(f"rollout.halting=gate asks a gate per puzzle, not model.gate={gate}: model.gate=puzzle")
        if self.rollout.halting == "gate" and not (learns or self.init_from):
            raise ValueError("rollout.halting=gate asks a gate that no loss trains: type loss.weights.exit_gate=1")
        if self.training.only == "gate" and not (learns and self.init_from):
            raise ValueError(
                "training.only=gate trains the exit gate of a finished run by one of its losses: type init_from=RUN "
                "and loss.weights.exit_gate=1"
            )
        return self

    @model_validator(mode="after")
    def _final_readouts_are_reached(self) -> Config:
        model, rollout = self.model, self.rollout
        if isinstance(model, LoopedConfig) and model.readout == "final-only":
            if rollout.supervision_steps > 1:
                raise ValueError("model.readout=final-only counts loops of one pass: type rollout.supervision_steps=1")
            if rollout.trained_steps < model.final_from:
                raise ValueError(
                    f"model.readout=final-only normalises from loop {model.final_from} on, and training takes "
                    f"{rollout.trained_steps}: type model.final_from={rollout.trained_steps}"
                )
        if self.init_layers != "same" and not self.init_from:
            raise ValueError(
                f"init_layers={self.init_layers} duplicates the layers of a trained run: type init_from=RUN"
            )
        return self

    @model_validator(mode="after")
    def _composes(self) -> Config:
        learns = self.loss.weights.q_continue > 0
        if learns and self.rollout.halting != "q-learning":
            raise ValueError("loss.weights.q_continue needs its target: type rollout.halting=q-learning")
        if not learns and self.rollout.halting == "q-learning":
            raise ValueError(
                "rollout.halting=q-learning reads q_continue, which no loss trains: type loss.weights.q_continue=0.5"
            )
        if self.rollout.halting in ("bce", "q-learning") and self.loss.weights.q_halt == 0:
            raise ValueError(
                f"rollout.halting={self.rollout.halting} asks a head that no loss trains: type loss.weights.q_halt=1, "
                "or rollout.halting=none"
            )
        if self.loss.weights.rep_z_l > 0 and (isinstance(self.model, LoopedConfig) or self.model.states == 1):
            mend = "" if isinstance(self.model, LoopedConfig) else "model.states=2, or "
            raise ValueError(f"loss.weights.rep_z_l needs a low state: type {mend}loss.weights.rep_z=1e3")
        if self.loss.weights.jsrr and self.loss.jsrr.convex and self.balance.kind != "fixed":
            raise ValueError(
                f"loss.jsrr.convex fixes LM's weight at 1 − λ, which balance.kind={self.balance.kind} chooses itself: "
                "type loss.jsrr.convex=false"
            )
        strangers = [name for name in self.balance.targets if name not in self.loss.present]
        if strangers:
            raise ValueError(f"balance.targets: {strangers[0]} is no term of this loss: {', '.join(self.loss.present)}")
        if self.balance.targets and self.balance.kind == "fixed":
            raise ValueError("balance.targets are aimed at by a balancer: type balance.kind=alg-grad-norm")
        return self


def split_arguments(
    arguments: Iterable[str], shortcuts: Mapping[str, str] | None = None
) -> tuple[list[str], dict[str, str]]:
    """Words and `key=value` pairs of a command line, apart; `shortcuts` are written out ("data" → "data.directory").

    Raises:
        ConfigError: a key is given twice.
    """
    words: list[str] = []
    pairs: dict[str, str] = {}
    for argument in arguments:
        key, equals, value = argument.partition("=")
        key = (shortcuts or {}).get(key, key)
        if not equals:
            words.append(argument)
        elif key in pairs:
            raise ConfigError(f"{key} is given twice: {pairs[key]} and {value}; keep one")
        else:
            pairs[key] = value
    return words, pairs


def override(config: Config, pairs: dict[str, str]) -> Config:
    """The config with `section.key=value` settings in place, checked as a whole.

    Raises:
        ConfigError: an unknown key (the nearest one is named), or a value of the wrong type or range.
    """
    return override_tree(config.model_dump(), pairs)


def override_tree(tree: dict[str, Any], pairs: dict[str, str]) -> Config:
    """The same for a config's plain tree, which need not be valid before the settings are in place.

    Raises:
        ConfigError: as `override`.
    """
    for key, value in pairs.items():
        *path, leaf = key.split(".")
        node: Any = tree
        for part in path:
            node = node.get(part) if isinstance(node, dict) else None
        if not isinstance(node, dict) or leaf not in node:
            raise ConfigError(_unknown_key(key, tree))
        if key == "model.kind" and value != node[leaf]:
            raise ConfigError(_other_family(value, tree))
        field = _field([*path, leaf], _family(tree))
        whole = field is not None and get_origin(field.annotation) is dict  # named by the user, so given as one value
        if isinstance(node[leaf], dict) and not whole:
            inner = ", ".join(f"{key}.{name}" for name in node[leaf])
            raise ConfigError(f"{key} is a section; type one of its keys: {inner}")
        node[leaf] = _parsed(value, field)
    return validated(tree, shown=pairs)


def _parsed(text: str, field: FieldInfo | None) -> Any:
    if text.lower() in ("none", "null") and field is not None and type(None) in get_args(field.annotation):
        return None
    if text[:1] in "[{":
        try:
            return json.loads(text)
        except json.JSONDecodeError:
            return text
    return text


def _family(tree: Any) -> str:
    """The kind of model that a config's tree describes."""
    model = tree.get("model") if isinstance(tree, dict) else None
    kind = model.get("kind") if isinstance(model, dict) else None
    return kind if kind in FAMILIES else "recursive"


def _other_family(kind: str, tree: dict[str, Any]) -> str:
    mine = tree["model"]["kind"]
    if kind not in FAMILIES:
        return f"model.kind={kind}: a model is {' or '.join(FAMILIES)}, and this one is {mine}"
    return (
        f"model.kind={kind}: {tree.get('name')} is a {mine} model, and the settings of a {kind} one mean other things; "
        f"start from a {kind} preset (`reason presets` lists them)"
    )


def _field(path: list[str], family: str) -> FieldInfo | None:
    """The field of Config at a dotted path, its model of that family."""
    room: Any = Config
    for depth, part in enumerate(path[:-1]):
        field = room.model_fields.get(part)
        room = type(field.default) if field is not None else None
        if depth == 0 and part == "model":
            room = FAMILIES[family]
        if room is None or not issubclass(room, BaseModel):
            return None
    return room.model_fields.get(path[-1]) if path else None


def validated(tree: Any, shown: dict[str, str] | None = None) -> Config:
    """A config from its plain tree.

    Raises:
        ConfigError: naming the first key at fault, what was got and what is allowed.
    """
    try:
        return Config.model_validate(tree)
    except ValidationError as error:
        first = error.errors()[0]
        path = [str(part) for part in first["loc"] if part not in FAMILIES]
        key = ".".join(path)
        family = _family(tree)
        if first["type"] == "extra_forbidden":
            known = Config().model_dump() | {"model": FAMILIES[family]().model_dump()}
            raise ConfigError(_unknown_key(key, known)) from None
        message = first["msg"].removeprefix("Value error, ")
        if first["type"] == "value_error":  # our own validators say the mend themselves
            raise ConfigError(f"{key}: {message}" if key else message) from None
        got = (shown or {}).get(key, first.get("input"))
        raise ConfigError(f"{key}={got}: {message[:1].lower() + message[1:]}{_about(path, family)}") from None


def _about(path: list[str], family: str) -> str:
    """'; <description> (default X)' for a key of Config, else ''."""
    field = _field(path, family)
    return "" if field is None else f"; {field.description} (default {field.default})"


def _unknown_key(key: str, tree: dict[str, Any]) -> str:
    family = _family(tree)
    for other, room in FAMILIES.items():
        if other != family and key.startswith("model.") and key.removeprefix("model.") in room.model_fields:
            return f"unknown setting {key}: a {other} model has it, and this one is {family}"
    known = list(leaves(tree))
    near = difflib.get_close_matches(key, known, n=1, cutoff=0.6) or [
        name for name in known if name.rsplit(".")[-1] == key.rsplit(".")[-1]
    ]
    hint = (
        f"; did you mean {near[0]}?"
        if near
        else f"; sections are {', '.join(k for k in tree if isinstance(tree[k], dict))}"
    )
    return f"unknown setting {key}{hint}"


def leaves(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """{"section.key": value} for every leaf of a config's tree."""
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        flat |= leaves(value, f"{prefix}{key}.") if isinstance(value, dict) and value else {f"{prefix}{key}": value}
    return flat


def describe_settings() -> list[tuple[str, str, str]]:
    """(key, default, description) of every setting, for --help; the models' own, family by family."""

    def walk(room: type[BaseModel], prefix: str) -> Iterable[tuple[str, str, str]]:
        for name, field in room.model_fields.items():
            if room is Config and name == "model":
                for family, settings in FAMILIES.items():
                    yield from ((key, default, f"{family}: {text}") for key, default, text in walk(settings, "model."))
            elif isinstance(field.default, BaseModel):
                yield from walk(type(field.default), f"{prefix}{name}.")
            else:
                yield f"{prefix}{name}", str(field.default), field.description or ""

    return [row for row in walk(Config, "") if row[0] not in ("name", "model.kind")]


def read_config(path: Path | str) -> Config:
    """A config from the `config` field of a run's config.json.

    Raises:
        ConfigError: the file is missing or does not hold a config of this version.
    """
    path = Path(path)
    try:
        return validated(read_json(path)["config"])
    except FileNotFoundError:
        raise ConfigError(f"no run at {path.parent}: {path} is missing; name a folder that train.py made") from None
    except ConfigError as error:
        raise ConfigError(str(error) if str(path) in str(error) else f"{path}: {error}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{path} is not a run's config ({error!r}); is the folder a run?") from None
