"""Helpers of the pages: templates that escape, JSON for a <script>, and files inlined in the page."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup


def environment(package: str) -> Environment:
    """Return the templates of a package's folder `template`; values are escaped."""
    return Environment(
        loader=PackageLoader(package, "template"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip


def part(package: str, *names: str) -> Markup:
    """Concatenate files of a package's folder `template` verbatim."""
    folder = files(package) / "template"
    return Markup("\n".join((folder / name).read_text(encoding="utf-8") for name in names))


def as_json(value: Any) -> Markup:
    """Return JSON that is safe inside a <script>."""
    return Markup(json.dumps(value, separators=(",", ":")).replace("<", "\\u003c"))
