"""Helpers of the pages: templates that escape, JSON for a <script>, and files inlined in the page."""

from __future__ import annotations

from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup


def environment(package: str) -> Environment:
    """Return the templates of a package's folder `template`; values are escaped."""
    made = Environment(
        loader=PackageLoader(package, "template"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    made.policies["json.dumps_kwargs"] = {"separators": (",", ":")}  # of the filter tojson
    return made


def part(package: str, *names: str) -> Markup:
    """Concatenate files of a package's folder `template` verbatim."""
    folder = files(package) / "template"
    return Markup("\n".join((folder / name).read_text(encoding="utf-8") for name in names))
