"""The files of docs/extending.md: a module, model, term, mixer, section and puzzle of one's own train and evaluate."""

import json
import re
import runpy
from pathlib import Path
from unittest.mock import Mock

import pytest
from conftest import one_line, output, refusal
from test_loop import hold_equal

from datasets_gen import puzzles
from reason import plugins
from reason.cli import main
from reason.config.overrides import override, read_config
from reason.errors import ConfigError
from reason.evaluation import suite
from reason.evaluation.evaluator import Evaluator
from reason.extensions.ablation.command import work
from reason.losses import TERMS, Term
from reason.models import FAMILIES, build_model
from reason.models.base import Shape
from reason.models.mixing import MIXERS
from reason.nn.geometry import Geometry
from reason.plugins import ADD_IMPORT
from reason.presets.tables import BASES
from reason.rollout import StepRecord, SupervisionStep
from reason.settings.base import Need
from reason.training.log import read_metrics

PAGE = (Path(__file__).parents[1] / "docs" / "extending.md").read_text()
FILES = {match[1]: match[0] for match in re.findall(r"```python\n(# (\w+\.py):.*?)```", PAGE, re.DOTALL)}
SHORT = ["training.steps=4", "training.batch_size=8", "training.log_every=1", "training.monitor.puzzles=0"]


@pytest.fixture(autouse=True)
def _registries_as_they_were():
    assert all(base.config for base in BASES.values()), "kept from now on, without what a file adds"
    registries = (FAMILIES, TERMS, MIXERS, puzzles.FAMILIES, plugins.IMPORTED)
    before = [dict(registry) for registry in registries]
    yield
    for registry, kept in zip(registries, before, strict=True):
        registry.clear()
        registry.update(kept)


@pytest.fixture(autouse=True)
def _files_of_the_page(here):
    for name, text in FILES.items():
        (here / name).write_text(text)


def test_a_model_with_a_term_trains_resumes_to_the_bit_and_evaluates(here, sudoku_4x4):
    more = ["--import", "my_term.py", "loss.weights.drift=0.1", "training.precision=fp32"]
    words = ["train", "my_model.py:mine", f"data={sudoku_4x4}", *SHORT, *more]
    assert main([*words, "run=whole"]) == 0
    assert main([*words, "run=run", "--max-steps", "2"]) == 0
    assert read_config(Path("run/config.json")).name == "mine"
    own = ["--import", "my_model.py", "--import=my_term.py"]
    assert main(["train", *own, "run=run", "--resume"]) == 0
    hold_equal(here / "run", here / "whole")
    for line in read_metrics(here / "run"):
        assert line["loss"] == pytest.approx(line["loss/lm"] + 0.1 * line["loss/drift"])
        assert line["loss/drift"] > 0
    assert main(["evaluate", "run", "steps=2", *own]) == 0
    (results,) = (here / "run/evaluation").glob("*/results.json")
    assert "mine" in json.loads(results.read_text())["preset"]
    pytest.importorskip("onnxscript")
    output("export run --onnx --import=my_model.py", "run-onnx")
    wrong = (here / "my_model.py").read_text().replace("zeros_like(context.x)", "zeros_like(context.x[:1])")
    (here / "wrong_model.py").write_text(wrong)
    typed = ["train", "wrong_model.py:mine", f"data={sudoku_4x4}", *SHORT]
    refusal(typed, "Pooled.initial_state: z has shape (1, 16, 64); (8, S, D) is needed")
    del FAMILIES["pooled"]
    plugins.IMPORTED.clear()
    refusal("evaluate run", f"the run was made with --import {here / 'my_term.py'}")


def test_a_plain_module_trains_resumes_evaluates_and_solves(here, sudoku_4x4):
    typed = [f"data={sudoku_4x4}", "--import", "my_module.py", "model.kind=Mine"]
    refusal(["train", "sudoku-4x4", *typed, "training.precision=bf16"], "type training.precision=amp-bf16")
    shorter = ["training.steps=120", "training.batch_size=32", "ema.decay=none", "run=run"]
    own = ["--import", "my_module.py"]
    assert main(["train", "sudoku-4x4", *typed, *shorter, "--max-steps", "60"]) == 0
    assert main(["train", "run=run", "--resume", *own]) == 0
    losses = [line["loss"] for line in read_metrics(here / "run")]
    assert losses[-1] < 0.7 * losses[0]
    assert main(["evaluate", "run", *own]) == 0
    (results,) = (here / "run/evaluation").glob("*/results.json")
    assert len({*json.loads(results.read_text())["exact_by_step"]}) == 1  # a second step changes nothing
    output(["solve", "run", "1234 3412 2143 432.", *own], "solved: the rules hold at step 1")
    wrong = (here / "my_module.py").read_text()
    (here / "flat.py").write_text(wrong.replace("Mine", "Flat").replace("places))", "places)).flatten(1)"))
    (here / "bare.py").write_text(wrong.replace("Mine", "Bare").replace("self, shape):", "self):"))
    for name, told in {
        "Flat": "Flat.forward: shape (8, 96); (8, 16, 6) is needed",
        "Bare": "Bare(shape) cannot be called: too many positional arguments; def __init__(self, shape) is needed",
        "Mine": "model: a model is recursive",
    }.items():
        FAMILIES.pop(name, None)
        plugins.IMPORTED.clear()
        more = [] if name == "Mine" else ["--import", f"{name.lower()}.py"]
        refusal(["train", "sudoku-4x4", f"data={sudoku_4x4}", *SHORT, f"model.kind={name}", *more], told)


def test_attributes_that_the_page_lists_exist():
    owners = {"**The geometry** has": Geometry, "The evaluator has": Evaluator, "A record has": StepRecord,
              "| field of `SupervisionStep` |": SupervisionStep}  # fmt: skip
    for words, owner in owners.items():
        listed = re.split(r"\n- |\n\n", PAGE.split(words)[1])[0]
        if "|---|" in listed:
            listed = "".join(re.findall(r"^\| (.*?) \|", listed, re.MULTILINE))
        for _ in range(2):  # remarks in parentheses may hold a shape in parentheses
            listed = re.sub(r" ?\([^()]*\)", "", listed)
        names = set(re.findall(r"`(\w+)`", listed))
        assert len(names) > 2
        assert names <= {*dir(owner), *owner.__annotations__}, words


@pytest.mark.parametrize(("changes", "words"), [
    ({"loss.weights.pad": "1"}, r"pad=1 needs a scratchpad, .* type model\.pad=true, or loss\.weights\.pad=0"),
    ({"loss.weights.q_halt": "1"}, r"needs a halting head \(q_halt\), which this config lacks: type loss"),
    ({"loss.weights.equil_z": "1"}, r"needs maps of the state .*: type loss\.weights\.equil_z=0"),
    ({"balance.kind": "alg-grad-norm"}, r"needs weights at which .*: type balance\.kind=fixed"),
    ({"optimizer.freeze_embedding_after": "1"}, r"needs an embedding .*: type optimizer\.freeze_embedding_after=none"),
    ({"training.compile": "inductor"}, r"=inductor needs networks .*: type training\.compile=none"),
])  # fmt: skip
def test_what_a_model_cannot_is_refused(changes, words):
    TERMS["pad"] = Term(Mock(), "a pad", needs=lambda _: [Need(False, "a scratchpad", "model.pad=true")])
    with pytest.raises(ConfigError, match=words):
        override(plugins.import_file("my_model.py").mine(), changes)


def test_a_mixer_and_a_section_are_listed_and_used(here, sudoku_4x4, monkeypatch):
    monkeypatch.setattr(suite, "CONSUMERS", {**suite.CONSUMERS})
    monkeypatch.setattr(suite, "SECTIONS", [*suite.SECTIONS])
    own = ["--import", "my_mixer.py"]
    output(["train", *own, "--help", "model.mixer"], "cross")
    assert main(["train", "sudoku-4x4", f"data={sudoku_4x4}", "run=run", *own, "model.mixer=cross", *SHORT]) == 0
    output(["evaluate", "run", "steps=2", "name=e", *own, "--import", "my_section.py"], "puzzles by wrong cells")
    results = json.loads(Path("run/evaluation/e/results.json").read_text())
    counts = {row["wrong"]: row["puzzles"] for row in results["wrong_cells"]}
    assert sum(counts.values()) == results["puzzles"]
    assert counts.get(0, 0) / results["puzzles"] == results["exact_by_step"][-1]
    page = Path("run/evaluation/e/report.html").read_text()
    assert re.search(r"<h2>Wrong cells(.|\n)*Certainty of a puzzle", page)
    assert Path("run/evaluation/e/wrong_cells.png").exists()
    Path("array.py").write_text(FILES["my_section.py"].replace('{"wrong_cells": rows}', '{"wrong_cells": wrong}'))
    del suite.CONSUMERS[plugins.import_file("my_section.py").WrongCells]
    said = "array.py, line 9: WrongCells.result: wrong_cells is not JSON (Object of type ndarray"
    one_line(["evaluate", "run", "steps=2", *own, "--import", "array.py"], said)
    with pytest.raises(ConfigError, match=r"model\.mixer=cross needs a grid"):
        build_model(read_config("run/config.json").model, Shape(seq_len=16, vocab_size=6))
    del MIXERS["cross"]
    plugins.IMPORTED.clear()
    line = refusal("evaluate run", "a mixer is attention, mlp, local, groups", f"--import {here / 'my_mixer.py'}\n")
    assert ADD_IMPORT not in line


def test_the_runs_of_an_ablation_know_the_file(here, sudoku_4x4, monkeypatch):
    begun = Mock()
    begun.return_value.poll.return_value = begun.return_value.returncode = 1
    words = ["ablate", "sudoku-4x4", f"data={sudoku_4x4}", "--import", "my_term.py", "loss.weights.drift=0,0.1"]
    with monkeypatch.context() as patched:
        patched.setattr("reason.extensions.ablation.local.subprocess.Popen", begun)
        assert main([*words, "seeds=1", "steps=1", *SHORT]) == 1
    plugins.IMPORTED.clear()
    del TERMS["drift"]
    *imports, folder, name = begun.call_args_list[1].args[0][3:]  # of python -m MODULE
    plugins.import_user_files(imports)
    assert work(Path(folder), name) == 0
    assert read_metrics(here / "runs/ablation-sudoku-4x4/01-seed0")[-1]["loss/drift"] > 0


def test_a_puzzle_is_verified_trained_and_solved():
    runpy.run_path("my_puzzle.py", run_name="__main__")
    output("generate verify data/latin --import my_puzzle.py", "every answer is right")
    assert main(["train", "sudoku-4x4", "data=data/latin", "run=run", *SHORT]) == 0
    assert main(["evaluate", "run", "steps=1"]) == 0
    (results,) = Path("run/evaluation").glob("*/results.json")
    assert json.loads(results.read_text())["valid_by_step"] is not None
    output(["solve", "run", "12__3412" + "4" * 8, "steps=1", "--restarts", "2"], "step 1", status=None)


REFUSED = {
    "missing": ("train none.py:mine", "none.py is not a Python file"),
    "misspelt": ("evaluate run --import my_modl.py", "my_modl.py is not a Python file; did you mean my_model.py?"),
    "a class": ("train my_module.py:Mine", "returned type; a preset returns a config: derive(Config(), {…})"),
    "no function": ("train my_term.py:mine", "has no function mine"),
    "broken": ("presets --import broken.py", "broken.py, line 1: ZeroDivisionError: division by zero"),
    "no Python": ("presets --import syntax.py", "syntax.py, line 2: SyntaxError: "),
    "no file": ("presets --import", "--import needs a Python file"),
}


@pytest.mark.parametrize(("words", "said"), REFUSED.values(), ids=REFUSED)
def test_a_file_that_cannot_be_used_is_refused(words, said, here):
    (here / "broken.py").write_text("1 / 0\n")
    (here / "syntax.py").write_text("\ndef (:\n")
    one_line(words, said)


FAULTY = """import torch
from reason.losses import TERMS, Term
from reason.models.mixing import MIXERS, StructuredMixer
def absent(step):
    return open("absent.npy")
def still(step):
    return step.readouts[-1].logits.detach().mean()
found = {"absent": absent, "still": still, "number": lambda _: 1.0, "rows": lambda u: u.active * 1.0}
for name, function in found.items():
    TERMS[name] = Term(function, name)
class Mixer(torch.nn.Module):
    def __init__(self, config, shape):
        super().__init__()
        setattr(self, "last" if config.mixer == "nameless" else "out", torch.nn.Linear(*2 * [config.hidden_size]))
        self.cut = config.mixer == "short"
    def forward(self, h, geometry):
        return self.out(h)[:, self.cut :]
MIXERS |= {name: StructuredMixer(Mixer, name) for name in ("nameless", "short", "plain")}
"""
FAULTS = {
    "loss.weights.absent=1": ["faulty.py, line 5: FileNotFoundError: ", "; this is a fault of your file: its "],
    "loss.weights.number=1": ["faulty.py, line 8: <lambda> returned 1.0; it must return a scalar tensor: step."],
    "loss.weights.rows=1": ["returned a tensor of shape (8,); it must return a scalar tensor: step.row_mean(rows)"],
    "loss.weights.still=1": ["line 6: still returned ", " without a gradient; leave out ", "loss.weights.still=0"],
    "model.mixer=nameless": ["line 11: Mixer has no `out`: name the last Linear of model.mixer=nameless `out`"],
    "model.mixer=short": ["Mixer: for h in torch.float32 of (1, 16, ", "it gave (1, 15, ", "return h's shape"],
    "model.mixer=plain training.precision=bf16": ["for h in torch.bfloat16 of", "as reason.nn.linear.Linear does"],
    "model.mixer=shor": ["got shor; did you mean short? ", ADD_IMPORT],
    "loss.weights.rowss=1": ["unknown setting loss.weights.rowss; did you mean loss.weights.rows=1? ", ADD_IMPORT],
    "loss.margin.floor=1": ["unknown setting loss.margin.floor; see: ", ADD_IMPORT],
}  # fmt: skip


def test_a_fault_of_ones_own_file_is_named_as_one(here, sudoku_4x4, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(here))
    (here / "faulty.py").write_text(FAULTY)
    for typed, said in FAULTS.items():
        words = ["sudoku-4x4", "--import", "faulty.py", f"data={sudoku_4x4}", *SHORT, "training.precision=fp32"]
        one_line(["train", *words[: -1 if "bf16" in typed else None], *typed.split()], *said)


def test_a_run_imports_nothing_by_itself(here, sudoku_4x4):
    words = ["train", "sudoku-4x4", f"data={sudoku_4x4}", "run=run", *SHORT, "--import", "my_term.py"]
    idle = "loss.drift.least=0.2 changes nothing in this training: loss.weights.drift=0\n"
    output([*words, "loss.drift.least=0.2"], idle, f"next: python evaluate.py run --import {here / 'my_term.py'}")
    plugins.IMPORTED.clear()
    refusal("train run=run --resume", f"may change what is trained: add --import {here / 'my_term.py'}")
    record = json.loads(Path("run/config.json").read_text())
    assert record["imports"] == [str(here / "my_term.py")]
    record["imports"], record["config"]["model"]["depth"] = [str(here / "bomb.py")], 3
    (here / "bomb.py").write_text("raise SystemExit('ran')\n")
    Path("run/config.json").write_text(json.dumps(record))
    with pytest.raises(ConfigError, match=r"unknown setting .*--import .*bomb\.py"):
        read_config(Path("run/config.json"))
