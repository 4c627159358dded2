"""Changes of a config: a command line overrides a preset, which overrides the defaults; and their errors.

`read_config` reads a run's config.json in place of a preset.
"""

from __future__ import annotations

import difflib
import functools
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args, get_origin

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from reason.config.schema import Config
from reason.errors import ConfigError
from reason.files import read_json
from reason.models import FAMILIES, has_family
from reason.plugins import ADD_IMPORT, installed, missing_import
from reason.settings.base import BaseConfig
from reason.settings.base import leaves as leaves
from reason.settings.base import value_text as value_text

Changes = dict[str, object]  # {"section.key": value}, each value of the setting's own type


def split_arguments(
    arguments: Iterable[str], shortcuts: Mapping[str, str] | None = None
) -> tuple[list[str], dict[str, str]]:
    """Split a command line into words and `key=value` pairs; `shortcuts` are expanded ("data" → "data.directory").

    A separator before the '=' makes it a path, and so a word: runs/lr=0.1. A key that is given twice is refused.
    """
    words: list[str] = []
    pairs: dict[str, str] = {}
    shortcuts = shortcuts or {}
    for argument in arguments:
        key, equals, value = argument.partition("=")
        key = shortcuts.get(key, key)
        if not equals or "/" in key or os.sep in key:
            words.append(argument)
        elif near := difflib.get_close_matches(key, shortcuts, n=1, cutoff=0.8):
            raise ConfigError(f"unknown setting {key}; did you mean {near[0]}={value}?")
        elif key in pairs:
            raise ConfigError(f"{key} is given twice: {pairs[key]} and {value}; keep one")
        else:
            pairs[key] = value
    return words, pairs


def derive(base: Config, changes: Changes) -> Config:
    """Apply `changes` to the config `base` and check the whole.

    Values have the setting's own type: the text "2" is refused for an int. A `model.kind` other than the base's starts
    the model's section from that family's defaults.

    Raises ConfigError for an unknown key (the nearest one is named), or a value of the wrong type or range.
    """
    tree = base.model_dump()
    _take_kind(tree, changes.get("model.kind"))
    for key, value in changes.items():
        _place(tree, key, value)
    return validated(tree, shown=changes, strict=True)


def override(config: Config | dict[str, Any], pairs: Mapping[str, str]) -> Config:
    """Apply `section.key=value` settings of a command line to a config and check the whole, as `derive` does.

    A plain tree of a config need not be valid before the settings are in place.
    """
    tree = config.model_dump() if isinstance(config, Config) else config
    _take_kind(tree, pairs.get("model.kind"))
    for key, value in pairs.items():
        _place(tree, key, typed_as(value, field_of(key.split("."), _family(tree))), f"={value}")
    return validated(tree, shown=pairs)


def parsed(config: Config, pairs: Mapping[str, str]) -> Changes:
    """Return the settings of a command line as values of their own types; errors are those of `override`."""
    values = leaves(override(config, pairs).model_dump())
    return {key: value for key, value in values.items() if any(f"{key}.".startswith(f"{typed}.") for typed in pairs)}


def changes_between(own: Config, other: Config) -> Changes:
    """Return the settings of `other` whose values differ from those of `own`."""
    before, after = (leaves(config.model_dump()) for config in (own, other))
    return {key: value for key, value in after.items() if key not in before or before[key] != value}


def _take_kind(tree: dict[str, Any], kind: object) -> None:
    """Insert a model of another family, with its defaults and the values that it brings for other sections."""
    if kind != tree["model"]["kind"] and has_family(kind):
        config = FAMILIES[kind].config
        tree["model"] = config().model_dump()
        for key, value in config.brings.items():
            _place(tree, key, value)


def _place(tree: dict[str, Any], key: str, value: object, typed: str = "") -> None:
    *path, leaf = key.split(".")
    node: Any = tree
    for part in path:
        node = node.get(part) if isinstance(node, dict) else None
    if not isinstance(node, dict) or leaf not in node:
        raise ConfigError(_unknown_key(key, tree, typed))
    field = field_of([*path, leaf], _family(tree))
    whole = field is not None and get_origin(field.annotation) is dict  # its keys are the user's: one value
    if isinstance(value, BaseConfig):  # a whole section
        value = value.model_dump()
    elif isinstance(node[leaf], dict) and not whole:
        inner = ", ".join(f"{key}.{name}" for name in node[leaf])
        raise ConfigError(f"{key} is a section; type one of its keys: {inner}")
    node[leaf] = value


def as_typed(changes: Changes) -> list[str]:
    """Return `section.key=value` for each change, as `override` parses it."""
    return [f"{key}={value_text(value)}" for key, value in changes.items()]


def typed_as(text: str, field: FieldInfo | None) -> Any:
    """Convert a text of a command line to the value of a field; pydantic checks it."""
    if text.lower() in ("none", "null") and field is not None and type(None) in get_args(field.annotation):
        return None
    if field is not None and get_origin(field.annotation) is tuple and text[:1] != "[":
        return [part.strip() for part in text.split(",")]
    if text[:1] in "[{" or field is None:  # of a key in a table
        try:
            return json.loads(text)
        except (ValueError, RecursionError):  # pydantic refuses the text
            return text
    return text


def _family(tree: Any) -> str:
    model = tree.get("model") if isinstance(tree, dict) else None
    kind = model.get("kind") if isinstance(model, dict) else None
    return kind if has_family(kind) else "recursive"


def section_of(path: list[str], family: str) -> type[BaseConfig] | None:
    """Return the section of Config at a dotted path for a model of that family, or None."""
    section: type[BaseConfig] = Config
    for depth, part in enumerate(path):
        field = section.settings().get(part)
        if depth == 0 and part == "model":
            section = FAMILIES[family].config
        elif field is not None and isinstance(inner := field.get_default(call_default_factory=True), BaseConfig):
            section = type(inner)
        else:
            return None
    return section


def field_of(path: list[str], family: str) -> FieldInfo | None:
    """Return the field of Config at a dotted path for a model of that family, or None."""
    section = section_of(path[:-1], family)
    return section.settings().get(path[-1]) if path and section is not None else None


def validated(tree: Any, shown: Mapping[str, object] | None = None, strict: bool = False) -> Config:
    """Return the config of a plain tree; `strict`: no conversion from text. Raises ConfigError for the first fault."""
    try:
        return Config.model_validate(tree, strict=strict, context={"strict": strict})
    except ValidationError as error:
        first = error.errors()[0]
        parts = map(str, first["loc"])
        path = [part for part in parts if part.isidentifier() or part.isdecimal()]  # no type's name
        key, family = ".".join(path), _family(tree)
        if first["type"] == "extra_forbidden":
            known = Config().model_dump() | {"model": FAMILIES[family].config().model_dump()}
            raise ConfigError(_unknown_key(key, known)) from None
        message = first["msg"].removeprefix("Value error, ")
        if first["type"] == "value_error":  # the messages of our validators say what to type
            raise ConfigError(f"{key}: {message}" if key else message) from None
        got = str((shown or {}).get(key, first["input"]))
        field = field_of(path, family)
        about = f"; {field.description} (default {field.default})" if field is not None and field.description else ""
        raise ConfigError(f"{key}={got[:80]}: {message[:1].lower() + message[1:]}{about}") from None


def _unknown_key(key: str, tree: dict[str, Any], typed: str = "") -> str:
    """Return the error text for an unknown key; `typed` is "=value" if it was typed."""
    family, (section, _, rest) = _family(tree), key.partition(".")
    for other, (settings, _) in FAMILIES.items():
        if other != family and section == "model" and rest in settings.model_fields:
            return f"unknown setting {key}: a {other} model has it, and this one is {family}"
    own = ADD_IMPORT if section in ("loss", "model") else ""  # a file may define settings of both
    if (near := nearest_setting(key, tree)) is not None:
        return f"unknown setting {key}; did you mean {near}{typed}? {own}".rstrip()
    sections = [name for name in tree if isinstance(tree[name], dict)]
    if section in sections:
        return f"unknown setting {key}; see: python train.py --help {section}; {installed()}; {own}".rstrip("; ")
    return f"unknown setting {key}; sections are {', '.join(sections)}"


def nearest_setting(key: str, tree: dict[str, Any] | None = None) -> str | None:
    """Return the setting that `key` most likely means: an equal last part, or the closest spelling."""
    known = list(leaves(Config().model_dump() if tree is None else tree))
    last = key.rpartition(".")[2].replace("-", "_").lower()
    short = "".join(word[:1] for word in last.split("_"))  # lr of learning_rate
    alike = [name for name in known if name.rpartition(".")[2] in (last, short)]
    near = difflib.get_close_matches(key.lower(), alike or known, n=1, cutoff=0 if alike else 0.82)
    return near[0] if near else None


def flattened(sections: Mapping[str, Any], prefix: str = "") -> Changes:
    """Return {"section": {"key": value}} as {"section.key": value}; a setting whose value is a table stays one."""
    flat: Changes = {}
    for name, value in sections.items():
        key = f"{prefix}{name}"
        fields = [field_of(key.split("."), family) for family in FAMILIES]
        table = any(field is not None and get_origin(field.annotation) is dict for field in fields)
        flat |= flattened(value, f"{key}.") if isinstance(value, Mapping) and not table else {key: value}
    return flat


def differing(trees: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return {"section.key": its value in each config} of settings that differ; ... if a config lacks one."""
    flat = [leaves(dict(tree)) for tree in trees]
    keys = dict.fromkeys(key for one in flat for key in one)
    values = {key: [one.get(key, ...) for one in flat] for key in keys}
    return {key: found for key, found in values.items() if any(value != found[0] for value in found)}


NEUTRAL = {"model.integrator": "euler", "model.substeps": 1, "model.equation": "impulse", "model.readout": "raw"}


def renewed(config: dict[str, Any]) -> dict[str, Any]:
    """Remove unknown settings that are 0, none, false, empty or `NEUTRAL` from the plain tree of a config, in place.

    They come from another version or a missing extension and have no effect. Any other unknown setting is refused.
    """
    for key in [key for key, value in leaves(config).items() if not value or NEUTRAL.get(key) == value]:
        *path, name = key.split(".")
        section = section_of(path, _family(config))
        if section is not None and name not in section.settings():
            del functools.reduce(dict.__getitem__, path, config)[name]
            if path == ["loss", "weights"]:  # a term may have its own section
                config["loss"].pop(name, None)
    return config


def read_config(path: Path | str) -> Config:
    """Load the config of a run's config.json, converted to this version. Raises ConfigError if there is none."""
    path, missing = Path(path), None
    try:
        record = read_json(path)
        config, missing = record["config"], missing_import(record.get("imports", []))
        return validated(renewed(config))
    except (FileNotFoundError, NotADirectoryError):
        fix = "name a folder that train.py made"
        if path.parent.is_file():
            fix = f"of a checkpoint of HRM or TRM, `reason import-weights {path.parent}` makes one"
        raise ConfigError(f"no run at {path.parent}: {path} is missing; {fix}") from None
    except ConfigError as error:
        said = str(error) if str(path) in str(error) else f"{path}: {error}"
        made = f"; the run was made with --import {missing}"
        raise ConfigError(said.removesuffix(ADD_IMPORT).rstrip("; ") + made if missing else said) from None
    except (AttributeError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{path} is not a run's config ({error!r}); is the folder a run?") from None
