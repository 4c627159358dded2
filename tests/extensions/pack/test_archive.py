"""A run in one file: what it holds, where it unpacks, and what is refused before anything is put in place."""

import io
import random
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import NARROW, output, refusal
from survivors import entry, flip, same, snapshot

from reason.cli import main
from reason.errors import ConfigError
from reason.extensions.pack.archive import pack_run, unpack_run

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
    entry("checkpoints/step-000004/state.json", "best.step", 2)(here / "best")
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


def cut(count: int) -> Callable[[Path], object]:
    """The last bytes missing; the last eight are gzip's CRC and length, which no file within needs."""
    return lambda archive: archive.write_bytes(archive.read_bytes()[:-count])


def added(name: str) -> Callable[[Path], object]:
    """One member more."""
    return lambda archive: write(archive, members(archive) | {name: b""})


def flat(archive: Path) -> None:
    write(archive, {Path(name).name: data for name, data in members(archive).items()})


def without_checkpoint(archive: Path) -> None:
    """It would begin at step 0 and call itself resumed."""
    write(archive, {name: data for name, data in members(archive).items() if not name.startswith("checkpoints")})


FAULTS: list[tuple[Callable[[Path], object], str]] = [
    (changed("weights.safetensors", lambda all_, n: all_.update({n: all_[n][:-1] + b"5"})), "weights.safetensors has"),
    (changed("config.json", lambda all_, n: all_.update({n: b"{}"})), "a.tar.gz/config.json"),
    (changed("weights.safetensors", lambda all_, n: all_.pop(n)), "weights.safetensors is missing"),
    (changed("config.json", lambda all_, n: all_.pop(n)), "it holds no config.json"),
    (changed("manifest.json", lambda all_, n: all_.pop(n)), "manifest.json is missing"),
    (changed("manifest.json", lambda all_, n: all_.update({n: b"[" * 9999})), "manifest.json"),
    (added("evil.pkl"), "it holds evil.pkl"),
    (added("../outside"), "it holds ../outside"),
    (added("/tmp/outside"), "it holds /tmp/outside"),
    (added("checkpoints/../../outside/state.json"), "it holds checkpoints/../../outside/state.json"),
    (added("\x1b[31mred\n"), r"it holds \x1b[31mred\n; `reason pack"),
    *(
        (lambda archive, kind=kind: write(archive, members(archive), kind, "config.json"), "it holds config.json")
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.DIRTYPE)
    ),
    (flat, "it holds "),
    (sparse, "it holds metrics.jsonl"),
    (without_checkpoint, "a.tar.gz holds no checkpoint to go on with (none is in it)"),
    (lambda archive: archive.write_text("not an archive"), "is torn"),
    (lambda archive: archive.unlink(), "no archive at a.tar.gz"),
    *((cut(count), "copy it again, or pack the run anew") for count in (1, 4, 8, 1000)),
]


@pytest.mark.parametrize(("damage", "said"), FAULTS, ids=range(len(FAULTS)))
def test_archives_that_are_none(damage: Callable[[Path], object], said: str, packed: Path, here: Path) -> None:
    """Nothing is put in place, and nothing outside is ever touched."""
    (here / "outside").write_text("mine")
    (here / "runs/.a.partial").mkdir(parents=True)
    (here / "runs/.a.partial/notes.txt").write_text("mine")
    damage(packed)
    before = snapshot(here)
    error = refusal("train run=a.tar.gz --resume", said)
    assert len(error.splitlines()) == 1
    assert snapshot(here) == before
    assert sorted(path.name for path in (here / "runs").iterdir()) == [".a.partial"]


def test_an_archive_goes_into_an_empty_folder(packed: Path, here: Path) -> None:
    (here / "mine").mkdir()
    (here / "mine/notes.txt").write_text("mine")
    with pytest.raises(ConfigError, match="mine is not empty; name another folder"):
        unpack_run(packed, here / "mine")
    (here / "empty").mkdir()
    unpack_run(packed, here / "empty")
    assert same(here / "half", here / "empty")


def test_an_archive_is_not_read_in_place(packed: Path, here: Path) -> None:
    for words in ("evaluate a.tar.gz", "solve a.tar.gz ."):
        refusal(words, "a.tar.gz is an archive: type mkdir DIR && tar xzf a.tar.gz -C DIR")
