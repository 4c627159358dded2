"""Downloads ONNX Runtime Web (the WebAssembly build of its npm package) once, checks and stores it."""

from __future__ import annotations

import base64
import gzip
import hashlib
import http.client
import io
import os
import re
import tarfile
import urllib.request
from pathlib import Path

from datasets_gen.scratch import published
from reason.errors import ConfigError

VERSION = "1.30.0"
INTEGRITY = "q0y+JrrtukXSzsBWEMccVfqX25LRmosXHF+CaRJmg8pZClzcV7svNc4rKY3jL02Vb7QmRMDs1SigqR4CXAfKYQ=="  # SHA-512
ARCHIVE = f"onnxruntime-web-{VERSION}.tgz"
SCRIPT, BINARY = "package/dist/ort.wasm.bundle.min.mjs", "package/dist/ort-wasm-simd-threaded.wasm"
PACKAGE = f"/onnxruntime-web/-/{ARCHIVE}"
KEPT = Path(__file__).parent / "built"  # in a wheel: files from `make play`


def address() -> str:
    """Return the registry of the package; the environment variable NPM_CONFIG_REGISTRY applies, as for npm."""
    return os.environ.get("NPM_CONFIG_REGISTRY", "https://registry.npmjs.org").rstrip("/") + PACKAGE


def fetched() -> bytes:
    """Fetch the package, 33 MB."""
    try:
        with urllib.request.urlopen(address(), timeout=30) as answer:
            package: bytes = answer.read()
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise ConfigError(
            f"{address()} cannot be read ({error}); download it elsewhere and type the file: --runtime {ARCHIVE}"
        ) from None
    return package


def unpacked(package: bytes, source: str) -> tuple[str, bytes]:
    """Return the script, whose last line names `ort`, and the binary, compressed by gzip."""
    if base64.b64encode(hashlib.sha512(package).digest()).decode() != INTEGRITY:
        raise ConfigError(f"{source} is not onnxruntime-web {VERSION}: its SHA-512 differs")
    with tarfile.open(fileobj=io.BytesIO(package), mode="r|gz") as archive:  # 145 MB unpacked: read once
        files = {one.name: archive.extractfile(one).read() for one in archive if one.name in (SCRIPT, BINARY)}  # type: ignore[union-attr]
    return as_script(files[SCRIPT].decode()), gzip.compress(files[BINARY], 6, mtime=0)


def as_script(module: str) -> str:
    """Return an ES module as a plain script that defines `ort`; pages from file:// cannot start module workers."""
    code, _, exports = module.rpartition("export{")
    names = re.findall(r"([\w$]+) as ([\w$]+)", exports.partition("}")[0])
    listed = ",".join(f"{outside}:{inside}" for inside, outside in names if outside != "default")
    return f"{code.replace('import.meta.url', 'self.location.href')}const ort={{{listed}}};"


def runtime(folder: Path, archive: Path | None = None) -> tuple[str, bytes]:
    """Return script and compressed binary, from `folder` or else from the package, then stored in `folder`."""
    script, binary = folder / f"ort-{VERSION}.js", folder / f"ort-{VERSION}.wasm.gz"
    if not (script.exists() and binary.exists()):
        package = fetched() if archive is None else archive.read_bytes()
        text, packed = unpacked(package, address() if archive is None else str(archive))
        folder.mkdir(parents=True, exist_ok=True)
        for path, content in ((binary, packed), (script, text.encode())):
            with published(path, replace=True) as part:
                part.write_bytes(content)
    return script.read_text(encoding="utf-8"), binary.read_bytes()
