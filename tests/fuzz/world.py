"""The small world that a case runs in: a set, two runs, an archive, an evaluation, a comparison and foreign weights.

WORLD/outside.txt, outside/      what no command is given
WORLD/here/                      where it runs; notes.txt lies in every folder of it
"""

import contextlib
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from harness import digest
from safetensors.torch import save_file

from reason.cli import main
from reason.interop.original import to_original
from reason.models.base import Shape
from reason.models.recursive import RecursiveConfig, RecursiveModel

TINY = [
    "model.hidden_size=16",
    "model.num_heads=2",
    "model.num_layers=1",
    "training.steps=4",
    "training.batch_size=4",
    "training.log_every=1",
    "training.checkpoint_every=1",
    "training.keep_checkpoints=2",
    "training.precision=fp32",
    "rollout.supervision_steps=2",
]
ARRAYS = ["inputs", "labels", "puzzle_identifiers", "puzzle_indices", "group_indices"]
STATE = ["weights.safetensors", "ema.safetensors", "state.safetensors", "state.json"]
BEGIN = ["train", "sudoku-4x4", "data=s4", "run=new", *TINY, "--max-steps", "1"]
RESUME = ["train", "run=run", "--resume"]
BOARD = "1..4 .... .... 4..1"
SOLVE = ["solve", "run", BOARD, "steps=1", "--restarts", "8"]
EVALUATE = ["evaluate", "run", "steps=1", "evaluation.boards=0"]
FIXTURES = Path(__file__).parents[1] / "datasets_gen/fixtures"
GENERATED = {
    "maze": "maze --size 6 --min-path 8 --train 6 --test 4",
    "addition": "addition --digits 2 --train 6 --test 4",
    "blank": "addition --digits 2 --blank-answer --train 6 --test 4",
    "arc": "import arc sources/arc_training_challenges.json sources/arc_evaluation_challenges.json "
    "--augmentations 2 --size 12",
    "csv": "import sudoku-csv sources/sudoku.csv",
}
NOTES = ["run", "run/checkpoints", "done", "done/evaluation", "s4", "weights", "."]
SETTINGS = "arch:\n  num_heads: 2\n  H_cycles: 1\n  L_cycles: 1\n  puzzle_emb_len: 1\n  seq_len: 16\n"


def make_world(folder: Path) -> str:
    """The undamaged world; returns the digest of its run where training goes on to the end."""
    here = folder / "here"
    here.mkdir(parents=True)
    (folder / "outside.txt").write_text("not yours")
    (folder / "outside").mkdir()
    (folder / "outside/results.json").write_text("{}")
    with contextlib.chdir(here):
        shutil.copytree(FIXTURES, "sources")
        sudoku = "sudoku --size 4 --train 6 --validation 2 --test 3"
        made = {f"sets/{name}": words for name, words in GENERATED.items()}
        for name, words in {"s4": f"{sudoku} --seed 1", "other": f"{sudoku} --seed 2", **made}.items():
            _do("generate", *words.split(), "--output-dir", name)
        shutil.copytree("sets", "good")
        _do("train", "sudoku-4x4", "data=s4", "run=run", *TINY, "training.monitor.every=2", "--max-steps", "3")
        _do("pack", "run", "a.tar.gz")
        shutil.copytree("run", "done")
        _do("train", "run=done", "--resume")
        _do("evaluate", "done", "steps=2", "name=old", "evaluation.boards=1")
        _do("compare", "done", "--out", "table")
        _foreign(Path("weights"))
        for place in NOTES:
            Path(place, "notes.txt").write_text("mine")
    return digest(here / "done")


def _do(*words: str) -> None:
    assert main(list(words)) == 0, words


def _foreign(folder: Path) -> None:
    """A model under the authors' names, in each format."""
    folder.mkdir()
    torch.manual_seed(0)
    config = RecursiveConfig(hidden_size=8, num_layers=1, num_heads=2, puzzle_emb_len=1)
    tensors = to_original(RecursiveModel(config, Shape(seq_len=16, vocab_size=6)))
    tensors = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
    torch.save(tensors, folder / "step_10")
    save_file(tensors, folder / "w.safetensors")
    np.savez(folder / "w.npz", **{f"param.{name}": tensor.numpy() for name, tensor in tensors.items()})
    (folder / "all_config.yaml").write_text(SETTINGS)


def at(file: str, damage: Callable[[Path], object]) -> Callable[[Path], object]:
    """Damage to a file of the world; one that a version does not write is left."""

    def apply(folder: Path) -> None:
        path = folder / "here" / file
        if path.exists():
            damage(path)

    return apply
