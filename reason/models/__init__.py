"""Reasoners: discrete dynamical systems with a readout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, NamedTuple, TypeGuard

import torch
from pydantic import BeforeValidator, SerializeAsAny, ValidationInfo

from reason.models.base import ModelConfig, Reasoner, Shape
from reason.models.recursive import RecursiveModel
from reason.models.recursive_config import RecursiveConfig
from reason.plugins import installed


class Family(NamedTuple):
    """A kind of model: its settings, whose `kind` is its name, and the model, built as model(config, shape, dtype)."""

    config: type[ModelConfig]
    model: type[Reasoner]


FAMILIES: dict[str, Family] = {  # add an entry to define your own family
    "recursive": Family(RecursiveConfig, RecursiveModel),
}
FINDERS: list[Callable[[str], bool]] = []  # of extensions: each may add a family whose name the table lacks


def has_family(kind: object) -> TypeGuard[str]:
    """Return whether a kind of model is in the table, or a finder adds it."""
    return isinstance(kind, str) and (kind in FAMILIES or any(find(kind) for find in FINDERS))


def _validate_by_family(section: Any, info: ValidationInfo) -> Any:
    """Return the section as its family's config; `strict` in the context is that of the whole validation."""
    if not isinstance(section, dict):
        return section
    if not has_family(kind := section.get("kind")):
        raise ValueError(f"a model is {', '.join(FAMILIES)} or a class of an --import FILE; got {kind}; {installed()}")
    strict = (info.context or {}).get("strict")
    return FAMILIES[kind].config.model_validate(section, strict=strict, context=info.context)


AnyModelConfig = Annotated[SerializeAsAny[ModelConfig], BeforeValidator(_validate_by_family)]


def build_model(
    config: ModelConfig, shape: Shape, dtype: torch.dtype = torch.float32, products: torch.dtype | None = None
) -> Reasoner:
    """Build the model that `config` describes for puzzles of `shape`; weights stay float32.

    States are computed in `dtype`, matrix products in `products` if that is given.
    """
    model = FAMILIES[config.kind].model(config, shape, dtype)
    model.products = products
    return model
