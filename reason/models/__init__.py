"""Reasoners: discrete dynamical systems with a readout."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import torch
from pydantic import BeforeValidator, SerializeAsAny, ValidationError, ValidationInfo
from pydantic_core import InitErrorDetails, PydanticCustomError

from reason.models.base import ModelConfig, Reasoner, Shape
from reason.models.recursive import RecursiveModel
from reason.models.recursive_config import RecursiveConfig


class Family(NamedTuple):
    """A kind of model: its settings, whose `kind` is its name, and the model, built as model(config, shape, dtype)."""

    config: type[ModelConfig]
    model: type[Reasoner]


FAMILIES: dict[str, Family] = {  # a family of one's own is one entry more
    "recursive": Family(RecursiveConfig, RecursiveModel),
}


def _of_its_family(section: Any, info: ValidationInfo) -> Any:
    """The section as its family's config; `strict` in the context is that of the whole validation."""
    if not isinstance(section, dict):
        return section
    kind = section.get("kind")
    if not isinstance(kind, str) or kind not in FAMILIES:
        unknown = PydanticCustomError("unknown_family", f"a model is {' or '.join(FAMILIES)}")
        raise ValidationError.from_exception_data("model", [InitErrorDetails(type=unknown, loc=("kind",), input=kind)])
    strict = (info.context or {}).get("strict")
    return FAMILIES[kind].config.model_validate(section, strict=strict, context=info.context)


AnyModelConfig = Annotated[SerializeAsAny[ModelConfig], BeforeValidator(_of_its_family)]


def build_model(
    config: ModelConfig, shape: Shape, dtype: torch.dtype = torch.float32, products: torch.dtype | None = None
) -> Reasoner:
    """The model that `config` describes for puzzles of `shape`; weights stay float32.

    States are computed in `dtype`, matrix products in `products` where that is given.
    """
    model = FAMILIES[config.kind].model(config, shape, dtype)
    model.products = products
    return model
