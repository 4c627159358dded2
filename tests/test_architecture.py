"""Imports point one way, and files stay small."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = sorted([*ROOT.glob("reason/**/*.py"), *ROOT.glob("datasets_gen/**/*.py")])

# A package may import itself and what is named here, and nothing else of the project: no arrow points back.
MAY_IMPORT = {
    "datasets_gen": set(),
    "reason.version": {"datasets_gen.version"},
    "reason.errors": set(),
    "reason.files": {"reason.errors"},
    "reason.own_code": {"reason.errors"},
    "reason.settings": {"reason.errors"},
    "reason.nn": set(),
    "reason.dynamics": {"reason.errors", "reason.nn"},
    "reason.models": {"datasets_gen.structure", "reason.dynamics", "reason.errors", "reason.nn", "reason.settings"},
    "reason.data": {"datasets_gen", "reason.models.base", "reason.settings"},
    "reason.rollout": {"reason.models.base", "reason.models.record", "reason.settings"},
    "reason.losses": {
        "reason.dynamics", "reason.models.base", "reason.nn.dtypes", "reason.rollout", "reason.settings",
    },
    "reason.generation": {"reason.models", "reason.nn", "reason.rollout"},
    "reason.training": {
        "datasets_gen.structure", "reason.config", "reason.data", "reason.errors", "reason.files", "reason.losses",
        "reason.models.base", "reason.nn.dtypes", "reason.rollout", "reason.settings",
    },
    "reason.evaluation": {
        "datasets_gen", "reason.data", "reason.dynamics", "reason.errors", "reason.generation", "reason.losses",
        "reason.models", "reason.nn", "reason.report", "reason.rollout", "reason.settings",
        "reason.training.checkpoint", "reason.training.device", "reason.training.distributed",
        "reason.training.ema", "reason.training.monitor",
    },
    "reason.report": {"datasets_gen"},
    "reason.config": {
        "reason.data", "reason.errors", "reason.evaluation.config", "reason.files", "reason.losses",
        "reason.models", "reason.own_code", "reason.rollout", "reason.settings", "reason.training.config",
        "reason.training.ema", "reason.training.optim", "reason.training.warm_start",
    },
    "reason.presets": {"reason"},
    "reason.interop": {"reason"},
    "reason.runs": {"reason"},
    "reason.pretrained": {"reason.errors", "reason.files"},
    "reason.solve": {"reason", "datasets_gen"},
    "reason.api": {"reason", "datasets_gen"},
    "reason.cli": {"reason", "datasets_gen"},
    "reason": {"reason"},
}  # fmt: skip
# Nothing above may import these.
TOP = ("reason.presets", "reason.interop", "reason.runs", "reason.solve", "reason.api", "reason.cli")


def module(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    return found


def package(name: str) -> str:
    """The longest entry of MAY_IMPORT that holds the module."""
    return max((p for p in MAY_IMPORT if name == p or name.startswith(f"{p}.")), key=len)


@pytest.mark.parametrize("path", FILES, ids=module)
def test_imports_point_one_way(path: Path) -> None:
    here = package(module(path))
    allowed = MAY_IMPORT[here] | {here, "datasets_gen"} if here in TOP else MAY_IMPORT[here] | {here}
    for name in imports(path):
        if name.split(".")[0] in ("reason", "datasets_gen"):
            assert any(name == a or name.startswith(f"{a}.") for a in allowed), f"{here} must not import {name}"


def test_no_circle_of_files() -> None:
    """Imports at the top of files, one file after another, never lead back to a file."""
    names = {module(path): path for path in FILES}
    tops = {name: {n for n in _top_imports(path) if n in names and n != name} for name, path in names.items()}
    while leaves := [name for name, imported in tops.items() if not imported & tops.keys()]:
        for name in leaves:
            del tops[name]
    assert not tops


def _top_imports(path: Path) -> set[str]:
    """Modules that a file imports when it is imported; `from package import name` counts as package.name too."""
    found: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


@pytest.mark.parametrize("path", [p for p in FILES if package(module(p)) != "reason.models"], ids=module)
def test_only_models_know_their_families(path: Path) -> None:
    """What a family can do is asked of its capabilities: nothing else tests for its class."""
    for node in ast.walk(ast.parse(path.read_text())):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in ("isinstance", "issubclass")
        ):
            assert not re.search(r"Looped|Recursive", ast.unparse(node.args[1])), ast.unparse(node)


def test_the_top_of_the_package_is_no_pile() -> None:
    top = {path.name for path in ROOT.glob("reason/*.py")}
    files = {"__init__", "__main__", "api", "errors", "files", "own_code", "rollout", "solve", "version"}
    assert top <= {f"{name}.py" for name in files}


@pytest.mark.parametrize("path", [p for p in FILES if package(module(p)) == "datasets_gen"], ids=module)
def test_generators_never_import_torch(path: Path) -> None:
    assert not any(name.split(".")[0] == "torch" for name in imports(path))


@pytest.mark.parametrize("name", ["train.py", "evaluate.py"])
def test_scripts_are_thin(name: str) -> None:
    assert len((ROOT / name).read_text().splitlines()) <= 60


@pytest.mark.parametrize("path", FILES, ids=module)
def test_files_stay_small(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 500, "two things may live here"


@pytest.mark.parametrize("path", [p for p in FILES if package(module(p)) != "datasets_gen"], ids=module)
def test_configs_are_derived_and_never_copied_unchecked(path: Path) -> None:
    assert "model_copy(" not in path.read_text(), "a config is changed by `derive`, which validates it"


@pytest.mark.parametrize("path", FILES, ids=module)
def test_text_files_are_utf_8_whatever_the_locale(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        named = ast.unparse(node.func).rpartition(".")[2]
        binary = any(isinstance(arg, ast.Constant) and "b" in str(arg.value) for arg in node.args)
        opened = named == "open" and not ast.unparse(node.func).startswith(("os.", "tarfile.", "Image.")) and not binary
        if named == "write_text" or named == "fdopen" or opened or (named == "read_text" and not node.args):
            assert any(keyword.arg == "encoding" for keyword in node.keywords), ast.unparse(node)
