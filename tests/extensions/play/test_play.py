"""reason play: the page is whole, holds what it needs and nothing of the web; test_play_browser tries what it does."""

import base64
import gzip
import hashlib
import io
import json
import re
import shutil
import sys
import tarfile

import numpy as np
import pytest
from conftest import output, refusal

from reason.config.overrides import read_config
from reason.errors import ConfigError
from reason.extensions.play import runtime
from reason.extensions.play.page import exported, play_page
from reason.extensions.play.shipped import GRAPHS, cut, filled, made_from, shipped, shown
from reason.pretrained import FOLDER

MODULE = "var a=import.meta.url;var b=1;export{a as Tensor,b as default,b as env};\n//# sourceMappingURL=x.map\n"


def npm_package(**files):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package in onnxruntime-web's place, which the pinned sum fits, kept elsewhere; one model is shown."""
    content = npm_package(**{runtime.SCRIPT: MODULE.encode(), runtime.BINARY: b"\0asm"})
    monkeypatch.setattr(runtime, "INTEGRITY", base64.b64encode(hashlib.sha512(content).digest()).decode())
    monkeypatch.setattr("reason.extensions.play.command.KEPT", tmp_path / "kept")
    monkeypatch.setattr("reason.extensions.play.command.shown", lambda: ["sudoku-6x6"])
    file = tmp_path / runtime.ARCHIVE
    file.write_bytes(content)
    return file


def data_of(html):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)[1])


def test_the_page_is_one_file_and_made_at_once_the_second_time(tmp_path, package, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)  # as if it were not installed
    words = ["play", "--output", str(tmp_path / "page.html"), "--no-browser"]
    output([*words, "--runtime", str(package)], "1 models")
    first = (tmp_path / "page.html").read_text()
    package.unlink()
    output(words, "1 models")  # not fetched again
    assert (tmp_path / "page.html").read_text() == first
    assert not re.search(r"""(?:src|href)=["'](?!data:)""", first)
    model = data_of(first)["models"][0]
    assert (model["name"], model["family"], model["rows"]) == ("sudoku-6x6", "sudoku", 6)
    assert gzip.decompress(base64.b64decode(model["files"]["step"])).startswith(b"\x08")  # an ONNX graph
    assert "const ort={Tensor:a,env:b};" in str(data_of(first)["worker"])


def test_the_runtime_is_the_pinned_one(tmp_path, monkeypatch):
    other = tmp_path / "other.tgz"
    other.write_bytes(npm_package(a=b"b"))
    with pytest.raises(ConfigError, match="its SHA-512 differs"):
        runtime.runtime(tmp_path / "kept", other)
    monkeypatch.setenv("NPM_CONFIG_REGISTRY", "http://x y")
    with pytest.raises(ConfigError, match=r"cannot be read .*; download it elsewhere"):
        runtime.fetched()
    assert not (tmp_path / "kept").exists()


def test_nothing_of_a_run_is_markup():
    hostile = "</script><script>alert(1)</script>"
    html = play_page([{"name": hostile, "title": hostile, "files": {}}], "const ort={};", b"")
    assert "alert(1)</script>" not in html
    assert data_of(html)["models"][0]["title"] == hostile


def test_what_cannot_be_is_refused(tmp_path, package, monkeypatch):
    refusal(["play", "--output", str(tmp_path)], "is a folder; type a file")
    refusal(["play", str(tmp_path / "none"), "--no-browser"], "none")
    words = ["play", "--output", str(tmp_path / "p.html"), "--no-browser", "--runtime", str(package)]
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    refusal([*words, "killer"], "ONNX graphs need onnxscript of the extra: pip install 'recursive-reasoners[onnx]'")


@pytest.mark.slow  # an ONNX export
def test_a_run_of_ones_own_stands_first(tmp_path, package):
    own = tmp_path / "mine"
    shutil.copytree(FOLDER / "addition", own)
    words = ["play", str(own), "--output", str(tmp_path / "p.html"), "--no-browser", "--runtime", str(package)]
    output(words, "2 models")
    models = data_of((tmp_path / "p.html").read_text())["models"]
    assert [model["name"] for model in models] == ["mine", "sudoku-6x6"]


def test_graphs_are_filled_with_any_weights_and_shipped_for_every_model_of_the_page():
    weights = {"a": np.arange(32, dtype=np.float16).reshape(4, 8), "b": np.ones(20, np.float32), "none": np.eye(9)}
    a, b = weights["a"].T.astype("<f4").tobytes(), weights["b"].tobytes()
    rest, holes = cut(b"begin" + a + b + b"end", weights)
    assert (rest, holes) == (b"beginend", [(5, "a", True), (5, "b", False)])
    assert filled(rest, holes, weights) == b"begin" + a + b + b"end"
    other = {"a": weights["a"] + 1, "b": weights["b"]}
    assert filled(rest, holes, other) == b"begin" + (weights["a"].T + 1).astype("<f4").tobytes() + b + b"end"
    assert {path.stem for path in GRAPHS.glob("*.json")} == set(shown())
    for name in shown():
        assert shipped(name)["made_from"] == made_from(name), f"{name} is another than play/graphs: make graphs"


@pytest.mark.slow  # an ONNX export
@pytest.mark.parametrize("name", shown())
def test_a_shipped_graph_is_what_the_exporter_makes(name):
    found, expected = shipped(name), exported(FOLDER / name, read_config(FOLDER / name / "config.json"), name)
    graphs, now = found.pop("files"), expected.pop("files")
    assert [graph for graph in now if graphs[graph] != now[graph]] == [], "the exporter makes others now: make graphs"
    del found["made_from"], found["summary"]
    assert found == json.loads(json.dumps(expected))
