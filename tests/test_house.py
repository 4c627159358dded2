"""The house keeps its shape: arrows point one way, rooms stay small."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = sorted([*ROOT.glob("reason/**/*.py"), *ROOT.glob("datasets_gen/**/*.py")])

# A room may import from itself and from those named here, and from nothing else in the project.
MAY_IMPORT = {
    "datasets_gen": set(),
    "reason.version": {"datasets_gen.version"},
    "reason.errors": set(),
    "reason.section": set(),
    "reason.floats": set(),
    "reason.schedules": {"reason.section"},
    "reason.tasks": {"datasets_gen"},
    "reason.nn": {"reason.floats"},
    "reason.dynamics": {"reason.errors", "reason.floats"},
    "reason.models": {"reason.dynamics", "reason.nn", "reason.section", "reason.errors"},
    "reason.data": {"datasets_gen", "reason.models.base", "reason.section"},
    "reason.rollout": {"reason.models", "reason.section"},
    "reason.losses": {
        "reason.dynamics", "reason.floats", "reason.models.base", "reason.rollout", "reason.schedules",
        "reason.section",
    },
    "reason.decoding": {"reason.models", "reason.nn", "reason.rollout"},
    "reason.balance": {"reason.losses", "reason.schedules", "reason.section"},
    "reason.distributed": {"reason.errors"},
    "reason.training": {
        "reason.balance", "reason.data", "reason.distributed", "reason.errors", "reason.floats", "reason.losses",
        "reason.models", "reason.rollout", "reason.schedules", "reason.section",
    },
    "reason.evaluation": {
        "datasets_gen", "reason.data", "reason.decoding", "reason.distributed", "reason.dynamics", "reason.errors",
        "reason.floats", "reason.losses.exit", "reason.losses.halting", "reason.losses.lm", "reason.models",
        "reason.nn", "reason.rollout", "reason.section",
    },
    "reason.report": set(),
    "reason.figures": set(),
    "reason.drawing": {"datasets_gen"},
}  # fmt: skip
ANYTHING = (
    "reason.archive",
    "reason.assemble",
    "reason.parity",
    "reason.config",
    "reason.presets",
    "reason.run",
    "reason.cli",
    "reason",
)


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


def room(name: str) -> str:
    return "datasets_gen" if name.startswith("datasets_gen") else ".".join(name.split(".")[:2])


@pytest.mark.parametrize("path", FILES, ids=module)
def test_imports_point_one_way(path: Path) -> None:
    here = room(module(path))
    if here in ANYTHING:
        return
    allowed = MAY_IMPORT[here] | {here}
    for name in imports(path):
        if name.split(".")[0] in ("reason", "datasets_gen"):
            assert any(name == a or name.startswith(f"{a}.") for a in allowed), f"{here} must not import {name}"


@pytest.mark.parametrize("path", [p for p in FILES if room(module(p)) == "datasets_gen"], ids=module)
def test_generators_never_import_torch(path: Path) -> None:
    assert not any(name.split(".")[0] == "torch" for name in imports(path))


@pytest.mark.parametrize("name", ["train.py", "evaluate.py"])
def test_scripts_are_thin(name: str) -> None:
    assert len((ROOT / name).read_text().splitlines()) <= 60


@pytest.mark.parametrize("path", FILES, ids=module)
def test_rooms_stay_small(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 350, "two things may live here"
