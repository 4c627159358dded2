"""The commands as a newcomer types them: the way through, and every way to go wrong."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import NARROW, output, refusal

from reason.cli import main
from reason.training.checkpoint import checkpoints

ROOT = Path(__file__).parents[2]


def train(data: Path, *words: str) -> int:
    return main(["train", "sudoku-4x4", f"data={data}", *NARROW, *words])


def test_generate_train_evaluate(sudoku_4x4: Path, here: Path) -> None:
    output(
        ["train", "sudoku-4x4", f"data={sudoku_4x4}", *NARROW, "run=runs/mine"], "next: python evaluate.py runs/mine"
    )
    folder = here / "runs/mine/evaluation/sudoku-4x4-test-T5"
    output("evaluate runs/mine steps=5", f"report {folder.relative_to(here)}/report.html")
    results = json.loads((folder / "results.json").read_text())
    assert len(results["exact_by_step"]) == len(results["cell_by_step"]) == results["steps"] == 5
    assert results["puzzles"] == 12
    assert results["weights"] == "ema"
    assert {path.name for path in folder.iterdir()} >= {
        "results.json", "boards.json", "report.html", "accuracy_by_step.csv", "accuracy_by_step.png", "training.png",
        ".written.json",
    }  # fmt: skip
    config = json.loads((here / "runs/mine/config.json").read_text())
    assert config["config"]["seed"] == 0
    assert config["version"]
    shape = config["shape"]
    assert (shape["seq_len"], shape["vocab_size"], shape["num_puzzle_identifiers"]) == (16, 6, 1)


def test_without_data_a_preset_makes_its_set_once(here: Path) -> None:
    output(["train", "sudoku-4x4", *NARROW], "making it: python -m datasets_gen sudoku --size 4")
    made = (here / "data/sudoku-4x4/train/all__inputs.npy").stat().st_mtime_ns
    assert "making it" not in output(["train", "sudoku-4x4", *NARROW, "seed=1"])
    assert (here / "data/sudoku-4x4/train/all__inputs.npy").stat().st_mtime_ns == made
    assert {path.name for path in (here / "runs").iterdir()} == {"sudoku-4x4-1", "sudoku-4x4-2"}
    told = " ".join(output("evaluate").split())
    assert "no run named; taking the newest: runs/sudoku-4x4-2" in told


def test_seeds_reproduce(sudoku_4x4: Path, here: Path) -> None:
    for run, seed in (("a", 7), ("b", 7), ("c", 8)):
        assert train(sudoku_4x4, f"run={run}", f"seed={seed}") == 0
    a, b, c = ((checkpoints(here / run)[-1] / "weights.safetensors").read_bytes() for run in "abc")
    assert a == b != c


def test_resume_goes_on_and_says_when_there_is_nothing_to_do(sudoku_4x4: Path, here: Path) -> None:
    words = ["train", "sudoku-4x4", f"data={sudoku_4x4}", *NARROW]
    output([*words, "run=r", "--max-steps", "2"], "go on with: python train.py run=r --resume")
    for steps in ("1", "2"):
        refusal(["train", "run=r", "--resume", "--max-steps", steps], f"--max-steps {steps}: r is at step 2 already")
    assert main(["train", "run=r", "--resume"]) == 0
    assert checkpoints(here / "r")[-1].name == "step-000004"
    refusal("train run=r --resume", "r is finished (4 steps); next: python evaluate.py r")
    output([*words, "run=q", "--max-minutes", "0.0001"], "stopped by --max-minutes 0.0001 at step 1, saved")


WRONG = {
    "no preset": (["train"], "one preset is needed, got none; try: python train.py sudoku-6x6"),
    "two presets": (["train", "a", "b"], "got a b"),
    "unknown preset": (["train", "sudoku6x6"], "did you mean sudoku-6x6?"),
    "unknown key": (["train", "sudoku-4x4", "model.hiden_size=3"], "did you mean model.hidden_size=3?"),
    "an option for a setting": (["train", "sudoku-4x4", "--lr", "1e-4"], "key=value, this one optimizer.lr=1e-4"),
    "an option of others": (["train", "sudoku-4x4", "--global_batch_size=8"], "this one training.batch_size=8"),
    "an option misspelt": (["train", "sudoku-4x4", "--max_steps", "8"], "did you mean --max-steps?"),
    "an option without meaning": (["train", "sudoku-4x4", "--frob"], "options are --resume, --max-steps"),
    "an option's bad value": (["train", "sudoku-4x4", "--max-steps", "many"], "invalid int value: 'many'"),
    "an option for a word": (["evaluate", "--steps", "64"], "this one steps=64"),
    "help of nothing": (["train", "--help", "schedule"], "did you mean optimizer.schedule?"),
    "the name of a family": (["train", "trm"], "trm-att-sudoku or trm-mlp-sudoku or trm-att-maze"),
    "the name of many": (["train", "cmm"], "`reason presets cmm-` lists the 82"),
    "wrong type": (["train", "sudoku-4x4", "training.steps=many"], "training.steps=many"),
    "out of range": (["train", "sudoku-4x4", "optimizer.lr=0"], "greater than 0"),
    "missing set": (
        ["train", "sudoku-4x4", "data=nowhere"],
        "no dataset at nowhere; make one like the preset's own with `python -m datasets_gen sudoku --size 4",
    ),
    "no such device": (["train", "sudoku-4x4", "device=cuda:77"], "device=cuda:77 is not available here"),
    "bad limit": (["train", "sudoku-4x4", "--max-steps", "0"], "--max-steps 0: must be above 0"),
    "resume nothing": (["train", "--resume"], "type run=DIR"),
    "resume nowhere": (["train", "run=nowhere", "--resume"], "no run at nowhere"),
    "evaluate nothing": (["evaluate"], "no run named and none under runs/"),
    "evaluate nowhere": (["evaluate", "nowhere"], "no run at nowhere"),
    "a model misspelt": (["solve", "sudoko", "1..."], "did you mean sudoku?"),
    "a model's set": (
        ["evaluate", "sudoku-6x6"],
        "make one with `python -m datasets_gen sudoku --size 6 --train 2500 --validation 500 --test 1000 --seed 0 "
        "--output-dir data/sudoku-6x6`",
    ),
    "an empty maze": (["solve", "maze", ""], "the maze is empty"),
    "a maze in one line": (["solve", "maze", "S....G"], "draw it in lines"),
    "evaluate two": (["evaluate", "a", "b"], "one run at a time"),
    "bad minutes": (["train", "sudoku-4x4", "--max-minutes", "nan"], "--max-minutes nan: must be above 0"),
    "shortcut and long form": (["train", "sudoku-4x4", "data=a", "data.directory=b"], "given twice: a and b"),
    "show no preset": (["presets", "sudoku6x6"], "did you mean sudoku-6x6?"),
}


@pytest.mark.parametrize(("arguments", "words"), WRONG.values(), ids=WRONG)
def test_bad_input(arguments: list[str], words: str, here: Path) -> None:
    error = refusal(arguments, words)
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert list(here.iterdir()) == []  # nothing half-written


def test_a_folder_that_holds_a_run_is_not_overwritten(half: Path, sudoku_4x4: Path) -> None:
    """Nor is what is left of one built upon."""
    words = ["train", "sudoku-4x4", f"data={sudoku_4x4}", *NARROW, "run=half", "seed=3"]
    before = (half / "config.json").read_bytes()
    refusal(words, "half already holds a run: type --resume to go on with it, or another run=DIR")
    assert (half / "config.json").read_bytes() == before
    (half / "config.json").unlink()
    refusal(words, "already holds a run")


def test_a_trained_model_is_read_not_rebuilt(half: Path) -> None:
    refusal("evaluate half step=4", "unknown setting step;")
    for width in (32, 16):  # 16 is its own
        for command in ("evaluate half", "export half out", "export half out --onnx"):
            refusal(f"{command} model.hidden_size={width}", "model.hidden_size cannot change for a trained model")
    for words in (["run=half"], ["half", "evaluation.weights=raw"], ["half", "model.l_cycles=4"]):
        assert main(["evaluate", *words, "steps=2"]) == 0
    names = {path.name for path in (half / "evaluation").iterdir()}
    assert names == {f"sudoku-4x4-test-T2{end}" for end in ("", "-weights=raw", "-l_cycles=4")}


def test_presets_are_listed_and_shown() -> None:
    out = output("presets", "sudoku-6x6", "reason presets cmm-")
    assert "cmm-5-1" not in out
    out = output("presets cmm-5-", "cmm-5-1")
    assert "sudoku-6x6" not in out
    output("presets sudoku-6x6", "optimizer.lr")


def test_usage_and_unknown_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert main([]) == 2
    assert main(["trian"]) == 2
    assert "did you mean train?" in capsys.readouterr().err


@pytest.mark.parametrize("script", ["train.py", "evaluate.py"])
def test_the_scripts_are_doors_to_the_same_code(script: str, here: Path) -> None:
    done = subprocess.run([sys.executable, ROOT / script, "nowhere"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")


def test_a_trained_map_is_read_as_an_ode_and_with_noise(sudoku_4x4: Path, here: Path) -> None:
    """Each way of moving the state is a reading of its own; the trained one is that of one Euler step."""
    assert train(sudoku_4x4, "run=runs/mine", "model.noise=additive") == 0

    def cells(*words: str) -> list[float]:
        assert main(["evaluate", "runs/mine", "steps=2", "training.precision=fp32", *words]) == 0
        newest = max((here / "runs/mine/evaluation").iterdir(), key=lambda path: path.stat().st_mtime_ns)
        return json.loads((newest / "results.json").read_text())["cell_by_step"]

    still = ["model.noise=none"]
    plain = cells(*still)
    assert cells(*still, "model.substeps=1", "name=euler") == plain
    for words in (["rk4", "model.substeps=2"], ["heun"]):
        assert len(cells(*still, f"model.integrator={words[0]}", *words[1:])) == 2
    assert len(cells(*still, "model.equation=averaged", "model.substeps=2")) == 2
    assert len(cells("model.noise_when=always", "model.sigma=2")) == 2
    refusal("evaluate runs/mine model.integrator=rk4", "type model.noise=none")
