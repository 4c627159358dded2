"""Ways to damage a file, as hypothesis strategies: each draws what is done, in words, and a function that does it."""

import copy
import io
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

Damage = tuple[str, Callable[[Path], object]]  # in words; to a file
POSITIONS = st.integers(0, 10**9)
DEEP = '{"a":' * 4000 + "1" + "}" * 4000
TEXTS = [
    b"", b"\n", b"hello", b"{", b"[]", b"{}", b"null", b"\xff\xfe\x00", DEEP.encode(), b"NaN", b'{"a": 1e999}',
    b"\x80\x04.",
]  # fmt: skip
VALUES: list[Any] = [
    None, True, -1, 0, 1, 3, 10**9, 10**12, 2**63, 10**400, 0.5, -0.0, 1e308, float("nan"), float("inf"), "", "²", "-1",
    "../../outside", "/", ".", "..", "a/b", "\x1b[31mred\x1b[0m", "line\nline", "\x00", "a" * 5000, "auto", "cpu",
    "none", "cuda:7", "tensor:/nowhere", [], {}, [[[[]]]], {"a": {}}, [1, 2], ["x"], {"name": "sudoku"}, {"step": 2},
]  # fmt: skip


@st.composite
def torn(draw: st.DrawFn) -> Damage:
    """Bytes flipped, cut, added, moved or replaced."""
    kind = draw(st.sampled_from(["flip", "flip", "flip", "flip", "flip", "cut", "append", "zeros", "swap", "text"]))
    at, other, count = draw(POSITIONS), draw(POSITIONS), draw(st.integers(1, 6))
    text = draw(st.sampled_from(TEXTS))

    def apply(path: Path) -> None:
        if not path.is_file() or path.is_symlink():
            return
        data = bytearray(path.read_bytes())
        size = max(1, len(data))
        i, j = at % size, other % size
        if kind == "flip" and data:
            for k in range(count):
                data[(i + k * j) % size] ^= 1 << ((other + k) % 8)
        elif kind == "cut":
            del data[i:]
        elif kind == "append":
            data += text or b"\x00" * 512
        elif kind == "zeros":
            data[i : i + 64 * count] = bytes(len(data[i : i + 64 * count]))
        elif kind == "swap":
            i, j = min(i, j), max(i, j)
            data = data[j:] + data[i:j] + data[:i]
        elif kind == "text":
            data = bytearray(text)
        path.write_bytes(data)

    return f"{kind} at {at}, {other} × {count}{f', {text[:12]!r}' if kind in ('append', 'text') else ''}", apply


@st.composite
def other_kind(draw: st.DrawFn) -> Damage:
    """A FIFO, a folder, a link, a device, or nothing where a file should be."""
    kind = draw(st.sampled_from(["missing", "fifo", "folder", "dangling", "loop", "device", "elsewhere"]))

    def apply(path: Path) -> None:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
        if kind == "fifo":
            os.mkfifo(path)
        elif kind == "folder":
            path.mkdir()
        elif kind in ("dangling", "loop", "device", "elsewhere"):
            targets = {"dangling": "nowhere", "loop": path.name, "device": "/dev/zero", "elsewhere": "/etc/hostname"}
            path.symlink_to(targets[kind])

    return kind, apply


def nodes(tree: Any) -> Iterator[tuple[Any, Any]]:
    """(container, key) of every value in a JSON tree."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in list(items):
        yield tree, key
        yield from nodes(value)


@st.composite
def other_json(draw: st.DrawFn) -> Damage:
    """One to three values of a JSON file replaced, removed, renamed or added to."""
    kinds = st.sampled_from(["set", "set", "set", "drop", "rename", "add"])
    edits = draw(st.lists(st.tuples(POSITIONS, kinds, st.sampled_from(VALUES)), min_size=1, max_size=3))

    def apply(path: Path) -> None:
        tree = json.loads(path.read_text())
        for at, kind, shared in edits:
            value = copy.deepcopy(shared)  # edits after this one may change it
            there = list(nodes(tree))
            if not there:
                break
            container, key = there[at % len(there)]
            if kind == "set":
                container[key] = value
            elif kind == "drop":
                del container[key]
            elif isinstance(container, dict) and kind == "rename":
                container[f"{key}²"] = container.pop(key)
            elif isinstance(container, dict):
                container["strange"] = value
        path.write_text(json.dumps(tree))

    return "; ".join(f"{kind} value {at} {str(value)[:30]!r}" for at, kind, value in edits), apply


@st.composite
def other_tensors(draw: st.DrawFn) -> Damage:
    """A tensor of a safetensors file made another."""
    at = draw(POSITIONS)
    kinds = ["nan", "inf", "drop", "rename", "flat", "longer", "half", "int", "noise", "empty", "more"]
    kind = draw(st.sampled_from(kinds))

    def apply(path: Path) -> None:
        tensors = load_file(path)
        if not tensors:
            return
        name = sorted(tensors)[at % len(tensors)]
        save_file(_changed(tensors, name, kind), path)

    return f"tensor {at} {kind}", apply


def _changed(tensors: dict[str, torch.Tensor], name: str, kind: str) -> dict[str, torch.Tensor]:
    old = tensors.pop(name)
    floating = old.is_floating_point()
    new = {
        "nan": lambda: torch.full_like(old, float("nan")) if floating else old + 1,
        "inf": lambda: torch.full_like(old, float("inf")) if floating else old - 1,
        "flat": lambda: old.flatten(),
        "longer": lambda: torch.cat([old.flatten(), old.flatten()[:1]]),
        "half": lambda: old.half() if floating else old.to(torch.uint8),
        "int": lambda: old.to(torch.int64) if floating else old.float(),
        "noise": lambda: old + torch.ones_like(old),
        "empty": lambda: old.flatten()[:0],
    }
    if kind == "more":
        tensors |= {name: old, f"{name}.layers.1000000": torch.zeros(2), "../../x": torch.zeros(1)}
    elif kind == "rename":
        tensors[f"{name}\x1b[31m"] = old
    elif kind in new:
        tensors[name] = new[kind]().contiguous().clone()
    return tensors


ARRAYS = [  # types, and what else an array may become
    "value", "value", ">i4", ">i8", "u2", "u4", "u8", "i8", "f4", "f8", "c8", "?", "S4", "U4", "M8[s]", "flat", "deep",
    "short", "long", "empty", "reversed", "fortran", "constant",
]  # fmt: skip


@st.composite
def other_array(draw: st.DrawFn) -> Damage:
    """A .npy file of another type, shape or content."""
    at, value = draw(POSITIONS), draw(st.sampled_from([-1, -100, 0, 1, 7, 255, 2**31 - 1]))
    kind = draw(st.sampled_from(ARRAYS))

    def apply(path: Path) -> None:
        with np.errstate(all="ignore"):
            np.save(path, _rebuilt(np.load(path), kind, at, value))

    return f"array {kind} {at} {value}", apply


def _rebuilt(array: np.ndarray, kind: str, at: int, value: int) -> np.ndarray:
    if kind == "value":
        wide = array.astype(np.int64 if array.dtype.kind in "iu" else array.dtype)
        if wide.size:
            wide.flat[at % wide.size] = value
        fits = 0 <= value < 256 and array.dtype.kind == "u"
        return wide.astype(array.dtype if fits else np.int32)
    shaped = {
        "flat": lambda: array.ravel(),
        "deep": lambda: array[None],
        "short": lambda: array[:-1],
        "long": lambda: np.concatenate([array, array[:1]]),
        "empty": lambda: array[:0],
        "reversed": lambda: array[::-1],
        "fortran": lambda: np.asfortranarray(array),
        "constant": lambda: np.full_like(array, max(value, 0) % 127),
    }
    return shaped[kind]() if kind in shaped else array.astype(kind)


def zipped(entries: dict[str, bytes]) -> bytes:
    """An .npz of raw members."""
    import zipfile

    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return buffer.getvalue()
