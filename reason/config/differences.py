"""Which settings set configs apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from reason.config.overrides import leaves


def differing(trees: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """{"section.key": its value in each config} of settings that differ; ... where a config lacks one."""
    flat = [leaves(dict(tree)) for tree in trees]
    keys = dict.fromkeys(key for one in flat for key in one)
    values = {key: [one.get(key, ...) for one in flat] for key in keys}
    return {key: found for key, found in values.items() if any(value != found[0] for value in found)}
