"""Cases of archives, checkpoints, folders and configs: whatever makes a run."""

import io
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from damage import other_json, other_kind, other_tensors, torn
from harness import Case
from hypothesis import strategies as st
from world import BEGIN, EVALUATE, RESUME, SOLVE, STATE, at

READERS = [
    *[RESUME] * 6, SOLVE, ["pack", "run", "b.tar.gz"], EVALUATE, [*BEGIN, "init_from=run"],
    [*SOLVE, "evaluation.checkpoint=best"],
]  # fmt: skip
ASKED = [RESUME, RESUME, SOLVE, SOLVE, ["pack", "run", "b.tar.gz"], EVALUATE]

REPACKED = [
    "extra", "escape", "absolute", "control", "deep", "twice", "drop", "link", "hardlink", "fifo", "device", "folder",
    "rename", "content", "alone", "raw",
]  # fmt: skip
EXTRA = {
    "extra": "checkpoints/step-000003/evil.pkl",
    "escape": "../../outside.txt",
    "absolute": "/tmp/outside",
    "control": "config\x1b[31m.json",
    "deep": "checkpoints/step-²/state.json",
}
TYPES = {
    "link": tarfile.SYMTYPE,
    "hardlink": tarfile.LNKTYPE,
    "fifo": tarfile.FIFOTYPE,
    "device": tarfile.CHRTYPE,
    "folder": tarfile.DIRTYPE,
}


def run_case(what: str, damage: Callable[[Path], object], words: list[str]) -> Case:
    """A command on `run`: what it trains must be the undamaged run to the bit."""
    resumed = "here/run" if "--resume" in words else None
    return Case(what, damage, words, ("here/run", "here/new"), trained=resumed)


@st.composite
def repacked(draw: st.DrawFn) -> tuple[str, Callable[[Path], object]]:
    """A tar.gz whose members are not those of a run."""
    kind, number = draw(st.sampled_from(REPACKED)), draw(st.integers(0, 100))
    text, edit = draw(torn())

    def apply(path: Path) -> None:
        with tarfile.open(path) as archive:
            members = [(m, archive.extractfile(m).read()) for m in archive.getmembers() if m.isfile()]  # type: ignore[union-attr]
        index = number % len(members)
        chosen, content = members[index]
        if kind in EXTRA:
            members.append((tarfile.TarInfo(EXTRA[kind]), b"{}"))
        elif kind == "twice":
            members.append((chosen, content[::-1]))
        elif kind == "drop":
            del members[index]
        elif kind in TYPES:
            chosen.type, chosen.linkname = TYPES[kind], "/etc/hostname"
            members[index] = (chosen, b"")
        elif kind == "rename":
            chosen.name = chosen.name.replace("step-000003", "step-000009")
        elif kind == "content":
            members[index] = (chosen, _edited(content, edit, path.with_name("scratch")))
        elif kind == "alone":
            members = [(m, data) for m, data in members if m.name in ("config.json", "manifest.json")]
        _write(path, members, "w" if kind == "raw" else "w:gz")

    return f"{kind} of member {number}, {text}", apply


def _edited(content: bytes, edit: Callable[[Path], object], scratch: Path) -> bytes:
    scratch.write_bytes(content)
    edit(scratch)
    try:
        return scratch.read_bytes()
    finally:
        scratch.unlink()


def _write(path: Path, members: list[tuple[tarfile.TarInfo, bytes]], mode: Any) -> None:
    with tarfile.open(path, mode) as archive:
        for member, content in members:
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


@st.composite
def archives(draw: st.DrawFn) -> Case:
    """An archive damaged, then unpacked and gone on with."""
    what, damage = draw(st.one_of(torn(), torn(), repacked(), other_kind()))
    to = draw(st.sampled_from(["runs/a", "new"]))
    words = ["train", "run=a.tar.gz", "--resume"] if to == "runs/a" else ["train", "a.tar.gz", "run=new", "--resume"]
    return Case(f"archive: {what}", at("a.tar.gz", damage), words, (f"here/{to}",), trained=f"here/{to}")


@st.composite
def checkpoints(draw: st.DrawFn) -> Case:
    """A checkpoint damaged, then gone on with, evaluated, asked, packed or started from."""
    step = draw(st.sampled_from(["step-000003", "step-000003", "step-000002"]))
    file = draw(st.sampled_from([*STATE * 3, "manifest.json", "../../metrics.jsonl", "."]))
    damages = [torn(), other_kind()] if file == "." else [torn(), torn(), torn(), other_kind()]
    damages += [other_json()] if file.endswith("json") else [other_tensors()] if file.endswith("safetensors") else []
    what, damage = draw(st.one_of(damages))
    path = f"run/checkpoints/{step}/{file}".removesuffix("/.")
    return run_case(f"{path}: {what}", at(path, damage), draw(st.sampled_from(READERS)))


FOLDERS = ["step-²", "step-٣", "step-", "step-000009", "step-3", "moved", "dangling", "file", "renamed", "no metrics"]


@st.composite
def strange_folders(draw: st.DrawFn) -> Case:
    """Folders and files that lie where checkpoints or runs do, or are gone from there."""
    kind = draw(st.sampled_from([*FOLDERS, "a run of ²"]))
    words = draw(st.sampled_from([*READERS, [word for word in BEGIN if word != "run=new"], ["evaluate", "steps=1"]]))

    def apply(folder: Path) -> None:
        run = folder / "here/run"
        if kind.startswith("step-"):
            (run / "checkpoints" / kind).mkdir()
            if len(kind) % 2:
                (run / "checkpoints" / kind / "state.json").write_text("{}")
        elif kind == "moved":
            (run / "checkpoints").rename(folder / "here/elsewhere")
        elif kind in ("dangling", "file"):
            shutil.rmtree(run / "checkpoints")
            (run / "checkpoints").symlink_to("nowhere") if kind == "dangling" else (run / "checkpoints").write_text("x")
        elif kind == "renamed":
            (run / "checkpoints/step-000003").rename(run / "checkpoints/step-000007")
        elif kind == "no metrics":
            (run / "metrics.jsonl").unlink()
        else:
            (folder / "here/runs/sudoku-4x4-²/checkpoints/step-²").mkdir(parents=True)
            (folder / "here/runs/sudoku-4x4-²/checkpoints/step-²/state.json").write_text("{}")

    trained = "here/run" if words == RESUME else None
    return Case(f"folders: {kind}", apply, words, ("here/run", "here/runs", "here/new"), trained=trained)


@st.composite
def configs(draw: st.DrawFn) -> Case:
    """A run's config.json changed or damaged."""
    what, damage = draw(st.one_of(other_json(), other_json(), other_json(), torn(), other_kind()))
    return run_case(f"config.json: {what}", at("run/config.json", damage), draw(st.sampled_from(ASKED)))
