"""What tests of damaged, moved and interrupted runs share."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file

from reason.training.checkpoint import checkpoints, seal

Damage = Callable[[Path], object]  # done to a folder
STEP = "checkpoints/step-000002"  # the newest one of the fixture `half`; step-000000 lies before it


def everything(run: Path) -> dict[str, torch.Tensor]:
    """Every tensor of the newest checkpoint."""
    files = sorted(checkpoints(run)[-1].glob("*.safetensors"))
    return {f"{file.name}/{name}": tensor for file in files for name, tensor in load_file(file).items()}


def same(one: Path, other: Path) -> bool:
    """Whether two runs came to the same end, to the bit."""
    a, b = everything(one), everything(other)
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def change_json(file: Path, change: Callable[[Any], object]) -> None:
    """Change a JSON file's tree in place; a checkpoint's is sealed again, as if it had been written so."""
    tree = json.loads(file.read_text())
    change(tree)
    file.write_text(json.dumps(tree))
    if file.name == "state.json":
        seal(file.parent)


def entry(file: str, key: str, value: Any = ...) -> Damage:
    """One entry of a JSON file replaced, "section.key"; without a value, removed."""
    *sections, last = key.split(".")

    def change(tree: Any) -> None:
        for section in sections:
            tree = tree[section]
        if value is ...:
            del tree[last]
        else:
            tree[last] = value

    return lambda folder: change_json(folder / file, change)


def content(file: str, data: bytes | str) -> Damage:
    return lambda folder: (folder / file).write_bytes(data if isinstance(data, bytes) else data.encode())


def array(names: str, change: Callable[[np.ndarray], np.ndarray | None], split: str = "train") -> Damage:
    """Arrays of a set's split changed, in place or to what `change` returns."""

    def apply(folder: Path) -> None:
        for name in names.split():
            file = folder / split / f"all__{name}.npy"
            values = np.load(file)
            changed = change(values)
            np.save(file, values if changed is None else changed)

    return apply


def gone(file: str) -> Damage:
    return lambda folder: (folder / file).unlink()


def flip(file: Path, at: int) -> None:
    data = bytearray(file.read_bytes())
    data[at // 8 % len(data)] ^= 1 << at % 8
    file.write_bytes(data)


def snapshot(folder: Path) -> dict[str, bytes]:
    """Every file below a folder with its content; locks, which any command may leave, aside."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}
