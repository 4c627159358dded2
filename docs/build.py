"""The site in build/site: `make docs`.

Pages of docs/ and a few files beside it are staged in build/docs, with their links turned; zensical builds them;
equations become MathML, so that a page needs no script for them; then every link of every page is followed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from html import unescape
from pathlib import Path

from latex2mathml.converter import convert

ROOT = Path(__file__).resolve().parents[1]
DOCS, STAGED, SITE = ROOT / "docs", ROOT / "build/docs", ROOT / "build/site"
BESIDE = {  # files outside docs/ that are pages of the site
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "benchmarks/runs/README.md": "log/weights.md",
    "examples/one_file.py": "one_file.md",
    "examples/tour.ipynb": "tour.md",
}
MODEL, SET = "sudoku-6x6", "sudoku --size 6 --train 2500 --validation 500 --test 1000 --seed 0"  # of the report
Link = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)(#[^)\s]*)?\)")


def staged(file: Path) -> Path | None:
    """Where a file of the repository lies among the staged pages; None where it is no page."""
    name = file.relative_to(ROOT).as_posix()
    if name == "README.md":
        return STAGED / "index.md"
    if name in BESIDE:
        return STAGED / BESIDE[name]
    return STAGED / file.relative_to(DOCS) if file.is_relative_to(DOCS) else None


def relinked(text: str, source: Path, target: Path) -> str:
    """A page's text with its links as they are from `target`."""

    def turned(found: re.Match[str]) -> str:
        file = (source.parent / found[1]).resolve()
        said = f"error: {source.relative_to(ROOT)} links to {found[1]}"
        if not file.exists():
            raise SystemExit(f"{said}, which is not there")
        page = staged(file)
        if page is None:
            raise SystemExit(f"{said}: name it in BESIDE of docs/build.py")
        return f"]({Path(os.path.relpath(page, target.parent)).as_posix()}{found[2] or ''})"

    return Link.sub(turned, text)


def unbroken(text: str) -> str:
    """A page's text whose figures in tables stay on one line, with their deviation and unit."""
    rows = re.compile(r"^\|.*$", re.MULTILINE)
    return rows.sub(lambda row: re.sub(r"(?<=\d) (?=[%±])|(?<=±) (?=\d)", "\u00a0", row[0]), text)


def stage() -> None:
    """Copy pages and pictures to build/docs."""
    shutil.rmtree(STAGED, ignore_errors=True)
    shutil.copytree(DOCS, STAGED, ignore=shutil.ignore_patterns("*.py", "*.yaml", "__pycache__"))
    for page in STAGED.rglob("*.md"):
        source = DOCS / page.relative_to(STAGED)
        page.write_text(unbroken(relinked(source.read_text(), source, page)))
    for name, place in BESIDE.items():
        source, page = ROOT / name, STAGED / place
        text = source.read_text()
        if source.suffix == ".py":
            title = "# One file\n\n`examples/one_file.py`: the whole idea on torch and numpy alone.\n"
            text = f"{title}\n```python\n{text.rstrip()}\n```\n"
        elif source.suffix == ".ipynb":
            text = notebook(json.loads(text))
        else:
            text = relinked(text, source, page)
        page.write_text(text)
    framed("evaluation.md", "report", "An example", "The page of an evaluation")
    framed("play.md", "play", "The page", "A page in which trained networks solve puzzles")
    (STAGED / "report").mkdir()
    shutil.copy(report(), STAGED / "report/index.html")


def framed(page: str, name: str, said: str, title: str) -> None:
    """Put the page NAME/index.html into a frame, where <!-- NAME --> stands."""
    frame = f'<iframe class="report" src="{name}/index.html" title="{title}" loading="lazy"></iframe>'
    text = f"{said}, or [in a window of its own]({name}/index.html):\n\n{frame}\n"
    (STAGED / page).write_text((STAGED / page).read_text().replace(f"<!-- {name} -->", text))


def notebook(of: dict[str, list[dict[str, object]]]) -> str:
    """A notebook as Markdown: text, code, and of its outputs text and pictures."""
    parts: list[str] = []
    for cell in of["cells"]:
        source = "".join(cell["source"])  # type: ignore[arg-type]
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        for output in cell.get("outputs", []):  # type: ignore[attr-defined]
            data = output.get("data", {})
            if "image/png" in data:
                encoded = "".join(data["image/png"]).replace("\n", "")
                parts.append(f'<p class="notebook"><img alt="output" src="data:image/png;base64,{encoded}"></p>')
            elif text := "".join(output.get("text", data.get("text/plain", []))):
                parts.append(f"```text\n{text.rstrip()}\n```")
    return "\n\n".join(parts) + "\n"


def report() -> Path:
    """The page of an evaluation of a shipped model; made once, seconds."""
    folder = ROOT / "build/report"
    page = folder / f"runs/{MODEL}/evaluation/site/report.html"
    if not page.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        commands = (
            f"datasets_gen {SET} --output-dir data/{MODEL}",
            f"reason evaluate {MODEL} steps=16 evaluation.limit=300 name=site",
        )
        for command in commands:
            if not (command.startswith("datasets_gen") and (folder / f"data/{MODEL}").is_dir()):
                subprocess.run([sys.executable, "-m", *command.split()], cwd=folder, env=environment, check=True)
    return page


def equations() -> None:
    """TeX between the marks of arithmatex → MathML."""

    def block(found: re.Match[str]) -> str:
        return f'<div class="equation">{convert(unescape(found[1]), display="block")}</div>'

    def inline(found: re.Match[str]) -> str:
        return convert(unescape(found[1]))

    for page in SITE.rglob("*.html"):
        text = page.read_text()
        text = re.sub(r'<div class="arithmatex">\\\[(.*?)\\\]</div>', block, text, flags=re.DOTALL)
        text = re.sub(r'<span class="arithmatex">\\\((.*?)\\\)</span>', inline, text, flags=re.DOTALL)
        page.write_text(text)


def check_links() -> None:
    """Follow every link within the site, its anchor too; refuse what another server would have to bring."""
    texts = {page: page.read_text() for page in SITE.rglob("*.html")}
    anchors = {page: set(re.findall(r'\bid="?([^"\s>]+)', text)) for page, text in texts.items()}
    faults = []
    for page, text in texts.items():
        for name, value in re.findall(r'\s(href|src)="?([^"\s>]+)', text):
            address, _, anchor = unescape(value).partition("#")
            if re.match(r"(https?:)?//", address):
                faults += [f"{page}: {address} is fetched from another server"] if name == "src" else []
                continue
            if page.name == "404.html" or re.match(r"[a-z]+:", address):
                continue
            file = (page.parent / address).resolve() if address else page
            file = file / "index.html" if file.is_dir() else file
            if not file.exists():
                faults.append(f"{page.relative_to(SITE)}: no {address}")
            elif anchor and file in anchors and anchor not in anchors[file] and not anchor.startswith("__"):
                faults.append(f"{page.relative_to(SITE)}: no #{anchor} in {file.relative_to(SITE)}")
    if faults:
        raise SystemExit("error: " + "\nerror: ".join(sorted(set(faults))))
    print(f"{len(texts)} pages in {SITE.relative_to(ROOT)}, every link followed")


def main() -> None:
    """Stage, build, check."""
    stage()
    shutil.rmtree(SITE, ignore_errors=True)
    zensical = Path(sys.executable).with_name("zensical")
    subprocess.run([zensical, "build", "--clean", "--strict"], cwd=ROOT, check=True)
    equations()
    check_links()


if __name__ == "__main__":
    main()
