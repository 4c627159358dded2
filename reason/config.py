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

from reason.balance import BalanceConfig
from reason.data import DataConfig
from reason.errors import ConfigError
from reason.evaluation.config import EvaluationConfig
from reason.losses import LossConfig
from reason.models import ModelConfig, RecursiveConfig
from reason.rollout import RolloutConfig
from reason.section import Section
from reason.training.config import TrainingConfig
from reason.training.ema import EmaConfig
from reason.training.optim import OptimizerConfig


class Config(Section):
    """Everything that decides a run: the rooms' own sections, and a seed."""

    name: str = Field("custom", description="the preset it came from")
    seed: int = Field(0, ge=0, lt=2**63, description="of weights, data order, augmentation and exploration")
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
    def _composes(self) -> Config:
        learns = self.loss.weights.q_continue > 0
        if learns and self.rollout.halting != "q-learning":
            raise ValueError("loss.weights.q_continue needs its target: type rollout.halting=q-learning")
        if not learns and self.rollout.halting == "q-learning":
            raise ValueError(
                "rollout.halting=q-learning reads q_continue, which no loss trains: type loss.weights.q_continue=0.5"
            )
        if self.loss.weights.rep_z_l > 0 and self.model.states == 1:
            raise ValueError("loss.weights.rep_z_l needs a low state: type model.states=2, or loss.weights.rep_z=1e3")
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
        field = _field([*path, leaf])
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


def _field(path: list[str]) -> FieldInfo | None:
    """The field of Config at a dotted path."""
    room: Any = Config
    for part in path[:-1]:
        field = room.model_fields.get(part)
        room = type(field.default) if field is not None else None
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
        path = [str(part) for part in first["loc"] if part not in ("recursive",)]
        key = ".".join(path)
        if first["type"] == "extra_forbidden":
            raise ConfigError(_unknown_key(key, Config().model_dump())) from None
        message = first["msg"].removeprefix("Value error, ")
        if first["type"] == "value_error":  # our own validators say the mend themselves
            raise ConfigError(f"{key}: {message}" if key else message) from None
        got = (shown or {}).get(key, first.get("input"))
        raise ConfigError(f"{key}={got}: {message[:1].lower() + message[1:]}{_about(path)}") from None


def _about(path: list[str]) -> str:
    """'; KEY is <description> (default X)' for a key of Config, else ''."""
    field = _field(path)
    return "" if field is None else f"; {field.description} (default {field.default})"


def _unknown_key(key: str, tree: dict[str, Any]) -> str:
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
    """(key, default, description) of every setting, for --help."""

    def walk(room: type[BaseModel], prefix: str) -> Iterable[tuple[str, str, str]]:
        for name, field in room.model_fields.items():
            if isinstance(field.default, BaseModel):
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
        return validated(json.loads(path.read_text())["config"])
    except FileNotFoundError:
        raise ConfigError(f"no run at {path.parent}: {path} is missing; name a folder that train.py made") from None
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{path} is not a run's config ({error!r}); is the folder a run?") from None
