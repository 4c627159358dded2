"""A run in one file: what it holds, where it unpacks, and what is refused before anything is put in place."""

import io
import random
import shutil
import tarfile
from pathlib import Path

import pytest
from conftest import NARROW, output, refusal
from survivors import entry, flip, same, snapshot

from reason.cli import main
from reason.errors import ConfigError
from reason.extensions.pack.archive import unpacked


@pytest.fixture
def packed(half, here):
    assert main(["pack", "half", "a.tar.gz"]) == 0
    return here / "a.tar.gz"


def members(archive):
    with tarfile.open(archive) as tar:
        return {m.name: tar.extractfile(m).read() for m in tar.getmembers()}


def write(archive, content, kind=tarfile.REGTYPE, odd=""):
    with tarfile.open(archive, "w:gz") as tar:
        for name, data in content.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            if name == odd:
                member.type, member.linkname, member.size, data = kind, "/etc/hostname", 0, b""
            tar.addfile(member, io.BytesIO(data))


def test_a_run_goes_on_wherever_it_lies(half, here):
    """Moved as a folder, packed and named by its file, packed and unpacked to a folder: one end, to the bit."""
    shutil.copytree(half, here / "elsewhere/deep/moved")
    output("pack half/ usb/carried.tar.gz", "resume with: python train.py run=usb/carried.tar.gz --resume")
    names = {Path(name).name for name in members(here / "usb/carried.tar.gz")}
    tensors = {"weights.safetensors", "ema.safetensors", "state.safetensors"}
    assert names == {"config.json", "metrics.jsonl", "manifest.json", "state.json", *tensors}
    refusal("pack half usb/carried.tar.gz", "is there already")
    model = Path(__file__).parents[3] / "reason/pretrained/sudoku-6x6"
    refusal(f"pack {model} usb/other.tar.gz", "holds weights but no training state to resume")
    for words in ("run=half", "run=elsewhere/deep/moved", "run=usb/carried.tar.gz", "usb/carried.tar.gz run=mine"):
        assert main(["train", *words.split(), "--resume"]) == 0
    for run in ("elsewhere/deep/moved", "runs/carried", "mine"):
        assert same(half, here / run), run
    refusal("train run=usb/carried.tar.gz --resume", "runs/carried is there already; continue with run=runs/carried")


def test_the_packed_run_says_that_its_best_stays_behind(monitored_4x4, here):
    every = ["training.monitor.every=2", "training.checkpoint_every=2"]
    assert main(["train", "sudoku-4x4", f"data={monitored_4x4}", *NARROW, "run=best", *every]) == 0
    entry("checkpoints/step-000004/state.json", "best.step", 2)(here / "best")
    output("pack best", "step-000002, is not packed")


def test_no_flipped_bit_passes(packed, here):
    """Refused with nothing put in place; or, in bytes of gzip and tar that mean nothing, the same run comes out."""
    whole, moments, refused = packed.read_bytes(), random.Random(0), 0
    unpacked(packed, here / "whole")
    for _ in range(40):
        packed.write_bytes(whole)
        flip(packed, moments.randrange(8 * len(whole)))
        try:
            unpacked(packed, here / "flipped")
        except ConfigError:
            refused += 1
            assert sorted(path.name for path in here.iterdir()) == ["a.tar.gz", "half", "whole"]
        else:
            assert snapshot(here / "flipped") == snapshot(here / "whole")
            shutil.rmtree(here / "flipped")
    assert refused > 30


def without(end):
    return lambda archive: write(archive, {n: data for n, data in members(archive).items() if not n.endswith(end)})


def added(name):
    return lambda archive: write(archive, members(archive) | {name: b""})


def cut(count):
    """The last bytes missing; the last eight are gzip's CRC and length, which no file within needs."""
    return lambda archive: archive.write_bytes(archive.read_bytes()[:-count])


def sparse(archive):
    """A member whose header says that it unpacks to more than the archive holds."""
    with tarfile.open(archive, "w:gz", format=tarfile.PAX_FORMAT) as tar:
        member = tarfile.TarInfo("metrics.jsonl")
        member.pax_headers = {"GNU.sparse.map": "0,0", "GNU.sparse.size": "10000000000"}
        tar.addfile(member)


FAULTS = [
    (without("config.json"), "a.tar.gz"),
    (without("weights.safetensors"), "weights.safetensors is missing"),
    (added("evil.pkl"), "it has evil.pkl"),
    (added("checkpoints/../../outside/state.json"), "it has checkpoints/../../outside/state.json"),
    (lambda archive: write(archive, members(archive), tarfile.SYMTYPE, "config.json"), "it has config.json"),
    (sparse, "it has metrics.jsonl"),
    (lambda archive: archive.unlink(), "no archive at a.tar.gz"),
    *((cut(count), "copy it again, or pack the run again") for count in (4, 1000)),
]


@pytest.mark.parametrize(("damage", "said"), FAULTS, ids=range(len(FAULTS)))
def test_archives_that_are_none(damage, said, packed, here):
    (here / "outside").write_text("mine")
    (here / "runs").mkdir()
    damage(packed)
    before = snapshot(here)
    assert len(refusal("train run=a.tar.gz --resume", said).splitlines()) == 1
    assert snapshot(here) == before
