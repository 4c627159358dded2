"""What the documents point to is there: files, functions, tests, pictures, settings; what is installed has its hash."""

import re
import shlex
from pathlib import Path

import pytest
import yaml

from reason.cli import CORE
from reason.cli.evaluate import SHORTCUTS
from reason.config.describe import describe_settings, refuse_unreadable
from reason.config.overrides import leaves, override, split_arguments
from reason.config.schema import Config
from reason.plugins import COMMANDS, load_extensions
from reason.presets import PRESETS, preset

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]
FOLDERS = ("reason", "datasets_gen", "tests", "benchmarks")
TEXTS = [*DOCUMENTS, *(path for folder in FOLDERS for path in ROOT.glob(f"{folder}/**/*.py"))]
WORKFLOWS = sorted(ROOT.glob(".github/workflows/*.yml"))
PAPERS = "HRM|TRM|CMM|STARS|Ouro|blind spot"
load_extensions()
KNOWN = {*CORE, *COMMANDS}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_files_and_functions_that_are_named_exist(document):
    text = document.read_text()
    fenced = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
    assert re.findall(r"^(?:reason|python3?|pip) .*", fenced.sub("", text), re.MULTILINE) == [], "a command is no code"
    for file, _, name in re.findall(r"`([\w./-]+\.py)(: (\w+))?`", text.replace("`pretrain.py`", "")):  # HRM's, TRM's
        path = next((p for p in (ROOT / file, ROOT / "reason" / file) if p.exists()), None)
        assert path is not None, f"{document.name} names {file}"
        if name:
            assert re.search(rf"^\s*(def|class) {name}\b", path.read_text(), re.MULTILINE), f"{file} has no {name}"
    if document.parent.name != "log":  # which names scripts of old commits
        assert [name for name in re.findall(r"`python (\w+/\w+\.py)", text) if not (ROOT / name).exists()] == []
    for picture in re.findall(r"!\[[^\]]*\]\(([^)]+)(?<!badge\.svg)\)", text):
        assert (document.parent / picture).exists(), f"{document.name} shows {picture}"


def test_lists_of_pages_claims_and_files_are_whole():
    known = set(re.findall(r'"([\w-]+\.md)"', (ROOT / "zensical.toml").read_text()))
    assert {path.name for path in ROOT.glob("docs/*.md")} <= known
    claims = (ROOT / "docs/results.md").read_text().partition("| paper | claim")[2].partition("\n\n")[0]
    assert f"tests of {len(claims.splitlines()) - 2} claims" in (ROOT / "README.md").read_text()
    listed = set(re.findall(r"^  ([a-z_]+(?:/|\.py)) ", (ROOT / "docs/architecture.md").read_text(), re.MULTILINE))
    packages = {f"{path.parent.name}/" for path in ROOT.glob("reason/*/__init__.py")}
    assert packages <= listed
    assert all((ROOT / "reason" / name).exists() for name in listed)


def test_sections_and_settings_that_are_named_exist():
    """§ is a section of docs/math.md, by its number, or of a paper in the references, by the paper's name."""
    text = (ROOT / "docs/math.md").read_text()
    numbered = re.findall(r"^## (\d+)\. ", text, re.MULTILINE)
    assert list(map(int, numbered)) == list(range(1, len(numbered) + 1))
    listed = (ROOT / "docs/references.md").read_text()
    assert all(f"| {name}" in listed for name in PAPERS.split("|"))
    found = [
        (path, *match)
        for path in TEXTS
        for match in re.findall(r"(.{0,24})§(\d[\d.]*\d|\d)", " ".join(path.read_text().split()))
    ]
    assert len(found) > 20
    for path, before, number in found:
        ours = path.name == "math.md" or re.search(r"math\.md\)? $", before)
        of_a_paper = re.search(rf"({PAPERS}) $", before)
        assert of_a_paper or (ours and number in numbered), f"{path}: §{number} of what?"
    sections = "model|rollout|loss|balance|optimizer|ema|training|evaluation"
    known = {*leaves(Config().model_dump()), *(row.key for row in describe_settings()), "model.kind"}
    named = set(re.findall(rf"`((?:{sections})\.[a-z_.]+[a-z_])(?:=[^`]*)?`", text))
    missing = {key for key in named if key not in known and not any(k.startswith(f"{key}.") for k in known)}
    assert missing <= {key for key in missing if key.startswith("loss.schedules")}, missing


@pytest.mark.parametrize("page", ["README.md", "docs/library.md"])
def test_the_python_of_a_page_runs(page, here):
    """Few steps of a narrow model, which solves nothing: a second of restarts is enough."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    assert blocks
    names = {"FEW": {"steps": 4, "batch_size": 8}, "NARROW": {"hidden_size": 16}}
    for block in blocks:
        brief = block.replace("max_steps=10", "max_steps=2")
        brief = re.sub(r'training={"steps": \d+}', "training=FEW, model=NARROW", brief)
        brief = re.sub(r"(evaluate\(steps=|steps\(\w+\.batch\(\), )\d+", r"\g<1>2", brief)
        brief = re.sub(r'solve\(("[^"]+")\)', r"solve(\1, seconds=1)", brief)
        exec(compile(brief, page, "exec"), names)


def commands(page):
    """The words of every command line in a page's blocks and tables; `reason train` for `python train.py`."""
    text = page.read_text()
    lines = [line for block in re.findall(r"```bash\n(.*?)```", text, re.DOTALL) for line in block.splitlines()]
    lines += re.findall(r"^\| `(python [^`]+)`", text, re.MULTILINE)
    own = {
        "python train.py": "reason train",
        "python evaluate.py": "reason evaluate",
        "python -m benchmarks.bench": "reason bench",
        "torchrun --nproc-per-node 8 ": "",
    }
    found = []
    for line in lines:
        for script, command in own.items():
            line = line.replace(script, command).replace(f"{command}train.py", "reason train")
        words = shlex.split(line, comments=True)
        found += [words[1:]] if words[:1] == ["reason"] else []
    return found


def test_every_command_has_its_line_and_an_example():
    page = ROOT / "docs/commands.md"
    listed = re.findall(r"^\| `reason ([a-z-]+)` \|", page.read_text(), re.MULTILINE)
    assert listed == list(dict.fromkeys(listed))
    assert set(listed) == KNOWN
    shown = {words[0] for words in commands(page)}
    assert KNOWN - shown <= {"generate", "demo", "models"}


@pytest.mark.parametrize("page", ["README.md", "docs/commands.md", "docs/recipes.md"])
def test_commands_name_presets_and_settings_that_exist(page):
    found = commands(ROOT / page)
    assert found
    for command, *words in found:
        assert command in {*KNOWN, "bench"}
        words, pairs = split_arguments(words, SHORTCUTS)
        for own in ("run", "seeds"):
            pairs.pop(own, None)
        if command == "train" and (named := [word for word in words if word in PRESETS]):
            override(preset(named[0]).config(), pairs)
        elif command == "evaluate":
            refuse_unreadable(pairs)
        elif command in ("ablate", "bench"):
            for name in words[0].split(","):
                name += "-1" if "--as-published" in words else ""  # a table, whose rows are presets
                override(preset(name).config(), {key: value.split(",")[-1] for key, value in pairs.items()})


@pytest.mark.slow
def test_the_notebook_runs(tmp_path):
    nbformat = pytest.importorskip("nbformat")  # with the extra `dev`
    client, file = pytest.importorskip("nbclient"), ROOT / "examples/tour.ipynb"
    notebook = nbformat.read(file, as_version=4)
    notebook.cells[2].source = notebook.cells[2].source.replace("steps = 300", "steps = 3")
    client.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert all(cell.execution_count for cell in notebook.cells if cell.cell_type == "code")
    kinds = [kind for cell in notebook.cells for output in cell.get("outputs", []) for kind in output.get("data", {})]
    assert kinds.count("image/png") == 2, "the reader's own plots are drawn in the page"
    assert len(list(tmp_path.glob("runs/sudoku-4x4*-1/evaluation/*/report.html"))) == 2
    assert file.stat().st_size < 200_000, "bytes, with its outputs"


def versions(file):
    found = re.findall(r"^([\w.-]+)==([^\s;]+)", (ROOT / file).read_text(), re.MULTILINE)
    return {re.sub("[-_.]+", "-", name).lower(): version for name, version in found}


def test_the_image_and_the_hashes_are_of_the_tested_versions():
    lines = [line for line in (ROOT / "Dockerfile").read_text().splitlines() if not line.startswith("#")]
    assert len(lines) <= 10
    installed = [line for line in lines if "pip install" in line]
    assert all("-c constraints.txt" in line for line in installed)
    readme = (ROOT / "README.md").read_text()
    assert re.search(r"ARG TORCH_INDEX=(\S+)", "\n".join(lines))[1] in readme
    for workflow in re.findall(r"actions/workflows/(\S+?\.yml)/badge", readme):
        assert (ROOT / ".github/workflows" / workflow).is_file()
    assert versions("constraints-hashed.txt") == versions("constraints.txt")
    assert len(versions("constraints.txt")) > 100


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_pin_their_actions_and_may_do_little(workflow):
    for action in re.findall(r"uses: (\S+)", workflow.read_text()):
        assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", action)
    jobs = yaml.safe_load(workflow.read_text())
    assert jobs["permissions"] in ({}, {"contents": "read"})
    writers = {name for name, job in jobs["jobs"].items() if "write" in (job.get("permissions") or {}).values()}
    assert writers <= {"publish"}
