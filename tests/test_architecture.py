"""Imports point one way, without circles, and files stay readable."""

import ast
import functools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = sorted([*ROOT.glob("reason/**/*.py"), *ROOT.glob("datasets_gen/**/*.py")])

# What no file of a package may import (the figure is in docs/architecture.md).
NEVER = {
    "datasets_gen": {"reason"},
    "reason.errors": {"reason", "datasets_gen"},
    "reason.nn": {"reason.models", "reason.losses", "reason.training", "reason.data", "reason.config"},
    "reason.models": {"reason.losses", "reason.rollout", "reason.training", "reason.data", "reason.config"},
    "reason.rollout": {"reason.losses", "reason.training", "reason.data", "reason.config"},
    "reason.losses": {"reason.training", "reason.data", "reason.config"},
    "reason.data": {"reason.losses", "reason.training", "reason.config"},
    "reason.training": {"reason.evaluation", "reason.report"},
    "reason.evaluation": {"reason.config.schema", "reason.training.loop"},
    "reason.report": {"reason.models", "reason.losses", "reason.training", "reason.config", "reason.data"},
}
ABOVE = ("reason.presets", "reason.runs", "reason.solve", "reason.api")
LOWER = ("datasets_gen", "reason.errors", "reason.files", "reason.plugins", "reason.settings", "reason.nn",
         "reason.dynamics", "reason.models", "reason.data", "reason.rollout", "reason.losses", "reason.training",
         "reason.evaluation", "reason.report", "reason.config", "reason.pretrained")  # fmt: skip


def module(path):
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


MODULES = {module(path) for path in FILES}
tree_of = functools.cache(lambda path: ast.parse(path.read_text(encoding="utf-8")))


def imports(path, first=False):
    """What a file imports, `from package import module` as that module; `first`: when it is imported itself."""
    tree, found = tree_of(path), set()
    later = ast.FunctionDef if first else ()
    for_types = [n for n in ast.walk(tree) if isinstance(n, ast.If) and "TYPE_CHECKING" in ast.unparse(n.test)]
    skipped = [*for_types, *(node for node in ast.walk(tree) if isinstance(node, later))]
    left_out = {inner for node in skipped for inner in ast.walk(node)}
    for node in ast.walk(tree):
        if node in left_out:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= (inner & MODULES) | ({node.module or ""} if inner - MODULES else set())
    return found


def within(name, packages):
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def test_imports_point_one_way_and_no_file_imports_itself_through_others():
    commands = ["reason.__main__", "reason.cli", "reason.extensions"]
    for path in FILES:
        here = module(path)
        never = set().union(*(names for package, names in NEVER.items() if within(here, [package])))
        never |= set(ABOVE) if within(here, LOWER) else set()
        never |= set() if within(here, commands) else {"reason.cli"}
        never |= {"torch"} if within(here, ["datasets_gen"]) else set()
        for extensions in ("reason.extensions", "datasets_gen.extensions"):
            never |= set() if within(here, ["reason.extensions", extensions]) else {extensions}
        for name in imports(path):
            assert not within(name, never), f"{here} must not import {name}"
    # Circles are looked for among files: two packages may use each other.
    files = {module(path): imports(path, first=True) for path in FILES}
    arrows = {here: {name for name in names if name in files and name != here} for here, names in files.items()}
    while ends := {here for here, names in arrows.items() if not names}:
        arrows = {here: names - ends for here, names in arrows.items() if here not in ends}
    assert not arrows, f"a circle among {sorted(arrows)}"


def test_files_keep_the_rules_of_the_house():
    """Small; only models know their families; configs are derived; text is UTF-8 whatever the locale."""
    for path in FILES:
        here, text = module(path), path.read_text(encoding="utf-8")
        assert len(text.splitlines()) <= 500, f"{here}: two things may live here"
        if not within(here, ["datasets_gen"]):
            assert "model_copy(" not in text, f"{here}: a config is changed by `derive`, which validates it"
        models = within(here, ["reason.models", "reason.extensions.kernels"])
        for node in (node for node in ast.walk(tree_of(path)) if isinstance(node, ast.Call)):
            named = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if named in ("isinstance", "issubclass") and not models:  # what a family can do is asked of its config
                assert not re.search(r"Looped|Recursive", ast.unparse(node.args[1])), f"{here}: {ast.unparse(node)}"
            binary = any(isinstance(arg, ast.Constant) and "b" in str(arg.value) for arg in node.args)
            others = ("os.", "tarfile.", "Image.", "webbrowser.")
            opened = named == "open" and not (binary or ast.unparse(node.func).startswith(others))
            if named in ("write_text", "fdopen") or opened or (named == "read_text" and not node.args):
                assert any(word.arg == "encoding" for word in node.keywords), f"{here}: {ast.unparse(node)}"


@pytest.mark.parametrize("command", ["train", "evaluate"])
def test_ten_files_lead_from_a_command_to_its_numbers(command):
    """As docs/architecture.md lists them, one file an item."""
    assert len((ROOT / f"{command}.py").read_text().splitlines()) <= 60
    text = (ROOT / "docs/architecture.md").read_text()
    section = text.split(f"between `python {command}.py`")[1].split("\n\n")[1]
    files = set(re.findall(r"`([^`]+\.py)`", section))
    assert len(files) == len(re.findall(r"^\d+\. ", section, re.MULTILINE)) == 10
    assert [file for file in files if not (ROOT / file).is_file()] == []
