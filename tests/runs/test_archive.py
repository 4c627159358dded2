"""A run in one file: what it holds, where it unpacks, and what is refused before anything is put in place."""

import io
import random
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import NARROW, output, refusal
from survivors import change_json, flip, same, snapshot

from reason.cli import main
from reason.errors import ConfigError
from reason.runs.archive import pack_run, unpack_run

Members = dict[str, bytes]


@pytest.fixture
def packed(half: Path, here: Path) -> Path:
    """The archive of `half`."""
    pack_run(half, here / "a.tar.gz")
    return here / "a.tar.gz"


def members(archive: Path) -> Members:
    with tarfile.open(archive) as tar:
        return {m.name: tar.extractfile(m).read() for m in tar.getmembers()}  # type: ignore[union-attr]


def write(archive: Path, content: Members, kind: bytes = tarfile.REGTYPE, odd: str = "") -> None:
    with tarfile.open(archive, "w:gz") as tar:
        for name, data in content.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            if name == odd:
                member.type, member.linkname, member.size, data = kind, "/etc/hostname", 0, b""
            tar.addfile(member, io.BytesIO(data))


def test_a_run_goes_on_wherever_it_lies(half: Path, here: Path) -> None:
    """Moved as a folder, packed and named by its file, packed and unpacked to a folder: one end, to the bit."""
    shutil.copytree(half, here / "elsewhere/deep/moved")
    assert main(["pack", "half"]) == 0
    (here / "usb").mkdir()
    shutil.move(here / "half.tar.gz", here / "usb/carried.tar.gz")
    assert main(["train", "run=half", "--resume"]) == 0
    assert main(["train", "run=elsewhere/deep/moved", "--resume"]) == 0
    assert main(["train", "run=usb/carried.tar.gz", "--resume"]) == 0
    assert main(["train", "usb/carried.tar.gz", "run=mine", "--resume"]) == 0
    for run in ("elsewhere/deep/moved", "runs/carried", "mine"):
        assert same(half, here / run), run


def test_what_an_archive_holds(half: Path, here: Path) -> None:
    output("pack half/ out/mine.tar.gz", "resume with: python train.py run=out/mine.tar.gz --resume")
    names = [Path(name).name for name in members(here / "out/mine.tar.gz")]
    tensors = {"weights.safetensors", "ema.safetensors", "state.safetensors"}
    assert set(names) == {"config.json", "metrics.jsonl", "manifest.json", "state.json", *tensors}
    refusal("pack half out/mine.tar.gz", "is there already")
    refusal("pack half mine.zip", "an archive ends in .tar.gz")
    assert main(["train", "run=out/mine.tar.gz", "--resume"]) == 0
    refusal("train run=out/mine.tar.gz --resume", "runs/mine is there already, from this archive or another")


def test_a_run_is_packed_from_inside(half: Path, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(half)
    assert main(["pack", "."]) == 0
    unpack_run(here / "half.tar.gz", here / "again")
    assert same(half, here / "again")


def test_the_packed_run_says_that_its_best_stays_behind(monitored_4x4: Path, here: Path) -> None:
    every = ["training.monitor.every=2", "training.checkpoint_every=2"]
    assert main(["train", "sudoku-4x4", f"data={monitored_4x4}", *NARROW, "run=best", *every]) == 0
    change_json(here / "best/checkpoints/step-000004/state.json", lambda tree: tree["best"].update(step=2))
    output("pack best", "step-000002, is not packed")


def test_no_flipped_bit_passes(packed: Path, here: Path) -> None:
    """Refused with nothing put in place; or, in bytes of gzip and tar that mean nothing, the same run comes out."""
    whole, moments, refused = packed.read_bytes(), random.Random(0), 0
    unpack_run(packed, here / "whole")
    for _ in range(40):
        packed.write_bytes(whole)
        flip(packed, moments.randrange(8 * len(whole)))
        try:
            unpack_run(packed, here / "flipped")
        except ConfigError:
            refused += 1
            assert sorted(path.name for path in here.iterdir()) == ["a.tar.gz", "half", "whole"]
        else:
            assert snapshot(here / "flipped") == snapshot(here / "whole")
            shutil.rmtree(here / "flipped")
    assert refused > 30


@pytest.mark.parametrize("cut", [1, 4, 8, 1000])
def test_an_archive_that_was_cut_off(cut: int, packed: Path, here: Path) -> None:
    """Also within its last eight bytes, gzip's CRC and length, which no file within needs."""
    packed.write_bytes(packed.read_bytes()[:-cut])
    with pytest.raises(ConfigError, match=r"is torn \(.*copy it again, or pack the run anew"):
        unpack_run(packed, here / "out")
    assert not (here / "out").exists()


def changed(name: str, change: Callable[[Members, str], object]) -> Callable[[Path], None]:
    """An edit of the member whose name ends so."""

    def edit(archive: Path) -> None:
        content = members(archive)
        full = next(n for n in reversed(content) if n.endswith(name))
        change(content, full)
        write(archive, content)

    return edit


def sparse(archive: Path) -> None:
    """A member whose header says that it unpacks to more than the archive holds."""
    with tarfile.open(archive, "w:gz", format=tarfile.PAX_FORMAT) as tar:
        member = tarfile.TarInfo("metrics.jsonl")
        member.pax_headers = {"GNU.sparse.map": "0,0", "GNU.sparse.size": "10000000000"}
        tar.addfile(member)


FAULTS: dict[str, tuple[Callable[[Path], object], str]] = {
    "content": (
        changed("weights.safetensors", lambda all_, n: all_.update({n: all_[n][:-1] + b"5"})),
        "weights.safetensors has changed",
    ),
    "config": (changed("config.json", lambda all_, n: all_.update({n: b"{}"})), "a.tar.gz/config.json"),
    "lacking": (changed("weights.safetensors", lambda all_, n: all_.pop(n)), "weights.safetensors is missing"),
    "besides": (changed("config.json", lambda all_, n: all_.update({"evil.pkl": b""})), "it holds evil.pkl"),
    "outside": (changed("config.json", lambda all_, n: all_.update({"../outside": b""})), "it holds ../outside"),
    "no config": (changed("config.json", lambda all_, n: all_.pop(n)), "it holds no config.json"),
    "no manifest": (changed("manifest.json", lambda all_, n: all_.pop(n)), "manifest.json is missing"),
    "deep manifest": (changed("manifest.json", lambda all_, n: all_.update({n: b"[" * 9999})), "manifest.json"),
    "link": (lambda archive: write(archive, members(archive), tarfile.SYMTYPE, "config.json"), "it holds config.json"),
    "flat": (
        lambda archive: write(archive, {Path(name).name: data for name, data in members(archive).items()}),
        "it holds ",
    ),
    "sparse": (sparse, "it holds metrics.jsonl"),
    "text": (lambda archive: archive.write_text("not an archive"), "is torn"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_archives_that_are_none(fault: str, packed: Path, here: Path) -> None:
    """Nothing is put in place, and nothing outside is ever touched."""
    damage, said = FAULTS[fault]
    (here / "outside").write_text("mine")
    (here / "runs/.a.partial").mkdir(parents=True)
    (here / "runs/.a.partial/notes.txt").write_text("mine")
    damage(packed)
    before = snapshot(here)
    error = refusal("train run=a.tar.gz --resume", said)
    assert len(error.splitlines()) == 1
    assert snapshot(here) == before
    assert sorted(path.name for path in (here / "runs").iterdir()) == [".a.partial"]


def test_an_archive_without_a_checkpoint(packed: Path, here: Path) -> None:
    """It would begin at step 0 and call itself resumed."""
    content = members(packed)
    kept = {name: data for name, data in content.items() if name in ("config.json", "metrics.jsonl")}
    write(packed, kept)
    refusal("train run=a.tar.gz --resume", "a.tar.gz holds no checkpoint to go on with (none is in it)")
    assert list((here / "runs").iterdir()) == []


def test_no_archive_and_no_empty_folder(packed: Path, here: Path) -> None:
    with pytest.raises(ConfigError, match="no archive at"):
        unpack_run(here / "none.tar.gz", here / "out")
    (here / "mine").mkdir()
    (here / "mine/notes.txt").write_text("mine")
    with pytest.raises(ConfigError, match="mine is not empty; name another folder"):
        unpack_run(packed, here / "mine")
    (here / "empty").mkdir()
    unpack_run(packed, here / "empty")
    assert same(here / "half", here / "empty")


def test_names_that_a_terminal_would_obey_are_written_out(packed: Path, here: Path) -> None:
    content = members(packed)
    write(packed, content | {"\x1b[31mred\n": b""})
    refusal("train run=a.tar.gz --resume", r"it holds \x1b[31mred\n; `reason pack")
    refusal(
        ["train", "run=\x1b]0;title\x07.tar.gz", "--resume"],
        r"error: run=\x1b]0;title\x07.tar.gz holds control characters",
    )


@pytest.mark.parametrize("words", [["evaluate"], ["solve", "."]])
def test_an_archive_is_not_read_in_place(words: list[str], half: Path, here: Path) -> None:
    assert main(["pack", str(half), "half.tar.gz"]) == 0
    refusal(
        [words[0], "half.tar.gz", *words[1:]], "half.tar.gz is an archive: type mkdir DIR && tar xzf half.tar.gz -C DIR"
    )
